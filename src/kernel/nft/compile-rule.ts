import type { DataType } from './datatypes.ts'
import { bytesOf, numberOf, padded, prefixOf, rangeOf, typeOfField } from './datatypes.ts'
import { withImplied } from './canonical.ts'
import { loadField, loadKey, typeOfPart } from './compile-key.ts'
import type { NftExpression } from './expressions.ts'
import { CMP, DNAT, META, NAT_FLAGS, REJECT } from './expressions.ts'
import type {
  NftDnat,
  NftElement,
  NftFamily,
  NftField,
  NftKey,
  NftRule,
  NftSet,
  NftStatement,
  NftValue,
  NftVerdict,
} from './ruleset.ts'
import { FAMILY_NUMBER } from './wire.ts'

/** A set that only one rule uses; it comes and goes with the rule. */
export interface AnonymousSet {
  readonly id: number
  readonly keyTypes: readonly DataType[]
  readonly dataTypes: readonly DataType[] | 'verdict' | null
  readonly interval: boolean
  readonly elements: readonly Pick<NftElement, 'key' | 'data' | 'verdict'>[]
}

export interface CompiledRule {
  readonly expressions: readonly NftExpression[]
  readonly sets: readonly AnonymousSet[]
}

export interface RuleContext {
  readonly family: NftFamily
  /** The named sets of the table; null if there is none of that name. */
  setOf(name: string): NftSet | null
  /** A number that no other set of the batch has. */
  nextSetId(): number
}

/** Translates a rule to kernel instructions, in the shapes that `nft` itself writes. */
export function compileRule(context: RuleContext, rule: NftRule): CompiledRule {
  const output: Output = { context, expressions: [], sets: [] }
  for (const statement of withImplied(rule.statements)) compileStatement(output, statement)
  return { expressions: output.expressions, sets: output.sets }
}

interface Output {
  readonly context: RuleContext
  readonly expressions: NftExpression[]
  readonly sets: AnonymousSet[]
}

function compileStatement(output: Output, statement: NftStatement): void {
  const { expressions, context } = output
  if ('match' in statement) return compileMatch(output, statement.match)
  if ('matchMark' in statement) return compileMatchMark(output, statement.matchMark)
  if ('matchSet' in statement) {
    const { key, set, op } = statement.matchSet
    expressions.push(...loadKey(context.family, key), lookup(set, null, op === 'not in'))
  } else if ('vmap' in statement) {
    expressions.push(...loadKey(context.family, statement.vmap.key), lookup(statement.vmap.map, 'verdict'))
  } else if ('anonymousVmap' in statement) {
    const { key, entries } = statement.anonymousVmap
    const set = anonymousMap(output, key, 'verdict', entries.map(verdictEntry))
    expressions.push(...loadKey(context.family, key), lookupAnonymous(set, 'verdict', 'map'))
  } else if ('verdict' in statement) {
    expressions.push({ is: 'verdict', verdict: statement })
  } else if ('reject' in statement) {
    expressions.push(rejection(context.family, statement.reject))
  } else if ('setMark' in statement) {
    expressions.push(...markChange(statement.setMark))
  } else if ('dnat' in statement) {
    compileDnat(output, statement.dnat)
  } else if ('masquerade' in statement) {
    expressions.push({ is: 'masq', flags: statement.masquerade.fullyRandom ? NAT_FLAGS.RANDOM_FULLY : 0 })
  } else if ('updateSet' in statement) {
    const { set, key, op, timeoutSeconds } = statement.updateSet
    const parts = key.map((field) => ({ field }))
    const timeoutMs = timeoutSeconds === null ? null : timeoutSeconds * 1000
    expressions.push(...loadKey(context.family, parts))
    expressions.push({ is: 'dynset', from: 0, set, op: op === 'add' ? 0 : 1, timeoutMs })
  } else if ('counter' in statement) {
    expressions.push({ is: 'counter', ...statement.counter })
  } else throw new TypeError(`cannot write a statement that was not understood: ${statement.unknown}`)
}

const verdictEntry = ([key, verdict]: readonly [NftValue, NftVerdict]) => ({ key, data: null, verdict })

function lookup(set: string, to: number | 'verdict' | null, inverse = false): NftExpression {
  return { is: 'lookup', from: 0, to, set, setId: null, inverse }
}

function lookupAnonymous(
  set: AnonymousSet,
  to: number | 'verdict' | null,
  kind: 'set' | 'map',
  inverse = false,
): NftExpression {
  return { is: 'lookup', from: 0, to, set: `__${kind}%d`, setId: set.id, inverse }
}

function anonymousMap(
  output: Output,
  key: NftKey,
  dataTypes: AnonymousSet['dataTypes'],
  elements: AnonymousSet['elements'],
): AnonymousSet {
  const keyTypes = key.map((part) => typeOfPart(part, output.context.family))
  return addSet(output, keyTypes, dataTypes, elements)
}

function addSet(
  output: Output,
  keyTypes: readonly DataType[],
  dataTypes: AnonymousSet['dataTypes'],
  elements: AnonymousSet['elements'],
): AnonymousSet {
  const interval = elements.some(({ key }) => key.some((text, i) => rangeOf(keyTypes[i]!, text) !== null))
  const set = { id: output.context.nextSetId(), keyTypes, dataTypes, interval, elements }
  output.sets.push(set)
  return set
}

type Match = Extract<NftStatement, { readonly match: unknown }>['match']

function compileMatch(output: Output, { left, op, right }: Match): void {
  const { family } = output.context
  const type = typeOfField(left, family)
  const cmp = op === '==' ? CMP.EQ : CMP.NEQ
  if (type === 'ct_state' || type === 'ct_status') {
    output.expressions.push(...testBits(family, left, type, right, op))
    return
  }
  const [only] = right
  if (only === undefined) throw new TypeError(`nothing to compare ${left} with`)
  if (right.length > 1) {
    if (type === 'ifname' && right.some((text) => text.includes('*'))) {
      throw new TypeError(
        `nft cannot print a list of interface patterns; use one rule for each: ${right.join()}`,
      )
    }
    const set = addSet(
      output,
      [type],
      null,
      right.map((text) => ({ key: [text], data: null, verdict: null })),
    )
    output.expressions.push(loadField(family, left, 0), lookupAnonymous(set, null, 'set', op === '!='))
    return
  }
  output.expressions.push(...compare(family, left, type, only, cmp))
}

function compare(
  family: NftFamily,
  left: NftField,
  type: DataType,
  text: string,
  op: number,
): NftExpression[] {
  const load = loadField(family, left, 0)
  const prefix = type === 'ipv4_addr' || type === 'ipv6_addr' ? prefixOf(text) : null
  if (prefix !== null) return comparePrefix(load, prefix, op)
  const range = rangeOf(type, text)
  if (range !== null) return compareRange(load, bytesOf(type, range[0]), bytesOf(type, range[1]), op)
  if (type === 'ifname' && text.replaceAll('"', '').endsWith('*')) {
    const start = Buffer.from(text.replaceAll('"', '').slice(0, -1))
    if (start.length === 0 || start.length > 15) throw new TypeError(`not an interface pattern: ${text}`)
    return [load, { is: 'cmp', from: 0, op, data: start }]
  }
  return [load, { is: 'cmp', from: 0, op, data: bytesOf(type, text) }]
}

function comparePrefix(
  load: NftExpression,
  prefix: { readonly address: Buffer; readonly bits: number },
  op: number,
): NftExpression[] {
  const { address, bits } = prefix
  if (load.is === 'payload' && bits > 0 && bits % 8 === 0) {
    const length = bits / 8
    return [
      { ...load, length },
      { is: 'cmp', from: 0, op, data: address.subarray(0, length) },
    ]
  }
  const mask = Buffer.alloc(address.length)
  for (let i = 0; i < bits; i++) mask[i >> 3]! |= 0x80 >> (i & 7)
  const xor = Buffer.alloc(address.length)
  return [load, { is: 'bitwise', from: 0, to: 0, mask, xor }, { is: 'cmp', from: 0, op, data: address }]
}

function compareRange(load: NftExpression, first: Buffer, last: Buffer, op: number): NftExpression[] {
  if (op === CMP.NEQ) return [load, { is: 'range', from: 0, op: 1, first, last }]
  return [
    load,
    { is: 'cmp', from: 0, op: CMP.GTE, data: first },
    { is: 'cmp', from: 0, op: CMP.LTE, data: last },
  ]
}

function testBits(
  family: NftFamily,
  left: NftField,
  type: 'ct_state' | 'ct_status',
  names: readonly string[],
  op: '==' | '!=',
): NftExpression[] {
  const bits = names.reduce((sum, name) => (sum | numberOf(type, name)) >>> 0, 0)
  const cmp = op === '==' ? CMP.NEQ : CMP.EQ
  return [loadField(family, left, 0), ...maskAndCompare(bits, cmp, 0)]
}

function maskAndCompare(mask: number, op: number, value: number): NftExpression[] {
  return [
    { is: 'bitwise', from: 0, to: 0, mask: hostWord(mask), xor: hostWord(0) },
    { is: 'cmp', from: 0, op, data: hostWord(value) },
  ]
}

type MatchMark = Extract<NftStatement, { readonly matchMark: unknown }>['matchMark']

function compileMatchMark(output: Output, { mask, op, value }: MatchMark): void {
  const cmp = op === '==' ? CMP.EQ : CMP.NEQ
  output.expressions.push(
    { is: 'meta', to: 0, key: META.MARK },
    ...(mask >>> 0 === 0xffffffff
      ? [{ is: 'cmp', from: 0, op: cmp, data: hostWord(value) } as const]
      : maskAndCompare(mask, cmp, value)),
  )
}

function markChange({ and, xor }: { readonly and: number; readonly xor: number }): NftExpression[] {
  const set: NftExpression = { is: 'set meta', from: 0, key: META.MARK }
  if (and >>> 0 === 0) return [{ is: 'immediate', to: 0, data: hostWord(xor) }, set]
  const change: NftExpression = { is: 'bitwise', from: 0, to: 0, mask: hostWord(and), xor: hostWord(xor) }
  return [{ is: 'meta', to: 0, key: META.MARK }, change, set]
}

function rejection(family: NftFamily, how: 'port-unreachable' | 'tcp reset'): NftExpression {
  if (how === 'tcp reset') return { is: 'reject', type: REJECT.TCP_RST, code: 0 }
  if (family === 'inet') return { is: 'reject', type: REJECT.ICMPX, code: 1 }
  return { is: 'reject', type: REJECT.ICMP_UNREACH, code: family === 'ip6' ? 4 : 3 }
}

function compileDnat(output: Output, dnat: NftDnat): void {
  const { family, setOf } = output.context
  const address = typeOfField('daddr', family)
  const types = (parts: number): DataType[] => (parts > 1 ? [address, 'inet_service'] : [address])
  const nat = (parts: number): NftExpression => ({
    is: 'nat',
    type: DNAT,
    family: FAMILY_NUMBER[family],
    address: 0,
    port: parts > 1 ? padded(address) / 4 : null,
    flags: 0,
  })
  if ('to' in dnat) {
    output.expressions.push(
      ...dnat.to.map((text, i): NftExpression => {
        const type = types(dnat.to.length)[i]!
        return { is: 'immediate', to: i === 0 ? 0 : padded(address) / 4, data: bytesOf(type, text) }
      }),
    )
    output.expressions.push(nat(dnat.to.length))
    return
  }
  const load = loadKey(family, dnat.key)
  if ('map' in dnat) {
    const data = setOf(dnat.map)?.data ?? null
    const parts = Array.isArray(data) ? data.length : 1
    output.expressions.push(...load, lookup(dnat.map, 0), nat(parts))
    return
  }
  const parts = dnat.entries[0]?.[1].length ?? 1
  const entries = dnat.entries.map(([key, data]) => ({ key, data, verdict: null }))
  const set = anonymousMap(output, dnat.key, types(parts), entries)
  output.expressions.push(...load, lookupAnonymous(set, 0, 'map'), nat(parts))
}

function hostWord(value: number): Buffer {
  const data = Buffer.alloc(4)
  data.writeUInt32LE(value >>> 0)
  return data
}
