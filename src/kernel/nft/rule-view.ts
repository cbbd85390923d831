import type {
  NftBaseChain,
  NftElement,
  NftFamily,
  NftRule,
  NftSet,
  NftTableContents,
  NftType,
} from './ruleset.ts'
import { canonicalValue, valueMatches } from './values.ts'

/** What an interpreter asks of one table; a table read from the kernel and a mode's own rules can both answer. */
export interface RuleView {
  readonly family: NftFamily
  readonly table: string
  /** Base chains in the order in which they were registered; empty for a dormant table. */
  readonly baseChains: readonly { readonly name: string; readonly base: NftBaseChain }[]
  /** Rules in order; null if there is no such chain. */
  rules(chain: string): readonly NftRule[] | null
  set(name: string): NftSet | null
  /** The element that a key (one canonical value per part, see values.ts) hits; null if none, or no such set. */
  find(set: string, key: readonly string[]): NftElement | null
}

/** A view of a whole table. Elements are indexed when a set is first asked. */
export function viewOf(contents: NftTableContents): RuleView {
  const indexes = new Map<string, (key: readonly string[]) => NftElement | null>()
  const indexOf = (set: NftSet): ((key: readonly string[]) => NftElement | null) => {
    const known = indexes.get(set.name)
    if (known !== undefined) return known
    const built = indexElements(set, contents.elements.get(set.name) ?? [])
    indexes.set(set.name, built)
    return built
  }
  return {
    family: contents.table.family,
    table: contents.table.name,
    baseChains: contents.table.dormant ? [] : baseChainsOf(contents),
    rules: (chain) => (contents.chains.has(chain) ? (contents.rules.get(chain) ?? []) : null),
    set: (name) => contents.sets.get(name) ?? null,
    find(name, key) {
      const set = contents.sets.get(name)
      return set === undefined ? null : indexOf(set)(key)
    },
  }
}

function baseChainsOf(contents: NftTableContents): RuleView['baseChains'] {
  return [...contents.chains.values()].flatMap(({ name, base }) => (base === null ? [] : [{ name, base }]))
}

function indexElements(
  set: NftSet,
  elements: readonly NftElement[],
): (key: readonly string[]) => NftElement | null {
  if (set.interval || elements.some(({ key }) => key.some((part, i) => isPattern(set.key[i], part)))) {
    return (key) => elements.find((element) => keyMatches(set.key, element.key, key)) ?? null
  }
  const byKey = new Map(elements.map((element) => [canonicalKey(set.key, element.key), element]))
  return (key) => byKey.get(key.join(' . ')) ?? null
}

function isPattern(type: NftType | undefined, part: string): boolean {
  return type === 'ipv4_addr' || type === 'ipv6_addr'
    ? /[/-]/.test(part)
    : type === 'inet_service' && part.includes('-')
}

function canonicalKey(types: readonly NftType[], key: readonly string[]): string {
  return key.map((part, i) => canonicalValue(types[i] ?? 'integer', part)).join(' . ')
}

/** True if every part of an element's key (values, prefixes, ranges) matches the canonical value at its place. */
export function keyMatches(
  types: readonly NftType[],
  pattern: readonly string[],
  key: readonly string[],
): boolean {
  return (
    pattern.length === key.length &&
    pattern.every((part, i) => part === '*' || valueMatches(types[i] ?? 'integer', part, key[i]!))
  )
}
