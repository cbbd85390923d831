import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { startCommand } from '../command.ts'
import { inNamespace } from '../namespaces.ts'
import type { AddressPair, LabPlan, NodePlan } from '../plan.ts'
import type { Pod } from './kinds.ts'
import {
  createPodNetwork,
  inPod,
  podNamespace,
  removePodNetwork,
  resolverFile,
  writeResolver,
} from './pod-network.ts'

/** Where a pod of the lab runs and with what. */
export interface PodPlace {
  readonly plan: LabPlan
  readonly node: NodePlan
  readonly address: AddressPair
  /** The pod's link on its node; null: it uses the node's own network (`hostNetwork`). */
  readonly hostLink: string | null
  /** The lab's directory and that of its logs. */
  readonly dir: string
  readonly logs: string
  /** Variables for the pod's program besides those that tell who it is. */
  readonly env: Readonly<Record<string, string>>
}

/** Program of a pod, by the last part of its image's name; every image that is not listed is an echo server. */
const PROGRAMS: Readonly<Record<string, string | null>> = { dns: 'dns', client: null, pause: null }
/** For pods that name no ports, as those of `kubectl run` and `kubectl create deployment`. */
const DEFAULT_PORTS = '80/TCP,80/UDP,8080/TCP,8080/UDP'
const RESTART_MS = 1000
/** How long a program may take to end after its grace period, before it is killed. */
const LAST_CALL_MS = 3000

/** One pod that runs in the lab: its network namespace and its program, which is started again when it ends by itself. */
export class RunningPod {
  readonly place: PodPlace
  readonly networkNamespace: string
  readonly #pod: Pod
  readonly #onReady: (ready: boolean) => void
  #child: ChildProcess | null = null
  #stopping = false
  isUp = false
  restarts = 0

  constructor(pod: Pod, place: PodPlace, onReady: (ready: boolean) => void) {
    this.#pod = pod
    this.place = place
    this.#onReady = onReady
    const { namespace = '', name } = pod.metadata
    this.networkNamespace = place.hostLink === null ? place.node.name : podNamespace(namespace, name)
  }

  async start(): Promise<void> {
    const { node, hostLink, address, plan } = this.place
    const { namespace = '' } = this.#pod.metadata
    if (hostLink !== null) {
      writeResolver(this.#resolver, plan, namespace)
      await createPodNetwork(node, this.networkNamespace, hostLink, address)
    }
    if (this.#stopping) return
    const program = programOf(this.#pod)
    if (program === null) this.#setUp(true)
    else this.#run(program)
  }

  /** Tells the program that its grace period has begun. */
  beginTermination(): void {
    this.#stopping = true
    this.#child?.kill('SIGTERM')
  }

  /** Ends the program (a second SIGTERM lets open requests finish) and removes the namespace. */
  async remove(): Promise<void> {
    this.#stopping = true
    const child = this.#child
    if (child !== null && child.exitCode === null && child.signalCode === null) {
      const ended = once(child, 'exit')
      child.kill('SIGTERM')
      const timer = new AbortController()
      const killed = sleep(LAST_CALL_MS, undefined, { signal: timer.signal }).then(
        () => child.kill('SIGKILL'),
        () => undefined,
      )
      await Promise.race([ended, killed])
      timer.abort()
    }
    const { node, hostLink } = this.place
    if (hostLink === null) return
    await removePodNetwork(node, this.networkNamespace, hostLink)
    rmSync(this.#resolver, { force: true })
  }

  get #resolver(): string {
    const { namespace = '', name } = this.#pod.metadata
    return resolverFile(this.place.dir, namespace, name)
  }

  #run(program: string): void {
    const { namespace = '', name } = this.#pod.metadata
    const log = openSync(join(this.place.logs, `${podNamespace(namespace, name)}.log`), 'a', 0o600)
    const argv = [process.execPath, new URL(`../programs/${program}.js`, import.meta.url).pathname]
    const command =
      this.place.hostLink === null
        ? inNamespace(this.networkNamespace, argv)
        : inPod(this.networkNamespace, this.#resolver, argv)
    const child = startCommand(command, { stdio: ['ignore', 'pipe', log], env: this.#environment() })
    closeSync(log)
    this.#child = child
    child.once('error', () => undefined) // told by 'exit' or by the missing 'ready'
    createInterface({ input: child.stdout! }).on('line', (line) => {
      if (line === 'ready') this.#setUp(true)
    })
    child.once('exit', () => {
      this.#child = null
      if (this.#stopping) return
      this.#setUp(false)
      this.restarts++
      setTimeout(() => this.#stopping || this.#run(program), RESTART_MS)
    })
  }

  #environment(): NodeJS.ProcessEnv {
    const { node, address, env } = this.place
    const { namespace = '', name } = this.#pod.metadata
    return {
      PATH: process.env['PATH'],
      POD_NAME: name,
      POD_NAMESPACE: namespace,
      NODE_NAME: node.name,
      POD_IPS: `${address.ipv4},${address.ipv6}`,
      PORTS: portsOf(this.#pod),
      ...env,
    }
  }

  #setUp(up: boolean): void {
    this.isUp = up
    this.#onReady(up)
  }
}

function programOf({ spec }: Pod): string | null {
  const image = (spec.containers[0]?.image ?? '').split('/').at(-1)?.split(':')[0] ?? ''
  const program = PROGRAMS[image]
  return program === undefined ? 'echo' : program
}

function portsOf({ spec }: Pod): string {
  const ports = spec.containers.flatMap(({ ports }) => ports ?? [])
  const served = ports
    .filter(({ protocol }) => protocol !== 'SCTP') // Node.js has no SCTP sockets
    .map(({ containerPort, protocol }) => `${containerPort}/${protocol ?? 'TCP'}`)
  return ports.length === 0 ? DEFAULT_PORTS : [...new Set(served)].join(',')
}
