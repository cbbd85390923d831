import type { DataType } from './datatypes.ts'
import { padded, typeOfField } from './datatypes.ts'
import type { NftExpression } from './expressions.ts'
import { BASE, CT, FIB, META, NG_RANDOM } from './expressions.ts'
import type { NftFamily, NftField, NftKey, NftKeyPart, NftValue } from './ruleset.ts'

/** What a register holds while a rule is read. */
export type Content =
  /** A field or computed number; `bytes` < its whole length for the start of an address. */
  | { readonly holds: 'part'; readonly part: NftKeyPart; readonly type: DataType; readonly bytes: number }
  | { readonly holds: 'masked'; readonly field: NftField; readonly mask: Buffer; readonly xor: Buffer }
  | { readonly holds: 'data'; readonly data: Buffer }
  /** What a map gave for a key. */
  | {
      readonly holds: 'mapped'
      readonly key: NftKey
      readonly to: { readonly map: string } | { readonly entries: readonly (readonly [NftValue, NftValue])[] }
    }
  | { readonly holds: 'unknown'; readonly what: string }

/** What a loading instruction puts into its register; null if it does not load. */
export function contentOf(
  family: NftFamily,
  e: NftExpression,
  registers: ReadonlyMap<number, Content>,
): Content | null {
  const field = fieldLoadedBy(family, e)
  if (field !== null) {
    const type = typeOfField(field, family)
    return { holds: 'part', part: { field }, type, bytes: e.is === 'payload' ? e.length : padded(type) }
  }
  switch (e.is) {
    case 'payload':
      return { holds: 'unknown', what: `payload ${e.base} at ${e.offset} of ${e.length} bytes` }
    case 'meta':
      return { holds: 'unknown', what: `meta ${e.key}` }
    case 'ct':
      return { holds: 'unknown', what: `ct ${e.key}` }
    case 'fib':
      return { holds: 'unknown', what: `fib ${e.result} flags ${e.flags}` }
    case 'immediate':
      return { holds: 'data', data: e.data }
    case 'numgen':
      // Counting up instead of throwing dice: over many flows every value comes up as often.
      if (e.offset !== 0 || e.type > NG_RANDOM) return { holds: 'unknown', what: 'numgen' }
      return { holds: 'part', part: { random: { mod: e.mod } }, type: 'integer', bytes: 4 }
    case 'hash':
      return hashContent(e, registers)
    case 'bitwise':
      return maskedContent(e, registers.get(e.from))
    default:
      return null
  }
}

function fieldLoadedBy(family: NftFamily, e: NftExpression): NftField | null {
  switch (e.is) {
    case 'payload':
      return payloadField(family, e.base, e.offset, e.length)
    case 'meta':
      if (e.key === META.MARK) return 'mark'
      if (e.key === META.L4PROTO) return 'l4proto'
      if (e.key === META.IIFNAME) return 'iifname'
      return e.key === META.OIFNAME ? 'oifname' : null
    case 'ct':
      if (e.key === CT.STATE) return 'ct state'
      return e.key === CT.STATUS ? 'ct status' : null
    case 'fib':
      if (e.result !== FIB.ADDRTYPE) return null
      if (e.flags === FIB.SADDR) return 'fib saddr type'
      return e.flags === FIB.DADDR ? 'fib daddr type' : null
    default:
      return null
  }
}

function payloadField(family: NftFamily, base: number, offset: number, length: number): NftField | null {
  if (base === BASE.TRANSPORT) {
    if (length !== 2) return null
    return offset === 0 ? 'sport' : offset === 2 ? 'dport' : null
  }
  if (base !== BASE.NETWORK || family === 'inet') return null
  const [source, size] = family === 'ip6' ? [8, 16] : [12, 4]
  if (length < 1 || length > size) return null
  return offset === source ? 'saddr' : offset === source + size ? 'daddr' : null
}

function hashContent(
  e: Extract<NftExpression, { readonly is: 'hash' }>,
  registers: ReadonlyMap<number, Content>,
): Content {
  const key = keyAt(registers, e.from, e.length)
  const of = key?.map((part) => ('field' in part ? part.field : null)) ?? [null]
  if (of.some((field) => field === null)) return { holds: 'unknown', what: 'jhash' }
  const hash = { of: of.filter((field) => field !== null), mod: e.mod, seed: e.seed }
  return { holds: 'part', part: { hash }, type: 'integer', bytes: 4 }
}

function maskedContent(
  e: Extract<NftExpression, { readonly is: 'bitwise' }>,
  source: Content | undefined,
): Content {
  const field = source?.holds === 'part' && 'field' in source.part ? source.part.field : null
  if (field === null) return { holds: 'unknown', what: 'bitwise' }
  return { holds: 'masked', field, mask: e.mask, xor: e.xor }
}

/** The key of `bytes` length that starts at the register; null if a part of it is not modelled. */
export function keyAt(registers: ReadonlyMap<number, Content>, from: number, bytes: number): NftKey | null {
  const parts: NftKeyPart[] = []
  let word = from
  for (const end = from + bytes / 4; word < end;) {
    const content = registers.get(word)
    if (content?.holds !== 'part' || content.bytes < typeBytes(content)) return null
    parts.push(content.part)
    word += padded(content.type) / 4
  }
  return parts.length === 0 ? null : parts
}

const typeBytes = ({ type, bytes }: { readonly type: DataType; readonly bytes: number }): number =>
  type === 'ipv4_addr' ? 4 : type === 'ipv6_addr' ? 16 : bytes

/** A register's content in words, for what cannot be modelled. */
export function describe(content: Content | undefined): string {
  if (content === undefined) return 'an unknown register'
  switch (content.holds) {
    case 'part':
      return 'field' in content.part ? content.part.field : 'a computed number'
    case 'masked':
      return `${content.field} & 0x${content.mask.toString('hex')}`
    case 'data':
      return `0x${content.data.toString('hex')}`
    case 'mapped':
      return 'the data of a map'
    case 'unknown':
      return content.what
  }
}
