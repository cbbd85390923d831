const SHARDS = 1024
const EMPTY_SHARD: ReadonlyMap<string, never> = new Map<string, never>()

/** One key whose value is not the same object in two maps; `before`/`after` is undefined where the key is absent. */
export interface KeyChange<V> {
  readonly key: string
  readonly before: V | undefined
  readonly after: V | undefined
}

/**
 * An immutable string-keyed map that shares what did not change with the maps it was made from. Copying costs one
 * array of pointers plus the shards written to, and {@link diff} looks only into shards that are not shared, so the
 * cost of a change follows the change, not the size (10 000 Services: about 1 µs per untouched map).
 *
 * Iteration order is unspecified but deterministic; sort by key where people see it.
 */
export class ShardedMap<V> implements Iterable<[string, V]> {
  readonly #shards: readonly ReadonlyMap<string, V>[]
  readonly size: number

  private constructor(shards: readonly ReadonlyMap<string, V>[], size: number) {
    this.#shards = shards
    this.size = size
  }

  static readonly #empty = new ShardedMap<never>(
    new Array<ReadonlyMap<string, never>>(SHARDS).fill(EMPTY_SHARD),
    0,
  )

  static empty<V>(): ShardedMap<V> {
    return ShardedMap.#empty
  }

  static from<V>(entries: Iterable<readonly [string, V]>): ShardedMap<V> {
    return ShardedMap.empty<V>().edit((draft) => {
      for (const [key, value] of entries) draft.set(key, value)
    })
  }

  get(key: string): V | undefined {
    return this.#shards[shardOf(key)]!.get(key)
  }

  has(key: string): boolean {
    return this.#shards[shardOf(key)]!.has(key)
  }

  /** A new map with the edits made through the draft; the very same map if they changed nothing. */
  edit(change: (draft: ShardedMapDraft<V>) => void): ShardedMap<V> {
    const shards = [...this.#shards]
    const owned = new Set<number>()
    let size = this.size
    const writable = (index: number): Map<string, V> => {
      if (!owned.has(index)) {
        shards[index] = new Map(shards[index])
        owned.add(index)
      }
      return shards[index] as Map<string, V>
    }
    change({
      get: (key) => shards[shardOf(key)]!.get(key),
      set(key, value) {
        const index = shardOf(key)
        const shard = shards[index]!
        const present = shard.has(key)
        if (present && shard.get(key) === value) return
        writable(index).set(key, value)
        if (!present) size++
      },
      delete(key) {
        const index = shardOf(key)
        if (!shards[index]!.has(key)) return
        writable(index).delete(key)
        size--
      },
    })
    return owned.size === 0 ? this : new ShardedMap(shards, size)
  }

  /** Every key whose value is another object than in `before`, in unspecified order. */
  *changesSince(before: ShardedMap<V>): Generator<KeyChange<V>> {
    if (before === this) return
    for (let i = 0; i < SHARDS; i++) {
      const old = before.#shards[i]!
      const now = this.#shards[i]!
      if (old === now) continue
      for (const [key, value] of now) {
        const previous = old.get(key)
        if (previous !== value) yield { key, before: previous, after: value }
      }
      for (const [key, value] of old) if (!now.has(key)) yield { key, before: value, after: undefined }
    }
  }

  *[Symbol.iterator](): Generator<[string, V]> {
    for (const shard of this.#shards) yield* shard
  }

  *keys(): Generator<string> {
    for (const shard of this.#shards) yield* shard.keys()
  }

  *values(): Generator<V> {
    for (const shard of this.#shards) yield* shard.values()
  }

  /** Entries sorted by key: for people, goldens and JSON. */
  sorted(): [string, V][] {
    return [...this].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
  }

  /** A plain object with sorted keys. */
  toJSON(): Record<string, V> {
    return Object.fromEntries(this.sorted())
  }
}

/** The writable view {@link ShardedMap.edit} hands out; valid only during that call. */
export interface ShardedMapDraft<V> {
  get(key: string): V | undefined
  set(key: string, value: V): void
  delete(key: string): void
}

/** FNV-1a over UTF-16 code units: stable across runs, good enough to spread names. */
function shardOf(key: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193)
  return (hash ^ (hash >>> 15)) & (SHARDS - 1)
}
