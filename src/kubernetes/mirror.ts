import type { Log } from './log.ts'
import type { ObjectMeta } from './objects.ts'

/** Where a reflector writes to. Calls are synchronous and in order. */
export interface ReflectorSink<T> {
  /** The complete set, from a list; never called with less than all. */
  replace(items: readonly T[]): void
  /** An object that is new or changed. */
  upsert(item: T): void
  /** An object that is gone; its key as `keyOf` gave it. */
  remove(key: string): void
}

export interface MirrorOptions<T> {
  readonly path: string
  readonly decode: (object: unknown) => T | null
  readonly keyOf: (metadata: ObjectMeta) => string
  readonly sink: ReflectorSink<T>
  readonly log: Log
}

type Decoded<T> =
  | { readonly ok: true; readonly key: string; readonly version: string; readonly item: T | null }
  | { readonly ok: false; readonly key: string | null; readonly version: string; readonly error: Error }

/**
 * The last good decoded form of every object, and what of the incoming ones could not be decoded. An object that
 * cannot be decoded is never dropped silently: it is counted, reported once per version, and its last good form stays.
 */
export class Mirror<T> {
  readonly #options: MirrorOptions<T>
  #known = new Map<string, T>()
  /** Key → version of the objects that are left out or stale. */
  #bad = new Map<string, string>()
  #undecodable = 0

  constructor(options: MirrorOptions<T>) {
    this.#options = options
  }

  get size(): number {
    return this.#known.size
  }

  /** Objects and events that could not be decoded, ever. */
  get undecodable(): number {
    return this.#undecodable
  }

  /** Keys that are left out or kept in an older form because their last version does not decode. */
  get badKeys(): readonly string[] {
    return [...this.#bad.keys()]
  }

  /** Takes an ADDED or MODIFIED object. False if it could not be decoded; then nothing changed. */
  upsert(object: unknown): boolean {
    const decoded = this.#decode(object)
    if (!decoded.ok) {
      this.#report(decoded)
      return false
    }
    const { key, item } = decoded
    this.#bad.delete(key)
    if (item === null) this.#drop(key)
    else {
      this.#known.set(key, item)
      this.#options.sink.upsert(item)
    }
    return true
  }

  /** Takes a DELETED object; only its name must be readable. False if it is not. */
  remove(object: unknown): boolean {
    const key = this.keyOf(object)
    if (key === null) {
      this.count(new Error('it has no metadata.name'), 'a DELETED event')
      return false
    }
    this.#bad.delete(key)
    this.#drop(key)
    return true
  }

  /** Starts a list; nothing changes until its {@link Collection.finish}. */
  collect(): Collection {
    const known = new Map<string, T>()
    const bad = new Map<string, string>()
    return {
      add: (object) => {
        const decoded = this.#decode(object)
        if (decoded.ok) {
          known.delete(decoded.key)
          bad.delete(decoded.key)
          if (decoded.item !== null) known.set(decoded.key, decoded.item)
          return
        }
        this.#report(decoded)
        if (decoded.key === null) return
        bad.set(decoded.key, decoded.version)
        const last = this.#known.get(decoded.key)
        if (last !== undefined && !known.has(decoded.key)) known.set(decoded.key, last)
      },
      remove: (object) => {
        const key = this.keyOf(object)
        if (key === null) return
        known.delete(key)
        bad.delete(key)
      },
      finish: () => {
        this.#known = known
        this.#bad = bad
        this.#options.sink.replace([...known.values()])
      },
    }
  }

  /** Counts and reports something that came instead of an object. */
  count(error: Error, what: string): void {
    this.#undecodable++
    this.#options.log.error(error, 'Something from the API server could not be decoded', {
      path: this.#options.path,
      what,
    })
  }

  /** The key of an object, or null if it has no readable name. */
  keyOf(object: unknown): string | null {
    const metadata = metadataOf(object)
    return metadata === null ? null : this.#options.keyOf(metadata)
  }

  #drop(key: string): void {
    if (this.#known.delete(key)) this.#options.sink.remove(key)
  }

  #decode(object: unknown): Decoded<T> {
    const metadata = metadataOf(object)
    if (metadata === null) {
      return { ok: false, key: null, version: '', error: new Error('it has no metadata.name') }
    }
    const key = this.#options.keyOf(metadata)
    const version = metadata.resourceVersion ?? ''
    try {
      return { ok: true, key, version, item: this.#options.decode(object) }
    } catch (error) {
      return { ok: false, key, version, error: error instanceof Error ? error : new Error(String(error)) }
    }
  }

  /** The same version of the same object comes with every list: it is counted each time, but logged once. */
  #report(failure: Decoded<T> & { readonly ok: false }): void {
    const { key, version, error } = failure
    if (key !== null && this.#bad.get(key) === version) {
      this.#undecodable++
      return
    }
    const kept = key !== null && this.#known.has(key)
    if (key !== null) this.#bad.set(key, version)
    this.count(error, key === null ? 'an object without a name' : `${key} at version ${version}`)
    if (kept) {
      this.#options.log.warning('Keeping the last version that could be decoded', {
        path: this.#options.path,
        key,
      })
    }
  }
}

/** A list under way: objects are decoded as they come, the state changes only at the end. */
export interface Collection {
  add(object: unknown): void
  remove(object: unknown): void
  finish(): void
}

function metadataOf(object: unknown): ObjectMeta | null {
  if (typeof object !== 'object' || object === null || !('metadata' in object)) return null
  const { metadata } = object as { metadata: unknown }
  if (typeof metadata !== 'object' || metadata === null) return null
  const { name } = metadata as { name?: unknown }
  return typeof name === 'string' && name !== '' ? (metadata as ObjectMeta) : null
}

/** `namespace/name`, or the bare name of an object without a namespace. */
export function namespacedName(metadata: ObjectMeta): string {
  return metadata.namespace === undefined || metadata.namespace === ''
    ? metadata.name
    : `${metadata.namespace}/${metadata.name}`
}
