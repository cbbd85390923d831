import { randomUUID } from 'node:crypto'
import type { KubernetesObject } from '../../kubernetes/objects.ts'
import type { Clock } from '../../shared/clock.ts'
import { ProxyError } from '../../shared/errors.ts'
import { Collection, keyOf } from './collection.ts'
import type { ChangeType, Entry } from './entry.ts'
import { eventFromV1Events } from './event-versions.ts'
import type { ApiObject, Dict } from './json.ts'
import { clone, dictOf, isDict, listOf, textOf } from './json.ts'
import { ALL_RESOURCES, RESOURCES, apiVersionOf, resourceByKind } from './resources.ts'
import type { ResourceType } from './resources.ts'

export interface StoreOptions {
  readonly clock: Clock
  /** How many changes of each collection stay watchable. */
  readonly historyLimit: number
  /** Where resource versions start. A restarted server must start above where the last one ended. */
  readonly firstRevision: number
}

/**
 * The server's whole state, in memory. Every write gets the next revision of one counter, as in etcd. Nothing here
 * judges objects: the request path does, {@link putRaw} deliberately does not.
 */
export class Store {
  readonly clock: Clock
  readonly #collections: ReadonlyMap<string, Collection>
  readonly #expiryListeners = new Set<() => void>()
  #revision: number

  constructor(options: StoreOptions) {
    this.clock = options.clock
    this.#revision = options.firstRevision
    this.#collections = new Map(
      ALL_RESOURCES.map(({ storage }) => [
        storage,
        new Collection(options.firstRevision, options.historyLimit),
      ]),
    )
  }

  /** The revision of the last write. */
  get revision(): number {
    return this.#revision
  }

  collection(type: ResourceType): Collection {
    return this.#collections.get(type.storage)!
  }

  get(type: ResourceType, namespace: string, name: string): Entry | undefined {
    return this.collection(type).get(keyOf(type.namespaced ? namespace : '', name))
  }

  /** Stores a new state of an object, which the store then owns. Returns it with its resourceVersion. */
  write(type: ResourceType, object: ApiObject): Entry {
    const key = keyOf(type.namespaced ? (object.metadata.namespace ?? '') : '', object.metadata.name)
    const exists = this.collection(type).get(key) !== undefined
    return this.#record(type, exists ? 'MODIFIED' : 'ADDED', key, object)
  }

  /** Removes an object for good; false if it is not there. */
  remove(type: ResourceType, namespace: string, name: string): Entry | null {
    const entry = this.get(type, namespace, name)
    if (entry === undefined) return null
    const last = { ...entry.object, metadata: { ...entry.object.metadata } }
    return this.#record(type, 'DELETED', entry.key, last)
  }

  /**
   * Stores objects as they are, without validation, defaults or allocation, as an older server may have left them.
   * Only what every stored object has is filled in where absent: namespace, uid, creationTimestamp. A `List` stands
   * for its items; an object that exists is replaced.
   * @throws ProxyError LAB_OBJECT_UNKNOWN for a kind that the server does not have.
   */
  putRaw(objects: Iterable<KubernetesObject | Dict>): void {
    for (const object of objects) {
      const dict = object as Dict
      if (textOf(dict['kind']).endsWith('List')) this.putRaw(listItems(dict))
      else this.#putOne(dict)
    }
  }

  /** Removes objects given by kind and name, at once and without finalizers; those absent are ignored. */
  deleteRaw(objects: Iterable<KubernetesObject | Dict>): void {
    for (const object of objects) {
      const dict = object as Dict
      const metadata = dictOf(dict['metadata'])
      this.remove(typeOfRaw(dict), textOf(metadata['namespace']) || 'default', textOf(metadata['name']))
    }
  }

  /** Forgets history up to `revision` (default: everything): older watches and continue tokens get 410 from now on. */
  compact(revision = this.#revision): void {
    for (const collection of this.#collections.values()) collection.compact(revision)
  }

  /** Ends every open watch with an in-stream 410, as a server does whose watch cache was lost. */
  expireWatches(): void {
    for (const listener of Array.from(this.#expiryListeners)) listener()
  }

  onExpire(listener: () => void): () => void {
    this.#expiryListeners.add(listener)
    return () => this.#expiryListeners.delete(listener)
  }

  /** Now, in the whole seconds of meta/v1 Time. */
  timestamp(): string {
    return new Date(this.clock.now()).toISOString().replace(/\.\d+Z$/, 'Z')
  }

  #putOne(dict: Dict): void {
    const type = typeOfRaw(dict)
    let object = clone(dict) as ApiObject
    if (type === RESOURCES.eventsV1) object = eventFromV1Events(object)
    const metadata = object.metadata
    if (type.namespaced) metadata.namespace ??= 'default'
    metadata.uid ??= randomUUID()
    if (metadata.creationTimestamp === undefined) metadata.creationTimestamp = this.timestamp()
    this.write(type, object)
  }

  #record(type: ResourceType, change: ChangeType, key: string, object: ApiObject): Entry {
    const revision = ++this.#revision
    object.metadata.resourceVersion = String(revision)
    const { kind: _kind, apiVersion: _apiVersion, ...rest } = object
    const stored = { kind: type.kind, apiVersion: storedVersion(type), ...rest } as ApiObject
    return this.collection(type).record(change, key, stored, revision)
  }
}

function storedVersion(type: ResourceType): string {
  return apiVersionOf(type === RESOURCES.eventsV1 ? RESOURCES.event : type)
}

function listItems(list: Dict): Dict[] {
  const kind = textOf(list['kind']).slice(0, -'List'.length)
  return listOf(list['items']).map((item) => ({
    ...(kind === '' ? {} : { kind, apiVersion: list['apiVersion'] }),
    ...dictOf(item),
  }))
}

function typeOfRaw(dict: Dict): ResourceType {
  const [apiVersion, kind] = [textOf(dict['apiVersion']), textOf(dict['kind'])]
  const type = resourceByKind(apiVersion, kind)
  if (type === null || !isDict(dict['metadata']) || textOf(dict['metadata']['name']) === '') {
    throw new ProxyError(
      'LAB_OBJECT_UNKNOWN',
      `the lab's API server cannot keep this object: apiVersion "${apiVersion}", kind "${kind}", name ` +
        `"${textOf(dictOf(dict['metadata'])['name'])}". It needs a metadata.name and one of the kinds ` +
        `${ALL_RESOURCES.map((each) => `${apiVersionOf(each)}/${each.kind}`).join(', ')}.`,
    )
  }
  return type
}
