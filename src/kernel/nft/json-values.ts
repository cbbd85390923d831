import type { NftField, NftKeyPart, NftValue, NftVerdict } from './ruleset.ts'

/** Any JSON value of `nft -j`. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }

/** A JSON shape that the rule model has no words for: the statement becomes `unknown`, with this text. */
export class UnknownShape extends Error {}

export function isObject(value: Json | undefined): value is { readonly [key: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The value of the one key of an object like `{"prefix": …}`; undefined if the key is not there. */
export function member(value: Json | undefined, key: string): Json | undefined {
  return isObject(value) ? value[key] : undefined
}

export function textOf(value: Json | undefined): string {
  if (typeof value === 'string') return value
  if (typeof value === 'number') return String(value)
  throw new UnknownShape(JSON.stringify(value))
}

export function numberOf(value: Json | undefined): number {
  if (typeof value === 'number') return value
  if (typeof value === 'string' && /^(0x[0-9a-f]+|\d+)$/i.test(value)) return Number(value)
  throw new UnknownShape(JSON.stringify(value))
}

export function listOf(value: Json | undefined): readonly Json[] {
  if (value === undefined || value === null) return []
  return Array.isArray(value) ? (value as readonly Json[]) : [value as Json]
}

/** One part of a key or datum: an address, `{"prefix": …}`, `{"range": [first, last]}`. */
export function partOf(value: Json): string {
  const prefix = member(value, 'prefix')
  if (prefix !== undefined) return `${textOf(member(prefix, 'addr'))}/${numberOf(member(prefix, 'len'))}`
  const range = member(value, 'range')
  if (range !== undefined) return listOf(range).map(textOf).join('-')
  return textOf(value)
}

/** A key or datum: one part, or a concatenation. */
export function valueOf(value: Json): NftValue {
  const concat = member(value, 'concat')
  return concat === undefined ? [partOf(value)] : listOf(concat).map(partOf)
}

/** nft knows these names from /etc/protocols and writes the numbers on a machine without that file. */
const PROTOCOLS: ReadonlyMap<string, string> = new Map([
  ['6', 'tcp'],
  ['17', 'udp'],
  ['132', 'sctp'],
])

export function protocolName(text: string): string {
  return PROTOCOLS.get(text) ?? text
}

const PAYLOAD_FIELDS: Readonly<Record<string, NftField>> = {
  'ip saddr': 'saddr',
  'ip daddr': 'daddr',
  'ip protocol': 'l4proto',
  'ip6 saddr': 'saddr',
  'ip6 daddr': 'daddr',
  'ip6 nexthdr': 'l4proto',
}

/** The field of an expression, with what it takes for granted: `tcp dport` is about TCP only, `ip daddr` about IPv4. */
export interface FieldRead {
  readonly field: NftField
  readonly implied: readonly { readonly left: NftField; readonly right: string }[]
}

/** Reads `{"payload": …}`, `{"meta": …}`, `{"ct": …}` and `{"fib": …}`; throws {@link UnknownShape}. */
export function fieldOf(expression: Json): FieldRead {
  const payload = member(expression, 'payload')
  if (payload !== undefined)
    return payloadField(textOf(member(payload, 'protocol')), textOf(member(payload, 'field')))
  const meta = member(member(expression, 'meta'), 'key')
  if (meta === 'l4proto' || meta === 'mark' || meta === 'iifname' || meta === 'oifname') {
    return { field: meta, implied: [] }
  }
  const ct = member(expression, 'ct')
  const ctKey = member(ct, 'key')
  if ((ctKey === 'state' || ctKey === 'status') && member(ct, 'dir') === undefined) {
    return { field: `ct ${ctKey}`, implied: [] }
  }
  const fib = member(expression, 'fib')
  const flags = listOf(member(fib, 'flags'))
  if (
    member(fib, 'result') === 'type' &&
    flags.length === 1 &&
    (flags[0] === 'saddr' || flags[0] === 'daddr')
  ) {
    return { field: `fib ${flags[0]} type`, implied: [] }
  }
  throw new UnknownShape(JSON.stringify(expression))
}

function payloadField(protocol: string, name: string): FieldRead {
  if (name === 'sport' || name === 'dport') {
    const implied = protocol === 'th' ? [] : [{ left: 'l4proto' as const, right: protocol }]
    return { field: name, implied }
  }
  const field = PAYLOAD_FIELDS[`${protocol} ${name}`]
  if (field === undefined) throw new UnknownShape(`${protocol} ${name}`)
  return { field, implied: [{ left: 'saddr', right: protocol === 'ip' ? '0.0.0.0/0' : '::/0' }] }
}

/** A lookup key: a field, a concatenation, `numgen`, `jhash`. */
export function keyOf(expression: Json): readonly NftKeyPart[] {
  const concat = member(expression, 'concat')
  if (concat !== undefined) return listOf(concat).map(keyPartOf)
  return [keyPartOf(expression)]
}

function keyPartOf(expression: Json): NftKeyPart {
  const numgen = member(expression, 'numgen')
  if (numgen !== undefined) {
    const offset = member(numgen, 'offset')
    // `inc` counts instead of throwing dice: over many flows every value comes up as often.
    if (offset !== undefined && offset !== 0) throw new UnknownShape(JSON.stringify(expression))
    return { random: { mod: numberOf(member(numgen, 'mod')) } }
  }
  const jhash = member(expression, 'jhash')
  if (jhash === undefined) return { field: fieldOf(expression).field }
  const offset = member(jhash, 'offset')
  if (offset !== undefined && offset !== 0) throw new UnknownShape(JSON.stringify(expression))
  const of = keyOf(member(jhash, 'expr') ?? null).map((part) => {
    if ('field' in part) return part.field
    throw new UnknownShape(JSON.stringify(expression))
  })
  const seed = member(jhash, 'seed')
  return {
    hash: { of, mod: numberOf(member(jhash, 'mod')), seed: seed === undefined ? null : numberOf(seed) },
  }
}

/** `{"goto": {"target": …}}`, `{"drop": null}` and their like; null if it is no verdict. */
export function verdictOf(value: Json): NftVerdict | null {
  if (!isObject(value)) return null
  for (const verdict of ['accept', 'drop', 'continue', 'return'] as const) {
    if (verdict in value) return { verdict }
  }
  for (const verdict of ['jump', 'goto'] as const) {
    if (verdict in value) return { verdict, chain: textOf(member(value[verdict], 'target')) }
  }
  return null
}
