import { createDecoders } from '../../src/cluster/objects.ts'
import type { ClusterKind } from '../../src/cluster/store.ts'
import { ClusterStore } from '../../src/cluster/store.ts'
import type { ConntrackPort, Flow } from '../../src/kernel/conntrack/port.ts'
import type { Kernel } from '../../src/kernel/kernel.ts'
import type { LinkAddress } from '../../src/kernel/link/port.ts'
import type { Drift, ModeTraits, ProxyMode } from '../../src/modes/mode.ts'
import type { ServiceMap } from '../../src/services/service-map.ts'
import type { AgentEvents } from '../../src/node/agent.ts'
import type { ClusterFeed, FeedListener, FeedStats } from '../../src/node/feed.ts'

/** Rules of {@link TableMode}: `protocol ip:port` → endpoints, sorted. */
export type Table = ReadonlyMap<string, readonly string[]>

/**
 * A whole proxy mode over a table in memory, for tests of what is around a mode: it can be made to fail, to be slow, and
 * others can change its table.
 */
export class TableMode implements ProxyMode<Table> {
  readonly name = 'nftables'
  readonly needs = []
  readonly traits = {} as ModeTraits
  /** What the "kernel" holds, by family. */
  readonly installed = new Map<string, Map<string, readonly string[]>>()
  /** Writes that are still to fail. */
  failNext = 0
  /** Writes wait for this before they take effect. */
  #gate: Promise<void> = Promise.resolve()
  /** Of each write: whether it was given what is installed. */
  readonly writes: { readonly family: string; readonly trusted: boolean }[] = []
  readonly #watchers = new Map<string, () => void>()
  readonly #familyOf = new WeakMap<Table, string>()

  compile(map: ServiceMap): Table {
    const table = new Map<string, readonly string[]>()
    for (const port of map.ports.values()) {
      for (const frontend of port.frontends) {
        const destination = frontend.fromAnywhere
        const pool = destination.kind === 'endpoints' ? port.pools[destination.pool] : null
        const endpoints = pool?.endpoints.map(({ ip, port: number }) => `${ip}:${number}`) ?? [
          destination.kind,
        ]
        table.set(`${port.protocol} ${frontend.ip}:${frontend.port}`, endpoints)
      }
    }
    this.#familyOf.set(table, map.family)
    return table
  }

  trace(): never {
    throw new Error('no packets here')
  }

  print(rules: Table): string {
    return JSON.stringify([...rules])
  }

  preflight(): Promise<readonly []> {
    return Promise.resolve([])
  }

  async apply(
    _kernel: object,
    { from, to }: { from: Table | null; to: Table },
  ): Promise<{ full: boolean; operations: number; durationMs: number }> {
    const family = this.#familyOf.get(to)!
    await this.#gate
    this.writes.push({ family, trusted: from !== null })
    if (this.failNext > 0) {
      this.failNext--
      throw new Error('the kernel refused')
    }
    this.installed.set(family, new Map(to))
    return { full: from === null, operations: to.size, durationMs: 0 }
  }

  verify(_kernel: object, want: Table): Promise<readonly Drift[]> {
    const have = this.installed.get(this.#familyOf.get(want)!) ?? new Map<string, readonly string[]>()
    const drift: Drift[] = []
    for (const [object] of want) if (!have.has(object)) drift.push({ object, kind: 'missing', detail: '' })
    for (const [object] of have) if (!want.has(object)) drift.push({ object, kind: 'unexpected', detail: '' })
    return Promise.resolve(drift)
  }

  watchDrift(_kernel: object, family: string, signal: AbortSignal, onDrift: () => void): void {
    this.#watchers.set(family, onDrift)
    signal.addEventListener('abort', () => this.#watchers.delete(family))
  }

  cleanup(): Promise<void> {
    return Promise.resolve()
  }

  /** Holds every write from now on until the returned function is called. */
  hold(): () => void {
    let release = (): void => {}
    this.#gate = new Promise((resolve) => {
      release = resolve
    })
    return () => release()
  }

  /** Somebody else changes the table of this family. */
  disturb(family: string, change: (table: Map<string, readonly string[]>) => void): void {
    change(this.installed.get(family)!)
    this.#watchers.get(family)?.()
  }

  /** The endpoints of `protocol ip:port` in the "kernel". */
  endpoints(frontend: string, family = 'IPv4'): readonly string[] | undefined {
    return this.installed.get(family)?.get(frontend)
  }
}

/** A conntrack table in memory that can fail. */
export class FlowTable implements ConntrackPort {
  flows: Flow[] = []
  failNext = 0

  list(family: Flow['family'], protocol: Flow['protocol']): Promise<readonly Flow[]> {
    if (this.failNext > 0) {
      this.failNext--
      return Promise.reject(new Error('ENOBUFS'))
    }
    return Promise.resolve(this.flows.filter((flow) => flow.family === family && flow.protocol === protocol))
  }

  delete(flow: Flow): Promise<boolean> {
    const before = this.flows.length
    this.flows = this.flows.filter(({ id }) => id !== flow.id)
    return Promise.resolve(this.flows.length < before)
  }

  usage(): Promise<{ count: number; max: number }> {
    return Promise.resolve({ count: this.flows.length, max: 1000 })
  }

  [Symbol.asyncDispose](): Promise<void> {
    return Promise.resolve()
  }
}

/** The parts of a kernel that the agent itself uses; the mode under test uses none. */
export function testKernel(
  conntrack: ConntrackPort,
  addresses: LinkAddress[],
): Kernel & { readonly linkChanged: () => void } {
  let onLink = (): void => {}
  const link: Kernel['link'] = {
    links: () => Promise.resolve([]),
    addresses: () => Promise.resolve([...addresses]),
    watch: (_signal, onChange) => {
      onLink = onChange
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }
  return { conntrack, link, linkChanged: () => onLink() } as Kernel & { readonly linkChanged: () => void }
}

/** A feed that tests write API objects into. */
export class TestFeed implements ClusterFeed {
  readonly store: ClusterStore
  readonly #decoders = createDecoders()
  #listener: FeedListener | null = null
  /** Kinds that were complete before anybody listened. */
  readonly #early: ClusterKind[] = []
  /** What {@link failure} tells. */
  failing: Error | null = null

  constructor(nodeName: string) {
    this.store = new ClusterStore(nodeName)
  }

  start(_signal: AbortSignal, listener: FeedListener): void {
    this.#listener = listener
    for (const kind of this.#early.splice(0)) listener.synced(kind)
  }

  failure(): Error | null {
    return this.failing
  }

  stats(): readonly FeedStats[] {
    return []
  }

  synced(...kinds: ClusterKind[]): void {
    for (const kind of kinds) {
      if (this.#listener === null) this.#early.push(kind)
      else this.#listener.synced(kind)
    }
  }

  apply(kind: ClusterKind, object: unknown): void {
    const { record } = this.#decoders[kind](object)
    if (record !== null && this.store.upsert(kind, record as never)) this.#listener?.changed(kind)
  }

  remove(kind: ClusterKind, key: string): void {
    if (this.store.remove(kind, key)) this.#listener?.changed(kind)
  }
}

export const noEvents: AgentEvents = { node: () => {}, service: () => {} }
