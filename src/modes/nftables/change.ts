import type { NftOperation } from '../../kernel/nft/port.ts'
import { printRule } from '../../kernel/nft/print-rule.ts'
import type {
  NftChain,
  NftElement,
  NftRule,
  NftSet,
  NftStatement,
  NftTableContents,
  NftType,
  NftVerdict,
} from '../../kernel/nft/ruleset.ts'

/** How two tables differ, object by object. Names and elements as in the side that has them. */
export interface TableDifference {
  readonly missingSets: readonly NftSet[]
  readonly unexpectedSets: readonly NftSet[]
  /** Same name, but of another make: it cannot be changed in place. */
  readonly differentSets: readonly NftSet[]
  readonly missingChains: readonly NftChain[]
  readonly unexpectedChains: readonly NftChain[]
  /** Base chains hooked elsewhere. */
  readonly rehookedChains: readonly NftChain[]
  /** Chains that stay, with other rules. */
  readonly rewrittenChains: readonly string[]
  /** Elements of sets that both have and that are of the same make. */
  readonly missingElements: readonly NftElement[]
  readonly unexpectedElements: readonly NftElement[]
  readonly differentElements: readonly { readonly before: NftElement; readonly after: NftElement }[]
}

/**
 * Compares two tables (or the same part of two). Not compared: comments of chains, which cannot be changed in place;
 * elements of sets that rules fill; a set with more room than needed; flags of the table.
 */
export function differenceOf(before: NftTableContents, after: NftTableContents): TableDifference {
  const sets = compareByName(before.sets, after.sets, sameSet)
  const chains = compareByName(before.chains, after.chains, sameHook)
  const elements = compareElements(before, after, new Set(sets.different.map(({ name }) => name)))
  return {
    missingSets: sets.missing,
    unexpectedSets: sets.unexpected,
    differentSets: sets.different,
    missingChains: chains.missing,
    unexpectedChains: chains.unexpected,
    rehookedChains: chains.different,
    rewrittenChains: chains.same.map(({ name }) => name).filter((name) => !sameRules(before, after, name)),
    ...elements,
  }
}

/**
 * The transaction that turns `before` into `after`. Everything that goes, goes first, users before what they use; then
 * everything that comes, the used before their users. So a set of another make is replaced under its own name, together
 * with the rules that refer to it, at one instant for packets.
 */
export function compareTables(before: NftTableContents, after: NftTableContents): NftOperation[] {
  const difference = differenceOf(before, after)
  const { differentSets, unexpectedSets, rehookedChains, unexpectedChains, missingChains } = difference
  const goingSets = new Set([...differentSets, ...unexpectedSets].map(({ name }) => name))
  const newChains = new Set([...missingChains, ...rehookedChains].map(({ name }) => name))
  const rewritten = new Set(difference.rewrittenChains)
  if (differentSets.length > 0) {
    for (const name of after.chains.keys()) {
      if (!newChains.has(name) && refersToSet(after.rules.get(name), goingSets)) rewritten.add(name)
    }
  }
  const goingChains = [...unexpectedChains, ...rehookedChains].map(({ name }) => name)
  const flushed = [...rewritten, ...goingChains.filter((name) => refers(before.rules.get(name), goingSets))]
  const written = [...rewritten, ...newChains]
  const addedElements = [
    ...difference.missingElements,
    ...difference.differentElements.map((pair) => pair.after),
    ...[...difference.missingSets, ...differentSets].flatMap(({ name }) => after.elements.get(name) ?? []),
  ]
  return [
    ...flushed
      .filter((name) => (before.rules.get(name)?.length ?? 0) > 0)
      .map((chain) => ({ op: 'flush chain', chain }) as const),
    ...difference.unexpectedElements.map(deleteElement),
    ...difference.differentElements.map((pair) => deleteElement(pair.before)),
    ...[...goingSets].map((set) => ({ op: 'delete set', set }) as const),
    ...goingChains.map((chain) => ({ op: 'delete chain', chain }) as const),
    ...[...difference.missingSets, ...differentSets].map((set) => ({ op: 'add set', set }) as const),
    ...[...missingChains, ...rehookedChains].map((chain) => ({ op: 'add chain', chain }) as const),
    ...written.flatMap((name) =>
      (after.rules.get(name) ?? []).map((rule) => ({ op: 'add rule', rule }) as const),
    ),
    ...addedElements.map((element) => ({ op: 'add element', element }) as const),
  ]
}

const deleteElement = (element: NftElement): NftOperation => ({ op: 'delete element', element })

/** The transaction that makes a table that is not there, its flags included. */
export function createTable({ table, sets, chains, rules, elements }: NftTableContents): NftOperation[] {
  const operations: NftOperation[] = [{ op: 'add table', table }]
  for (const set of sets.values()) operations.push({ op: 'add set', set })
  for (const chain of chains.values()) operations.push({ op: 'add chain', chain })
  for (const list of rules.values()) for (const rule of list) operations.push({ op: 'add rule', rule })
  for (const list of elements.values()) {
    for (const element of list) operations.push({ op: 'add element', element })
  }
  return operations
}

interface Compared<T> {
  readonly missing: readonly T[]
  readonly unexpected: readonly T[]
  /** As in `after`. */
  readonly different: readonly T[]
  readonly same: readonly T[]
}

function compareByName<T>(
  before: ReadonlyMap<string, T>,
  after: ReadonlyMap<string, T>,
  isSame: (before: T, after: T) => boolean,
): Compared<T> {
  const [missing, different, same]: [T[], T[], T[]] = [[], [], []]
  for (const [name, wanted] of after) {
    const present = before.get(name)
    if (present === undefined) missing.push(wanted)
    else if (present === wanted || isSame(present, wanted)) same.push(wanted)
    else different.push(wanted)
  }
  const unexpected = [...before].filter(([name]) => !after.has(name)).map(([, present]) => present)
  return { missing, unexpected, different, same }
}

function sameSet(before: NftSet, after: NftSet): boolean {
  const types = ({ key, data }: NftSet): string =>
    [key.map(plainType), data === null || data === 'verdict' ? (data ?? '') : data.map(plainType)].join(':')
  return (
    types(before) === types(after) &&
    before.interval === after.interval &&
    before.dynamic === after.dynamic &&
    before.timeout === after.timeout &&
    before.timeoutSeconds === after.timeoutSeconds &&
    before.comment === after.comment &&
    (after.size === null ? before.size === null : before.size !== null && before.size >= after.size)
  )
}

/** nft calls an index of `typeof numgen` an integer, netlink users a mark: the same to the kernel. */
const plainType = (type: NftType): NftType => (type === 'integer' ? 'mark' : type)

function sameHook({ base: before }: NftChain, { base: after }: NftChain): boolean {
  if (before === null || after === null) return before === after
  return (
    before.type === after.type &&
    before.hook === after.hook &&
    before.priority === after.priority &&
    before.policy === after.policy
  )
}

function sameRules(before: NftTableContents, after: NftTableContents, chain: string): boolean {
  const [left, right] = [before.rules.get(chain) ?? [], after.rules.get(chain) ?? []]
  if (left.length !== right.length) return false
  return left.every((rule, i) => rule === right[i] || sameRule(before, rule, right[i]!))
}

function sameRule({ table: { family } }: NftTableContents, a: NftRule, b: NftRule): boolean {
  return printRule(family, a) === printRule(family, b)
}

function compareElements(
  before: NftTableContents,
  after: NftTableContents,
  replaced: ReadonlySet<string>,
): Pick<TableDifference, 'missingElements' | 'unexpectedElements' | 'differentElements'> {
  const missingElements: NftElement[] = []
  const unexpectedElements: NftElement[] = []
  const differentElements: { before: NftElement; after: NftElement }[] = []
  for (const [name, set] of after.sets) {
    if (set.dynamic || replaced.has(name) || !before.sets.has(name)) continue
    const present = new Map<string, NftElement>()
    for (const element of before.elements.get(name) ?? []) present.set(keyText(set.key, element), element)
    for (const wanted of after.elements.get(name) ?? []) {
      const key = keyText(set.key, wanted)
      const found = present.get(key)
      present.delete(key)
      if (found === undefined) missingElements.push(wanted)
      else if (!sameElement(found, wanted)) differentElements.push({ before: found, after: wanted })
    }
    unexpectedElements.push(...present.values())
  }
  return { missingElements, unexpectedElements, differentElements }
}

/** The key as text. A mark is a number that may be printed in decimal or as `0x…`. */
function keyText(types: readonly NftType[], { key }: NftElement): string {
  return key.map((part, i) => (isNumber(types[i]) ? String(Number(part)) : part)).join(' ')
}

const isNumber = (type: NftType | undefined): boolean => type === 'mark' || type === 'integer'

function sameElement(a: NftElement, b: NftElement): boolean {
  return (
    a === b ||
    (a.comment === b.comment && sameVerdict(a.verdict, b.verdict) && a.data?.join(' ') === b.data?.join(' '))
  )
}

function sameVerdict(a: NftVerdict | null, b: NftVerdict | null): boolean {
  if (a === null || b === null) return a === b
  return a.verdict === b.verdict && ('chain' in a ? a.chain : '') === ('chain' in b ? b.chain : '')
}

/** Whether rules hold on to a chain or to one of the sets, which could not go before them. */
function refers(rules: readonly NftRule[] | undefined, sets: ReadonlySet<string>): boolean {
  return (
    refersToSet(rules, sets) ||
    (rules ?? []).some(({ statements }) => statements.some((statement) => jumps(statement)))
  )
}

function jumps(statement: NftStatement): boolean {
  if ('anonymousVmap' in statement) return true
  return 'verdict' in statement && (statement.verdict === 'jump' || statement.verdict === 'goto')
}

function refersToSet(rules: readonly NftRule[] | undefined, sets: ReadonlySet<string>): boolean {
  return (rules ?? []).some(({ statements }) =>
    statements.some((statement) => {
      const name = setOf(statement)
      return name !== null && sets.has(name)
    }),
  )
}

function setOf(statement: NftStatement): string | null {
  if ('matchSet' in statement) return statement.matchSet.set
  if ('vmap' in statement) return statement.vmap.map
  if ('updateSet' in statement) return statement.updateSet.set
  if ('dnat' in statement && 'map' in statement.dnat) return statement.dnat.map
  return null
}
