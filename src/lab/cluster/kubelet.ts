import { ApiRefusal } from '../api-client.ts'
import type { ApiClient } from '../api-client.ts'
import { keyOf } from '../api-client.ts'
import { POD_NUMBERS, podAddresses } from '../plan.ts'
import type { LabPlan, NodePlan } from '../plan.ts'
import { podPath } from './kinds.ts'
import type { Pod } from './kinds.ts'
import { RunningPod } from './running-pod.ts'

/** Set to "false" on a pod, it makes the pod unready, as a failing readiness probe would. */
export const READY_ANNOTATION = 'lab.switchback/ready'

export interface KubeletOptions {
  readonly client: ApiClient
  readonly plan: LabPlan
  readonly dir: string
  readonly logs: string
  readonly env: Readonly<Record<string, string>>
  readonly log: (message: string) => void
}

interface Tracked {
  readonly running: RunningPod
  /** The latest version seen. */
  pod: Pod
  removal: NodeJS.Timeout | null
  removeAt: number
  reported: string
  /** Status writes, one after the other. */
  reports: Promise<void>
  chain: Promise<void>
}

/** Runs the pods of all lab nodes: starts what is bound to a node, reports its state, ends it gracefully. */
export class Kubelet {
  readonly #options: KubeletOptions
  readonly #tracked = new Map<string, Tracked>()
  readonly #nextNumber = new Map<string, number>()
  /** Removals under way by `namespace/name`: a new pod of the same name waits for them. */
  readonly #leaving = new Map<string, Promise<void>>()

  constructor(options: KubeletOptions) {
    this.#options = options
  }

  /** Brings what runs in line with the pods of the API server. */
  sync(pods: readonly Pod[]): void {
    const wanted = new Set(pods.map(({ metadata }) => metadata.uid ?? ''))
    for (const pod of pods) this.#follow(pod)
    for (const [uid, tracked] of this.#tracked) if (!wanted.has(uid)) void this.#remove(uid, tracked)
  }

  get count(): number {
    return this.#tracked.size
  }

  #follow(pod: Pod): void {
    const uid = pod.metadata.uid ?? ''
    const known = this.#tracked.get(uid)
    if (known !== undefined) {
      known.pod = pod
      if (pod.metadata.deletionTimestamp !== undefined) this.#terminate(uid, known)
      this.#report(known)
      return
    }
    const node = this.#options.plan.nodes.find(({ name }) => name === pod.spec.nodeName)
    if (node === undefined) return
    if (pod.metadata.deletionTimestamp !== undefined) {
      void this.#deleteObject(pod)
      return
    }
    this.#start(uid, pod, node)
  }

  #start(uid: string, pod: Pod, node: NodePlan): void {
    const isHost = pod.spec.hostNetwork === true
    const number = isHost ? 0 : this.#takeNumber(node)
    const { plan, dir, logs, env } = this.#options
    const running = new RunningPod(
      pod,
      {
        plan,
        node,
        address: isHost ? node.address : podAddresses(node, number),
        hostLink: isHost ? null : `pod${number}`,
        dir,
        logs,
        env,
      },
      () => this.#report(tracked),
    )
    const tracked: Tracked = {
      running,
      pod,
      removal: null,
      removeAt: 0,
      reported: '',
      reports: Promise.resolve(),
      chain: Promise.resolve(),
    }
    this.#tracked.set(uid, tracked)
    const before = this.#leaving.get(keyOf(pod)) ?? Promise.resolve()
    tracked.chain = before
      .then(() => running.start())
      .catch((error: unknown) => this.#options.log(`pod ${keyOf(pod)} cannot start: ${textOf(error)}`))
  }

  #takeNumber(node: NodePlan): number {
    const used = new Set(
      [...this.#tracked.values()]
        .filter(({ running }) => running.place.node === node)
        .map(({ running }) => running.place.hostLink),
    )
    let number = this.#nextNumber.get(node.name) ?? POD_NUMBERS.first
    for (let tries = POD_NUMBERS.last; used.has(`pod${number}`) && tries > 0; tries--)
      number = following(number)
    this.#nextNumber.set(node.name, following(number))
    return number
  }

  /** Serves on until the deletion time, then removes pod and object; a second deletion may shorten the time. */
  #terminate(uid: string, tracked: Tracked): void {
    const removeAt = Date.parse(tracked.pod.metadata.deletionTimestamp ?? '')
    if (tracked.removal !== null && removeAt >= tracked.removeAt) return
    if (tracked.removal === null) tracked.running.beginTermination()
    else clearTimeout(tracked.removal)
    tracked.removeAt = removeAt
    const graceSeconds = tracked.pod.metadata.deletionGracePeriodSeconds ?? 0
    const waitMs = Math.max(0, Math.min(removeAt - Date.now(), graceSeconds * 1000))
    tracked.removal = setTimeout(() => {
      void this.#remove(uid, tracked).then(() => this.#deleteObject(tracked.pod))
    }, waitMs)
  }

  #remove(uid: string, tracked: Tracked): Promise<void> {
    if (this.#tracked.get(uid) !== tracked) return tracked.chain
    this.#tracked.delete(uid)
    if (tracked.removal !== null) clearTimeout(tracked.removal)
    const key = keyOf(tracked.pod)
    tracked.chain = tracked.chain
      .then(() => tracked.running.remove())
      .catch((error: unknown) => this.#options.log(`pod ${key} cannot be removed: ${textOf(error)}`))
      .finally(() => this.#leaving.get(key) === tracked.chain && this.#leaving.delete(key))
    this.#leaving.set(key, tracked.chain)
    return tracked.chain
  }

  async #deleteObject({ metadata: { namespace = '', name } }: Pod): Promise<void> {
    try {
      await this.#options.client.delete(podPath(namespace, name), 0)
    } catch (error) {
      this.#options.log(`pod ${namespace}/${name} cannot be deleted: ${textOf(error)}`)
    }
  }

  /** Writes the pod's status where it is not what the API server has. */
  #report(tracked: Tracked): void {
    const status = podStatus(tracked)
    const text = JSON.stringify(status)
    if (tracked.reported === text) return
    tracked.reported = text
    const { namespace = '', name } = tracked.pod.metadata
    const send = async (): Promise<void> => {
      try {
        await this.#options.client.patch(`${podPath(namespace, name)}/status`, { status })
      } catch (error) {
        if (error instanceof ApiRefusal && error.status === 404) return
        tracked.reported = ''
        this.#options.log(`status of pod ${namespace}/${name} cannot be written: ${textOf(error)}`)
      }
    }
    tracked.reports = tracked.reports.then(send)
  }
}

function following(number: number): number {
  return number >= POD_NUMBERS.last ? POD_NUMBERS.first : number + 1
}

function podStatus({ running, pod }: Tracked): Record<string, unknown> {
  const { address, node } = running.place
  const ready = running.isUp && pod.metadata.annotations?.[READY_ANNOTATION] !== 'false'
  const started = running.isUp || running.restarts > 0
  const condition = (type: string, value: boolean): Record<string, string> => ({
    type,
    status: value ? 'True' : 'False',
  })
  return {
    phase: started ? 'Running' : 'Pending',
    hostIP: node.address.ipv4,
    hostIPs: [{ ip: node.address.ipv4 }, { ip: node.address.ipv6 }],
    podIP: address.ipv4,
    podIPs: [{ ip: address.ipv4 }, { ip: address.ipv6 }],
    startTime: pod.metadata.creationTimestamp ?? null,
    conditions: [
      condition('PodScheduled', true),
      condition('Initialized', true),
      condition('ContainersReady', ready),
      condition('Ready', ready),
    ],
    containerStatuses: pod.spec.containers.map(({ name, image }) => ({
      name,
      image,
      ready,
      started: running.isUp,
      restartCount: running.restarts,
      state: running.isUp
        ? { running: { startedAt: pod.metadata.creationTimestamp ?? null } }
        : { waiting: { reason: 'ContainerCreating' } },
    })),
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
