import type { Change } from './entry.ts'
import type { ApiObject } from './json.ts'
import { clone } from './json.ts'
import { ALL_RESOURCES, RESOURCES } from './resources.ts'
import type { ResourceType } from './resources.ts'
import type { Store } from './store.ts'

interface Dependent {
  readonly type: ResourceType
  readonly key: string
}

/**
 * Garbage collection: what is owned goes with its last owner, and a terminating namespace goes when it is empty.
 * Works off deletions after the request that caused them, as upstream's controllers do.
 */
export class OwnerIndex {
  readonly #store: Store
  readonly #dependents = new Map<string, Map<string, Dependent>>()
  readonly #stops: (() => void)[] = []
  #pending = new Set<string>()
  #scheduled = false
  #closed = false

  constructor(store: Store) {
    this.#store = store
    for (const type of ALL_RESOURCES) {
      if (type === RESOURCES.eventsV1) continue
      this.#stops.push(store.collection(type).listen((change) => this.#follow(type, change)))
    }
  }

  close(): void {
    this.#closed = true
    for (const stop of this.#stops) stop()
  }

  /** Cuts the ties of everything that `uid` owns, so that it stays. */
  orphan(uid: string): void {
    for (const { type, key } of Array.from(this.#dependents.get(uid)?.values() ?? [])) {
      const entry = this.#store.collection(type).get(key)
      if (entry === undefined) continue
      const object = clone(entry.object)
      const others = (object.metadata.ownerReferences ?? []).filter((owner) => owner.uid !== uid)
      if (others.length > 0) object.metadata.ownerReferences = others
      else delete object.metadata.ownerReferences
      this.#store.write(type, object)
    }
  }

  #follow(type: ResourceType, { type: event, before, after }: Change): void {
    const id = `${type.storage} ${after.key}`
    for (const uid of ownersOf(before?.object)) this.#dependents.get(uid)?.delete(id)
    if (event !== 'DELETED') {
      for (const uid of ownersOf(after.object)) {
        const known = this.#dependents.get(uid) ?? new Map<string, Dependent>()
        this.#dependents.set(uid, known.set(id, { type, key: after.key }))
      }
    } else if (this.#dependents.has(after.object.metadata.uid ?? '')) {
      this.#pending.add(after.object.metadata.uid!)
    }
    if (event === 'DELETED' || type === RESOURCES.namespace) this.#schedule()
  }

  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      if (!this.#closed) this.#collect()
    })
  }

  #collect(): void {
    const uids = this.#pending
    this.#pending = new Set()
    for (const uid of uids) {
      for (const { type, key } of Array.from(this.#dependents.get(uid)?.values() ?? [])) {
        const entry = this.#store.collection(type).get(key)
        if (entry !== undefined) this.#removeDependent(type, entry.object, uid)
      }
      this.#dependents.delete(uid)
    }
    for (const { object } of Array.from(this.#store.collection(RESOURCES.namespace).values())) {
      if (object.metadata.deletionTimestamp !== undefined) this.#emptyNamespace(object.metadata.name)
    }
  }

  #removeDependent(type: ResourceType, object: ApiObject, uid: string): void {
    const others = (object.metadata.ownerReferences ?? []).filter((owner) => owner.uid !== uid)
    if (others.length > 0) {
      const kept = clone(object)
      kept.metadata.ownerReferences = others
      this.#store.write(type, kept)
    } else this.#end(type, object)
  }

  #emptyNamespace(namespace: string): void {
    let left = 0
    for (const type of ALL_RESOURCES) {
      if (!type.namespaced || type === RESOURCES.eventsV1) continue
      for (const { object } of this.#store.collection(type).sorted(namespace)) {
        if (!this.#end(type, object)) left++
      }
    }
    if (left === 0) this.#store.remove(RESOURCES.namespace, '', namespace)
  }

  /** Removes an object, or has its pod end gracefully; true if it is gone. */
  #end(type: ResourceType, object: ApiObject): boolean {
    const { name, namespace = '' } = object.metadata
    const runs =
      type === RESOURCES.pod && typeof (object['spec'] as { nodeName?: string })?.nodeName === 'string'
    if (!runs && (object.metadata.finalizers ?? []).length === 0) {
      this.#store.remove(type, namespace, name)
      return true
    }
    if (object.metadata.deletionTimestamp === undefined) {
      const ending = clone(object)
      const grace = Number(
        (object['spec'] as { terminationGracePeriodSeconds?: number })?.terminationGracePeriodSeconds ?? 30,
      )
      ending.metadata.deletionTimestamp = new Date(this.#store.clock.now() + grace * 1000)
        .toISOString()
        .replace(/\.\d+Z$/, 'Z')
      ending.metadata.deletionGracePeriodSeconds = runs ? grace : 0
      this.#store.write(type, ending)
    }
    return false
  }
}

function ownersOf(object: ApiObject | undefined): string[] {
  return (object?.metadata.ownerReferences ?? []).map(({ uid }) => uid)
}
