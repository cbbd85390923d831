import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { expect } from 'vitest'
import type { LabStatus } from '../../src/lab/control.ts'
import { LabSession } from '../../src/lab/demo/session.ts'
import { enterArgv, parseTarget } from '../../src/lab/enter.ts'
import { labInstance } from '../../src/lab/instance.ts'
import type { LabInstance } from '../../src/lab/instance.ts'
import { LAB } from '../../src/lab/plan.ts'
import type { NodePlan } from '../../src/lab/plan.ts'
import { goThrough } from './inside.ts'
import type { Inside } from './inside.ts'
import { ok, PROGRAMS, ROOT, running, testLabs } from './lab.ts'
import { readNodeRules } from './node-rules.ts'
import type { NodeRules } from './node-rules.ts'
import { addressAndPort } from './ways.ts'
import type { PerFamily, PodAddresses, Ways, WaysOfNode } from './ways.ts'

/** The longest that rules may take to follow: the agents' minimum period of a second, and a busy machine. */
export const FOLLOW_MS = 5000
export const POLL = { timeout: FOLLOW_MS, interval: 20 } as const

const CLIENT = 'pod:default/client'
const REQUESTS = 12

export interface EchoAnswer {
  readonly pod: string
  readonly client: string
}

/** Lines of a command that goes on, as they come. */
export interface Lines {
  readonly lines: readonly string[]
  /** Kills the command and waits for its end. */
  stop(): Promise<void>
}

interface PodList {
  readonly items: readonly {
    readonly metadata: { readonly name: string; readonly deletionTimestamp?: string }
    readonly spec: { readonly nodeName: string }
    readonly status: { readonly podIPs: readonly { readonly ip: string }[] }
  }[]
}

/** One lab and what tests do to it: commands as a person types them, requests from its places, looks into its kernels. */
export class TestCluster {
  readonly instance: LabInstance
  readonly session: LabSession
  readonly #name: string
  readonly #labs = testLabs()
  readonly #places = new Map<string, Inside>()

  constructor(name: string) {
    this.#name = name
    this.instance = labInstance(name, this.#labs.env)
    this.session = new LabSession(this.instance, PROGRAMS)
  }

  up(): void {
    ok(this.#labs.lab(['up', '--name', this.#name]))
  }

  down(): void {
    for (const place of this.#places.values()) place[Symbol.dispose]()
    ok(this.#labs.lab(['down', '--name', this.#name]))
    this.#labs[Symbol.dispose]()
  }

  /** A process at a place of the lab, started when first asked for. */
  at(name: string): Inside {
    const known = this.#places.get(name)
    if (known !== undefined) return known
    const place = goThrough((argv) =>
      enterArgv(this.instance, running(this.instance), parseTarget(name), argv),
    )
    this.#places.set(name, place)
    return place
  }

  /** The output of `switchback lab exec PLACE -- …`. */
  exec(place: string, argv: readonly string[]): string {
    return ok(this.#labs.lab(['exec', '--name', this.#name, place, '--', ...argv]))
  }

  status(): LabStatus {
    return JSON.parse(ok(this.#labs.lab(['status', '--name', this.#name, '-o', 'json']))) as LabStatus
  }

  /** `switchback lab kubectl …`, words separated by blanks; further arguments as they are. */
  kubectl(words: string, ...more: readonly string[]): string {
    return this.#labs.kubectl(this.#name, [...words.split(' '), ...more]).trim()
  }

  apply(manifest: string): string {
    return this.#labs.kubectl(this.#name, ['apply', '-f', '-'], manifest).trim()
  }

  patch(service: string, type: 'strategic' | 'merge' | 'json', change: unknown): void {
    const said = this.kubectl(`patch service ${service} --type=${type} -p`, JSON.stringify(change))
    expect(said).toContain('patched')
  }

  /** Starts a `switchback lab kubectl …` that goes on until it is stopped. */
  watch(...args: readonly string[]): Lines {
    const argv = ['bin/switchback', 'lab', 'kubectl', '--name', this.#name, ...args]
    const stdio = ['ignore', 'pipe', 'inherit'] as const
    const child = spawn(process.execPath, argv, { cwd: ROOT, env: this.#labs.env, stdio: [...stdio] })
    const lines: string[] = []
    createInterface({ input: child.stdout! }).on('line', (line) => lines.push(line))
    const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
    return {
      lines,
      stop() {
        child.kill()
        return ended
      },
    }
  }

  clusterIps(service: string): PerFamily {
    const text = this.kubectl(`get service ${service} -o jsonpath={.spec.clusterIPs}`)
    const [ipv4, ipv6] = JSON.parse(text) as string[]
    return { 4: ipv4!, 6: ipv6! }
  }

  /** The pods of an app that are to serve now, as the API server has them. */
  servingPods(app: string): readonly PodAddresses[] {
    const { items } = JSON.parse(this.kubectl(`get pods -l app=${app} -o json`)) as PodList
    return items
      .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
      .map(({ metadata, spec, status: { podIPs } }) => ({
        name: metadata.name,
        node: spec.nodeName,
        ips: { 4: podIPs[0]!.ip, 6: podIPs[1]!.ip },
      }))
  }

  /** One node's rules now. */
  rulesOf(node: NodePlan): Promise<NodeRules> {
    return readNodeRules(node, this.at(node.name))
  }

  /** All nodes' rules, read at the same time. */
  rules(): Promise<readonly NodeRules[]> {
    return Promise.all(LAB.nodes.map((node) => this.rulesOf(node)))
  }

  /** Waits until every node's kernel leads all these ways; gives what the nodes had at that moment. */
  async allFollow(...expected: readonly WaysOfNode[]): Promise<readonly NodeRules[]> {
    const wanted = LAB.nodes.map((node): Ways => Object.assign({}, ...expected.map((ways) => ways(node))))
    let last: readonly NodeRules[] = []
    const look = async (): Promise<readonly Ways[]> => {
      last = await this.rules()
      return wanted.map((ways, i) => waysOf(last[i]!, Object.keys(ways)))
    }
    await expect.poll(look, POLL).toEqual(wanted)
    return last
  }

  /**
   * Makes one change of Services and holds every agent to following it: at most two syncs each, because a Service and its
   * slices arrive as events of their own.
   */
  async agentsFollow(change: () => void, ...expected: readonly WaysOfNode[]): Promise<void> {
    const before = await this.rules()
    change()
    const after = await this.allFollow(...expected)
    for (const [i, { syncs }] of after.entries()) expect(syncs - before[i]!.syncs).toBeLessThanOrEqual(2)
  }

  /** Sends requests, each on a connection of its own; gives the pods that answered, and the clients that they saw. */
  async ask(
    place: string,
    address: string,
    count = REQUESTS,
  ): Promise<{ readonly pods: readonly string[]; readonly clients: readonly string[] }> {
    const requests = Array.from({ length: count }, () => this.at(place).get(`http://${address}/`))
    const answers = await Promise.all(requests).catch((cause: unknown) => {
      throw new Error(`${place}: ${String(cause)}`, { cause })
    })
    const echoes = answers.map((text) => JSON.parse(text) as EchoAnswer)
    return {
      pods: distinct(echoes.map(({ pod }) => pod)),
      clients: distinct(echoes.map(({ client }) => client.replace(/:\d+$/, ''))),
    }
  }

  /** Requests from a pod and two nodes to the ClusterIP in both families: these pods answer, all and only they. */
  async clusterIpAnswers(ips: PerFamily, port: number, pods: readonly PodAddresses[]): Promise<void> {
    const targets = [addressAndPort(ips[4], port), addressAndPort(ips[6], port)]
    await this.#answers([CLIENT, 'node-1', 'node-2'], targets, pods)
  }

  /** Requests from outside to the node port of two nodes in both families: these pods answer, all and only they. */
  async nodePortAnswers(port: number, pods: readonly PodAddresses[]): Promise<void> {
    const targets = LAB.nodes
      .slice(0, 2)
      .flatMap(({ address }) => [addressAndPort(address.ipv4, port), addressAndPort(address.ipv6, port)])
    await this.#answers(['outside'], targets, pods)
  }

  async #answers(
    from: readonly string[],
    targets: readonly string[],
    pods: readonly PodAddresses[],
  ): Promise<void> {
    const all = await Promise.all(from.flatMap((place) => targets.map((target) => this.ask(place, target))))
    expect(distinct(all.flatMap((answers) => answers.pods))).toEqual(names(pods))
  }
}

/** What rules make of the flows that {@link Ways} names. */
export function waysOf(rules: NodeRules, which: readonly string[]): Ways {
  return Object.fromEntries(
    which.map((way) => {
      const [from, to] = way.split(' > ') as [string, string]
      return [way, rules.way(from, to)]
    }),
  )
}

export function names(pods: readonly PodAddresses[]): readonly string[] {
  return distinct(pods.map(({ name }) => name))
}

function distinct(values: readonly string[]): readonly string[] {
  return [...new Set(values)].sort()
}
