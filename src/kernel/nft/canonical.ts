import type { DataType } from './datatypes.ts'
import { bitNames, canonicalText, numberOf, typeOfField } from './datatypes.ts'
import { typeOfPart } from './compile-key.ts'
import { compareText } from './print.ts'
import type {
  NftChain,
  NftDnat,
  NftElement,
  NftFamily,
  NftKey,
  NftKeyPart,
  NftRule,
  NftSet,
  NftStatement,
  NftTable,
  NftTableContents,
  NftValue,
} from './ruleset.ts'
import { canonicalComment } from './userdata.ts'

/**
 * One form for everything that means the same to the kernel: what `read` returns for what was written. Comparing a wanted
 * table with a read one means comparing their canonical forms. All functions are idempotent.
 */

/** nft's own size for a dynamic set that is given none. */
const DYNAMIC_SET_SIZE = 65_535

export function canonicalTable(table: NftTable): NftTable {
  return { ...table, comment: comment(table.comment) }
}

export function canonicalChain(chain: NftChain): NftChain {
  return { ...chain, comment: comment(chain.comment) }
}

export function canonicalSet(set: NftSet): NftSet {
  return {
    ...set,
    comment: comment(set.comment),
    timeout: set.timeout || set.timeoutSeconds !== null,
    size: set.size ?? (set.dynamic ? DYNAMIC_SET_SIZE : null),
  }
}

/** The types of a set's key and data are needed to spell its elements; TypeError if it has not their parts. */
export function canonicalElement(set: Pick<NftSet, 'key' | 'data'>, element: NftElement): NftElement {
  if (element.key.length !== set.key.length) {
    throw new TypeError(`${element.set}: the key ${element.key.join(' . ')} has not ${set.key.length} parts`)
  }
  return {
    ...element,
    key: canonicalValues(set.key, element.key),
    data:
      element.data === null || set.data === null || set.data === 'verdict'
        ? element.data
        : canonicalValues(set.data, element.data),
    comment: comment(element.comment),
  }
}

export function canonicalRule(family: NftFamily, rule: NftRule): NftRule {
  return {
    chain: rule.chain,
    statements: withImplied(rule.statements).map((statement) => canonicalStatement(family, statement)),
    comment: comment(rule.comment),
  }
}

/** A TCP reset answers TCP only: as nft does, the rule then says so. */
export function withImplied(statements: readonly NftStatement[]): readonly NftStatement[] {
  const at = statements.findIndex((statement) => 'reject' in statement && statement.reject === 'tcp reset')
  if (at < 0 || statements.slice(0, at).some(isTcpOnly)) return statements
  return statements.toSpliced(at, 0, { match: { left: 'l4proto', op: '==', right: ['tcp'] } })
}

function isTcpOnly(statement: NftStatement): boolean {
  if (!('match' in statement)) return false
  const { left, op, right } = statement.match
  return left === 'l4proto' && op === '==' && right.length === 1 && (right[0] === 'tcp' || right[0] === '6')
}

/** Also sorts the elements of each set by key, and leaves out chains without rules and sets without elements. */
export function canonicalContents(contents: NftTableContents): NftTableContents {
  const { family } = contents.table
  const sets = mapValues(contents.sets, canonicalSet)
  return {
    table: canonicalTable(contents.table),
    chains: mapValues(contents.chains, canonicalChain),
    rules: withoutEmpty(
      mapValues(contents.rules, (rules) => rules.map((rule) => canonicalRule(family, rule))),
    ),
    sets,
    elements: withoutEmpty(
      mapValues(contents.elements, (elements, name) => {
        const set = sets.get(name)
        const spelt = set === undefined ? elements : elements.map((element) => canonicalElement(set, element))
        return spelt.toSorted((a, b) => compareText(a.key.join(' '), b.key.join(' ')))
      }),
    ),
  }
}

function mapValues<T>(map: ReadonlyMap<string, T>, change: (value: T, name: string) => T): Map<string, T> {
  return new Map([...map].map(([name, value]) => [name, change(value, name)]))
}

function withoutEmpty<T>(map: ReadonlyMap<string, readonly T[]>): Map<string, readonly T[]> {
  return new Map([...map].filter(([, list]) => list.length > 0))
}

const comment = (text: string | null): string | null => (text === null ? null : canonicalComment(text))

function canonicalValues(types: readonly DataType[], value: NftValue): NftValue {
  return value.map((text, i) => (types[i] === undefined ? text : canonicalText(types[i], text)))
}

export function canonicalStatement(family: NftFamily, statement: NftStatement): NftStatement {
  if ('match' in statement) return canonicalMatch(family, statement.match)
  if ('matchMark' in statement) {
    const { op } = statement.matchMark
    const [mask, value] = [statement.matchMark.mask >>> 0, statement.matchMark.value >>> 0]
    if (mask === 0xffffffff) return { match: { left: 'mark', op, right: [String(value)] } }
    return { matchMark: { mask, op, value } }
  }
  if ('matchSet' in statement) {
    return { matchSet: { ...statement.matchSet, key: canonicalKey(statement.matchSet.key) } }
  }
  if ('vmap' in statement) return { vmap: { ...statement.vmap, key: canonicalKey(statement.vmap.key) } }
  if ('anonymousVmap' in statement) {
    const { key, entries } = statement.anonymousVmap
    return { anonymousVmap: { key: canonicalKey(key), entries: canonicalEntries(family, key, entries) } }
  }
  if ('setMark' in statement) {
    return { setMark: { and: statement.setMark.and >>> 0, xor: statement.setMark.xor >>> 0 } }
  }
  if ('dnat' in statement) return { dnat: canonicalDnat(family, statement.dnat) }
  return statement
}

type Match = Extract<NftStatement, { readonly match: unknown }>['match']

function canonicalMatch(family: NftFamily, { left, op, right }: Match): NftStatement {
  const type = typeOfField(left, family)
  if (type === 'ct_state' || type === 'ct_status') {
    const bits = right.reduce((sum, name) => (sum | numberOf(type, name)) >>> 0, 0)
    return { match: { left, op, right: bitNames(type, bits) } }
  }
  const spelt = right.map((text) =>
    type === 'ifname' && text.includes('*') ? text.replaceAll('"', '') : canonicalText(type, text),
  )
  return { match: { left, op, right: [...new Set(spelt)].sort(compareText) } }
}

function canonicalKey(key: NftKey): NftKey {
  return key.map((part): NftKeyPart =>
    'hash' in part ? { hash: { ...part.hash, seed: part.hash.seed === 0 ? null : part.hash.seed } } : part,
  )
}

function canonicalEntries<T>(
  family: NftFamily,
  key: NftKey,
  entries: readonly (readonly [NftValue, T])[],
): (readonly [NftValue, T])[] {
  const types = key.map((part) => typeOfPart(part, family))
  return entries
    .map(([value, to]) => [canonicalValues(types, value), to] as const)
    .sort(([a], [b]) => compareText(a.join(' '), b.join(' ')))
}

function canonicalDnat(family: NftFamily, dnat: NftDnat): NftDnat {
  const types: DataType[] = [typeOfField('daddr', family), 'inet_service']
  if ('to' in dnat) return { to: canonicalValues(types, dnat.to) }
  const key = canonicalKey(dnat.key)
  if ('map' in dnat) return { key, map: dnat.map }
  const entries = canonicalEntries(family, key, dnat.entries)
  return { key, entries: entries.map(([at, to]) => [at, canonicalValues(types, to)] as const) }
}
