import type { Cidr } from '../net/cidr.ts'
import { sameContent } from '../shared/equal.ts'
import type { ShardedMapDraft } from '../shared/sharded-map.ts'
import { ShardedMap } from '../shared/sharded-map.ts'
import type { ServiceCidrRecord } from './decode-node.ts'
import type { ClusterState, NodeRecord, ServiceBundle, ServiceRecord, SliceRecord } from './state.ts'

/** The records the store takes, by the plural resource name of the API. */
export interface RecordsByKind {
  readonly services: ServiceRecord
  readonly endpointslices: SliceRecord
  readonly nodes: NodeRecord
  readonly servicecidrs: ServiceCidrRecord
}

export type ClusterKind = keyof RecordsByKind

/**
 * What the cluster wants, as last heard. Takes lists and single events, gives immutable snapshots. An event costs
 * the Service it belongs to, not the cluster; an event that changes nothing that is used changes no identity.
 */
export class ClusterStore {
  readonly #nodeName: string
  #bundles: ShardedMap<ServiceBundle> = ShardedMap.empty()
  /** Slice key → key of the Service that its record is filed under. */
  readonly #sliceOwner = new Map<string, string>()
  #node: NodeRecord | null = null
  #cidrs: ReadonlyMap<string, ServiceCidrRecord> = new Map()
  #serviceCidrs: readonly Cidr[] = []
  #snapshot: ClusterState | null = null

  /** `nodeName` is the only Node that counts; others are ignored. */
  constructor(nodeName: string) {
    this.#nodeName = nodeName
  }

  /** The state now; the same object until something changes. */
  snapshot(): ClusterState {
    this.#snapshot ??= Object.freeze({
      services: this.#bundles,
      node: this.#node,
      serviceCidrs: this.#serviceCidrs,
    })
    return this.#snapshot
  }

  /** Takes the whole list of a kind: what is not in it is gone, what is equal keeps its identity. True if anything changed. */
  replace<K extends ClusterKind>(kind: K, records: Iterable<RecordsByKind[K]>): boolean {
    const byKey = new Map<string, RecordsByKind[K]>()
    for (const record of records) byKey.set(keyOf(record), record)
    return this.#change((draft) => {
      for (const key of this.#keys(kind)) if (!byKey.has(key)) this.#remove(kind, key, draft)
      for (const record of byKey.values()) this.#upsert(kind, record, draft)
    })
  }

  /** Takes an added or modified object. True if anything that is used changed. */
  upsert<K extends ClusterKind>(kind: K, record: RecordsByKind[K]): boolean {
    return this.#change((draft) => this.#upsert(kind, record, draft))
  }

  /** Takes a deletion; `key` is `namespace/name`, or `name` for nodes and servicecidrs. True if it was there. */
  remove(kind: ClusterKind, key: string): boolean {
    return this.#change((draft) => this.#remove(kind, key, draft))
  }

  #change(edit: (draft: ShardedMapDraft<ServiceBundle>) => void): boolean {
    const before = this.#parts()
    this.#bundles = this.#bundles.edit(edit)
    const changed = this.#parts().some((part, i) => part !== before[i])
    if (changed) this.#snapshot = null
    return changed
  }

  #parts(): readonly unknown[] {
    return [this.#bundles, this.#node, this.#serviceCidrs]
  }

  *#keys(kind: ClusterKind): Iterable<string> {
    if (kind === 'services')
      for (const bundle of this.#bundles.values()) if (bundle.service !== null) yield bundle.key
    if (kind === 'endpointslices') yield* this.#sliceOwner.keys()
    if (kind === 'nodes' && this.#node !== null) yield this.#node.name
    if (kind === 'servicecidrs') yield* this.#cidrs.keys()
  }

  #upsert(
    kind: ClusterKind,
    record: RecordsByKind[ClusterKind],
    draft: ShardedMapDraft<ServiceBundle>,
  ): void {
    switch (kind) {
      case 'services':
        return upsertService(draft, record as ServiceRecord)
      case 'endpointslices':
        return this.#upsertSlice(draft, record as SliceRecord)
      case 'nodes':
        if (record.name === this.#nodeName && !sameContent(record, this.#node))
          this.#node = record as NodeRecord
        return undefined
      case 'servicecidrs':
        return this.#setCidrs(new Map([...this.#cidrs, [record.name, record as ServiceCidrRecord]]))
    }
  }

  #remove(kind: ClusterKind, key: string, draft: ShardedMapDraft<ServiceBundle>): void {
    switch (kind) {
      case 'services': {
        const bundle = draft.get(key)
        if (bundle !== undefined && bundle.service !== null) put(draft, key, null, bundle.slices)
        return undefined
      }
      case 'endpointslices':
        return this.#removeSlice(draft, key)
      case 'nodes':
        if (key === this.#nodeName) this.#node = null
        return undefined
      case 'servicecidrs':
        return this.#setCidrs(new Map([...this.#cidrs].filter(([name]) => name !== key)))
    }
  }

  #upsertSlice(draft: ShardedMapDraft<ServiceBundle>, record: SliceRecord): void {
    const key = keyOf(record)
    const owner = `${record.namespace}/${record.service}`
    const previousOwner = this.#sliceOwner.get(key)
    if (previousOwner !== undefined && previousOwner !== owner) this.#removeSlice(draft, key)
    const bundle = draft.get(owner)
    const slices = bundle?.slices ?? []
    const known = slices.find(({ name }) => name === record.name)
    // The time of the change alone is no change: it only dates what came with it.
    if (known !== undefined && sameContent(known, record, ['triggeredAt'])) return
    this.#sliceOwner.set(key, owner)
    const others = slices.filter((slice) => slice !== known)
    put(draft, owner, bundle?.service ?? null, [...others, record].sort(byName))
  }

  #removeSlice(draft: ShardedMapDraft<ServiceBundle>, key: string): void {
    const owner = this.#sliceOwner.get(key)
    if (owner === undefined) return
    this.#sliceOwner.delete(key)
    const bundle = draft.get(owner)!
    const rest = bundle.slices.filter((slice) => keyOf(slice) !== key)
    put(draft, owner, bundle.service, rest)
  }

  #setCidrs(cidrs: ReadonlyMap<string, ServiceCidrRecord>): void {
    this.#cidrs = cidrs
    const merged = [...new Set([...cidrs.values()].flatMap((record) => record.cidrs))].sort()
    if (!sameContent(merged, this.#serviceCidrs)) this.#serviceCidrs = Object.freeze(merged)
  }
}

function upsertService(draft: ShardedMapDraft<ServiceBundle>, record: ServiceRecord): void {
  const key = keyOf(record)
  const bundle = draft.get(key)
  if (bundle !== undefined && sameContent(bundle.service, record)) return
  put(draft, key, record, bundle?.slices ?? [])
}

function put(
  draft: ShardedMapDraft<ServiceBundle>,
  key: string,
  service: ServiceRecord | null,
  slices: readonly SliceRecord[],
): void {
  if (service === null && slices.length === 0) draft.delete(key)
  else draft.set(key, Object.freeze({ key, service, slices }))
}

/** The store's key of a record: `namespace/name`, or `name` for cluster-wide objects. */
export function keyOf(record: { readonly namespace?: string; readonly name: string }): string {
  return record.namespace === undefined ? record.name : `${record.namespace}/${record.name}`
}

function byName(a: SliceRecord, b: SliceRecord): number {
  return a.name < b.name ? -1 : a.name > b.name ? 1 : 0
}
