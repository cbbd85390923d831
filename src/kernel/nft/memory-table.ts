import { ERRNO } from '../ffi/errno.ts'
import { canonicalChain, canonicalElement, canonicalRule, canonicalSet, canonicalTable } from './canonical.ts'
import { bytesOf, rangeOf } from './datatypes.ts'
import type { NftChain, NftElement, NftRule, NftSet, NftStatement, NftTable, NftVerdict } from './ruleset.ts'

/** Undoes one change. */
type Undo = () => void

/** The kernel would refuse the step with this errno. */
export class Refusal extends Error {
  readonly errno: number

  constructor(errno: number) {
    super(`errno ${errno}`)
    this.errno = errno
  }
}

export function refuse(errno: number): never {
  throw new Refusal(errno)
}

interface StoredElement {
  readonly element: NftElement
  /** When it goes, by the namespace's clock; null = never. */
  readonly expires: number | null
  /** In sets of ranges: the first and last value of each part. */
  readonly ranges: readonly (readonly [Buffer, Buffer])[] | null
}

/** One table of the in-memory nf_tables. Every change goes into the undo log first given; nothing else is kept of it. */
export class MemoryTable {
  table: NftTable
  /** The port that owns it; null = nobody (never owned, or its owner is gone). */
  owner: number | null = null
  readonly chains = new Map<string, NftChain>()
  readonly rules = new Map<string, NftRule[]>()
  readonly sets = new Map<string, NftSet>()
  readonly elements = new Map<string, Map<string, StoredElement>>()
  /** How many rules and elements refer to a chain (`chain x`) or rules to a set (`set x`). */
  readonly #uses = new Map<string, number>()
  readonly #now: () => number

  constructor(table: NftTable, now: () => number) {
    this.table = canonicalTable(table)
    this.#now = now
  }

  addChain(wanted: NftChain, undo: Undo[]): void {
    const chain = canonicalChain(wanted)
    const existing = this.chains.get(chain.name)
    if (existing !== undefined) {
      if (chain.base === null) return
      const { base } = existing
      if (base === null) return refuse(ERRNO.EOPNOTSUPP)
      const moved = base.hook !== chain.base.hook || base.priority !== chain.base.priority
      if (moved) refuse(ERRNO.EOPNOTSUPP)
      if (base.type !== chain.base.type) refuse(ERRNO.EEXIST)
      replace(this.chains, chain.name, { ...existing, base: chain.base }, undo)
      return
    }
    // The kernel's nat chains have no forward hook, and conntrack must have seen the packet before them.
    if (chain.base?.type === 'nat' && (chain.base.hook === 'forward' || chain.base.priority <= -200)) {
      refuse(ERRNO.EOPNOTSUPP)
    }
    replace(this.chains, chain.name, chain, undo)
    replace(this.rules, chain.name, [], undo)
  }

  flushChain(name: string, undo: Undo[]): void {
    const rules = this.rules.get(name) ?? refuse(ERRNO.ENOENT)
    for (const rule of rules) this.#referRule(rule, -1, undo)
    replace(this.rules, name, [], undo)
  }

  deleteChain(name: string, undo: Undo[]): void {
    this.flushChain(name, undo)
    if ((this.#uses.get(`chain ${name}`) ?? 0) > 0) refuse(ERRNO.EBUSY)
    remove(this.rules, name, undo)
    remove(this.chains, name, undo)
  }

  addRule(wanted: NftRule, undo: Undo[]): void {
    const rules = this.rules.get(wanted.chain) ?? refuse(ERRNO.ENOENT)
    const rule = canonicalRule(this.table.family, wanted)
    for (const statement of rule.statements) {
      if ('unknown' in statement)
        throw new TypeError(`cannot write what was not understood: ${statement.unknown}`)
      for (const chain of chainsIn(statement)) this.#target(chain)
      for (const set of setsIn(statement)) if (!this.sets.has(set)) refuse(ERRNO.ENOENT)
    }
    this.#referRule(rule, 1, undo)
    rules.push(rule)
    undo.push(() => rules.pop())
  }

  addSet(wanted: NftSet, undo: Undo[]): void {
    const set = canonicalSet(wanted)
    const existing = this.sets.get(set.name)
    if (existing === undefined) {
      replace(this.sets, set.name, set, undo)
      replace(this.elements, set.name, new Map<string, StoredElement>(), undo)
      return
    }
    if (shapeOf(existing) !== shapeOf(set)) refuse(ERRNO.EEXIST)
    const size = set.size ?? existing.size
    const timeoutSeconds = set.timeoutSeconds ?? existing.timeoutSeconds
    replace(this.sets, set.name, { ...existing, size, timeoutSeconds }, undo)
  }

  flushSet(name: string, undo: Undo[]): void {
    const elements = this.elements.get(name) ?? refuse(ERRNO.ENOENT)
    for (const { element } of elements.values()) this.#referElement(element, -1, undo)
    replace(this.elements, name, new Map<string, StoredElement>(), undo)
  }

  deleteSet(name: string, undo: Undo[]): void {
    if (!this.sets.has(name)) refuse(ERRNO.ENOENT)
    if ((this.#uses.get(`set ${name}`) ?? 0) > 0) refuse(ERRNO.EBUSY)
    this.flushSet(name, undo)
    remove(this.elements, name, undo)
    remove(this.sets, name, undo)
  }

  addElement(wanted: NftElement, undo: Undo[]): void {
    const set = this.sets.get(wanted.set) ?? refuse(ERRNO.ENOENT)
    const element = canonicalElement(set, wanted)
    const elements = this.elements.get(set.name)!
    const key = element.key.join(' . ')
    if (element.verdict !== null && 'chain' in element.verdict) this.#target(element.verdict.chain)
    const existing = this.#alive(elements.get(key))
    if (existing !== null) {
      if (dataOf(existing.element) !== dataOf(element)) refuse(ERRNO.EEXIST)
      return
    }
    const ranges = set.interval ? rangesOf(set, element) : null
    if (ranges !== null && [...elements.values()].some((other) => overlap(other.ranges, ranges))) {
      refuse(ERRNO.EEXIST)
    }
    if (set.size !== null && elements.size >= set.size) refuse(ERRNO.ENFILE)
    const life = element.timeoutMs ?? (set.timeoutSeconds === null ? null : set.timeoutSeconds * 1000)
    const expires = set.timeout && life !== null ? this.#now() + life : null
    this.#referElement(element, 1, undo)
    replace(elements, key, { element, expires, ranges }, undo)
  }

  deleteElement(wanted: NftElement, undo: Undo[]): void {
    const set = this.sets.get(wanted.set) ?? refuse(ERRNO.ENOENT)
    const element = canonicalElement(set, wanted)
    const elements = this.elements.get(set.name)!
    const key = this.#keyOf(set, elements, element)
    const existing = this.#alive(elements.get(key)) ?? refuse(ERRNO.ENOENT)
    this.#referElement(existing.element, -1, undo)
    remove(elements, key, undo)
  }

  /** Sets of concatenated ranges delete whatever holds the first key of what they are given (nft_pipapo_deactivate). */
  #keyOf(set: NftSet, elements: ReadonlyMap<string, StoredElement>, element: NftElement): string {
    const key = element.key.join(' . ')
    if (!set.interval || set.key.length === 1 || elements.has(key)) return key
    const wanted = rangesOf(set, element)
    for (const [other, { ranges }] of elements)
      if (ranges !== null && contains(ranges, wanted, 0)) return other
    return key
  }

  /** The elements that have not expired, with what is left of their lives. */
  elementsOf(name: string): NftElement[] {
    const now = this.#now()
    return [...(this.elements.get(name)?.values() ?? [])]
      .filter((stored) => this.#alive(stored) !== null)
      .map(({ element, expires }) => ({
        ...element,
        timeoutMs: expires === null ? null : Math.round(expires - now),
      }))
  }

  #alive(stored: StoredElement | undefined): StoredElement | null {
    if (stored === undefined) return null
    return stored.expires === null || stored.expires > this.#now() ? stored : null
  }

  /** A chain that a verdict may name. */
  #target(name: string): void {
    const chain = this.chains.get(name) ?? refuse(ERRNO.ENOENT)
    if (chain.base !== null) refuse(ERRNO.EOPNOTSUPP)
  }

  #referRule(rule: NftRule, by: number, undo: Undo[]): void {
    for (const statement of rule.statements) {
      for (const chain of chainsIn(statement)) this.#count(`chain ${chain}`, by, undo)
      for (const set of setsIn(statement)) this.#count(`set ${set}`, by, undo)
    }
  }

  #referElement({ verdict }: NftElement, by: number, undo: Undo[]): void {
    if (verdict !== null && 'chain' in verdict) this.#count(`chain ${verdict.chain}`, by, undo)
  }

  #count(what: string, by: number, undo: Undo[]): void {
    this.#uses.set(what, (this.#uses.get(what) ?? 0) + by)
    undo.push(() => this.#uses.set(what, (this.#uses.get(what) ?? 0) - by))
  }
}

function replace<V>(map: Map<string, V>, key: string, value: V, undo: Undo[]): void {
  const before = map.get(key)
  undo.push(() => (before === undefined ? map.delete(key) : map.set(key, before)))
  map.set(key, value)
}

function remove<V>(map: Map<string, V>, key: string, undo: Undo[]): void {
  const before = map.get(key)
  map.delete(key)
  if (before !== undefined) undo.push(() => map.set(key, before))
}

const shapeOf = ({ key, data, interval, dynamic, timeout }: NftSet): string =>
  JSON.stringify([key, data, interval, dynamic, timeout])

const dataOf = ({ data, verdict }: NftElement): string => JSON.stringify([data, verdict])

function rangesOf(set: NftSet, { key }: NftElement): readonly (readonly [Buffer, Buffer])[] {
  return set.key.map((type, i) => {
    const text = key[i] ?? ''
    const [first, last] = rangeOf(type, text) ?? [text, text]
    return [bytesOf(type, first), bytesOf(type, last)] as const
  })
}

type Ranges = NonNullable<StoredElement['ranges']>

/** What the kernel takes for an overlap of what is there with what is new. */
function overlap(there: StoredElement['ranges'], added: Ranges): boolean {
  if (there === null) return false
  if (added.length === 1) return within(there[0]![0], added[0]!) || within(added[0]![0], there[0]!)
  // Sets of concatenated ranges look only whether the first or the last key is taken (nft_pipapo_insert).
  return contains(there, added, 0) || contains(there, added, 1)
}

function contains(ranges: Ranges, added: Ranges, end: 0 | 1): boolean {
  return ranges.every((range, i) => within(added[i]![end], range))
}

function within(value: Buffer, [first, last]: readonly [Buffer, Buffer]): boolean {
  return Buffer.compare(first, value) <= 0 && Buffer.compare(value, last) <= 0
}

const chainOf = (verdict: NftVerdict): string[] => ('chain' in verdict ? [verdict.chain] : [])

function chainsIn(statement: NftStatement): string[] {
  if ('verdict' in statement) return chainOf(statement)
  if ('anonymousVmap' in statement) return statement.anonymousVmap.entries.flatMap(([, to]) => chainOf(to))
  return []
}

function setsIn(statement: NftStatement): string[] {
  if ('matchSet' in statement) return [statement.matchSet.set]
  if ('vmap' in statement) return [statement.vmap.map]
  if ('updateSet' in statement) return [statement.updateSet.set]
  return 'dnat' in statement && 'map' in statement.dnat ? [statement.dnat.map] : []
}
