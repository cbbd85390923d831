import type { Change, ChangeType } from './entry.ts'
import { Entry } from './entry.ts'
import type { ApiObject } from './json.ts'

export type ChangeListener = (change: Change) => void

/** A consistent view of a collection at one revision, in key order. */
export interface Snapshot {
  readonly revision: number
  readonly entries: readonly Entry[]
}

/** `namespace/name`, or `name` for what has no namespace; also the order of lists. */
export function keyOf(namespace: string, name: string): string {
  return namespace === '' ? name : `${namespace}/${name}`
}

/** Objects of one kind, their bounded history, and who listens. Holds no rules. */
export class Collection {
  readonly #entries = new Map<string, Entry>()
  readonly #historyLimit: number
  #sortedKeys: string[] | null = null
  #history: Change[] = []
  #compacted: number
  readonly #listeners = new Set<ChangeListener>()

  /** `revision` is where history starts: nothing before it can be asked for. */
  constructor(revision: number, historyLimit: number) {
    this.#compacted = revision
    this.#historyLimit = historyLimit
  }

  /** Changes up to and including this revision are forgotten. */
  get compactedRevision(): number {
    return this.#compacted
  }

  get size(): number {
    return this.#entries.size
  }

  get(key: string): Entry | undefined {
    return this.#entries.get(key)
  }

  values(): IterableIterator<Entry> {
    return this.#entries.values()
  }

  /** Entries in key order; `namespace` empty means all. */
  sorted(namespace = ''): Entry[] {
    return this.withPrefix(namespace === '' ? '' : `${namespace}/`)
  }

  /** Entries whose key starts with `prefix`, in key order; costs what it returns. */
  withPrefix(prefix: string): Entry[] {
    this.#sortedKeys ??= [...this.#entries.keys()].sort()
    const keys = prefix === '' ? this.#sortedKeys : range(this.#sortedKeys, prefix)
    return keys.map((key) => this.#entries.get(key)!)
  }

  /** Records a new state (null = deleted, `object` is then the last state) and tells everyone. */
  record(type: ChangeType, key: string, object: ApiObject, revision: number): Entry {
    const before = this.#entries.get(key) ?? null
    const after = new Entry(key, object, revision)
    if (type === 'DELETED') this.#entries.delete(key)
    else this.#entries.set(key, after)
    if (type !== 'MODIFIED') this.#keepSorted(type, key)
    const change: Change = { type, revision, before, after }
    this.#history.push(change)
    if (this.#history.length > 2 * this.#historyLimit) this.#forget(this.#history.length - this.#historyLimit)
    for (const listener of Array.from(this.#listeners)) listener(change)
    return after
  }

  /** Changes after `revision`, oldest first; null when some of them are forgotten. */
  changesSince(revision: number): readonly Change[] | null {
    if (revision < this.#compacted) return null
    let from = this.#history.length
    while (from > 0 && this.#history[from - 1]!.revision > revision) from--
    return this.#history.slice(from)
  }

  /** The collection as it was at `revision`; null when that is forgotten. */
  at(revision: number, namespace = ''): Entry[] | null {
    const changes = this.changesSince(revision)
    if (changes === null) return null
    if (changes.length === 0) return this.sorted(namespace)
    const past = new Map(this.#entries)
    for (const change of changes.toReversed()) {
      if (change.before === null) past.delete(change.after.key)
      else past.set(change.after.key, change.before)
    }
    const prefix = namespace === '' ? '' : `${namespace}/`
    return [...past.keys()]
      .filter((key) => key.startsWith(prefix))
      .sort()
      .map((key) => past.get(key)!)
  }

  /** Forgets all changes up to `revision`. */
  compact(revision: number): void {
    const keep = this.#history.findIndex((change) => change.revision > revision)
    this.#history = keep < 0 ? [] : this.#history.slice(keep)
    this.#compacted = Math.max(this.#compacted, revision)
  }

  /** Calls back on every change, in order, synchronously; the returned function ends that. */
  listen(listener: ChangeListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Keeps the sorted keys sorted, if there are any yet: sorting anew for each object of a bulk load would be quadratic. */
  #keepSorted(type: ChangeType, key: string): void {
    if (this.#sortedKeys === null) return
    const at = lowerBound(this.#sortedKeys, key)
    if (type === 'ADDED') this.#sortedKeys.splice(at, 0, key)
    else this.#sortedKeys.splice(at, 1)
  }

  #forget(count: number): void {
    this.#compacted = this.#history[count - 1]!.revision
    this.#history = this.#history.slice(count)
  }
}

/** The part of a sorted list that starts with `prefix`. */
function range(keys: readonly string[], prefix: string): string[] {
  const start = lowerBound(keys, prefix)
  let end = start
  while (end < keys.length && keys[end]!.startsWith(prefix)) end++
  return keys.slice(start, end)
}

/** Where `key` is or would be. */
function lowerBound(keys: readonly string[], key: string): number {
  let [low, high] = [0, keys.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (keys[middle]! < key) low = middle + 1
    else high = middle
  }
  return low
}
