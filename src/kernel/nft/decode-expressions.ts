import { Attributes } from '../netlink/reader.ts'
import type { NftExpression } from './expressions.ts'
import type { NftVerdict } from './ruleset.ts'
import { DATA, EXPR, VERDICT, VERDICT_CODE } from './wire.ts'

/** The instructions in NFTA_RULE_EXPRESSIONS. What is not modelled, or not as expected, reads as `other`. */
export function decodeExpressions(members: readonly Buffer[]): NftExpression[] {
  return members.map((member) => {
    const attributes = new Attributes(member)
    const name = attributes.text(EXPR.NAME) ?? ''
    const data = attributes.nested(EXPR.DATA) ?? new Attributes(Buffer.alloc(0))
    return decodeExpression(name, data) ?? { is: 'other', name }
  })
}

function decodeExpression(name: string, a: Attributes): NftExpression | null {
  switch (name) {
    case 'payload':
      return decodePayload(a)
    case 'meta':
      return decodeMeta(a)
    case 'ct': {
      const [key, to] = [a.u32(2), wordOf(a.u32(1))]
      // With a direction or a source register it is something else.
      return key === null || to === null || a.raw(3) || a.raw(4) ? null : { is: 'ct', to, key }
    }
    case 'fib': {
      const [to, result, flags] = [wordOf(a.u32(1)), a.u32(2), a.u32(3)]
      return to === null || result === null || flags === null ? null : { is: 'fib', to, result, flags }
    }
    case 'cmp': {
      const [from, op, data] = [wordOf(a.u32(1)), a.u32(2), valueIn(a.nested(3))]
      return from === null || op === null || data === null ? null : { is: 'cmp', from, op, data }
    }
    case 'range':
      return decodeRange(a)
    case 'bitwise':
      return decodeBitwise(a)
    case 'immediate':
      return decodeImmediate(a)
    case 'counter':
      return { is: 'counter', bytes: a.u64(1) ?? 0, packets: a.u64(2) ?? 0 }
    default:
      return decodeMore(name, a)
  }
}

function decodeMore(name: string, a: Attributes): NftExpression | null {
  switch (name) {
    case 'numgen': {
      const [to, mod, type] = [wordOf(a.u32(1)), a.u32(2), a.u32(3)]
      if (to === null || mod === null || type === null) return null
      return { is: 'numgen', to, mod, type, offset: a.u32(4) ?? 0 }
    }
    case 'hash':
      return decodeHash(a)
    case 'lookup':
      return decodeLookup(a)
    case 'dynset':
      return decodeDynset(a)
    case 'nat':
      return decodeNat(a)
    case 'masq':
      return a.raw(2) ? null : { is: 'masq', flags: a.u32(1) ?? 0 }
    case 'reject':
      return { is: 'reject', type: a.u32(1) ?? -1, code: a.u8(2) ?? 0 }
    default:
      return null
  }
}

/** The 4-byte word where the kernel's register starts; null for the verdict register or none. */
function wordOf(register: number | null): number | null {
  if (register === null || register === 0) return null
  if (register <= 4) return (register - 1) * 4
  return register >= 8 && register < 24 ? register - 8 : null
}

function valueIn(data: Attributes | null): Buffer | null {
  return data?.raw(DATA.VALUE) ?? null
}

/** Null for verdicts that are not modelled (queue, break). */
export function verdictIn(data: Attributes | null): NftVerdict | null {
  const verdict = data?.nested(DATA.VERDICT)
  const code = verdict?.u32(VERDICT.CODE)
  if (!verdict || code === null || code === undefined) return null
  const signed = code | 0
  const name = (Object.keys(VERDICT_CODE) as (keyof typeof VERDICT_CODE)[]).find(
    (key) => VERDICT_CODE[key] === signed,
  )
  if (name === undefined) return null
  if (name !== 'jump' && name !== 'goto') return { verdict: name }
  const chain = verdict.text(VERDICT.CHAIN)
  return chain === null ? null : { verdict: name, chain }
}

function decodePayload(a: Attributes): NftExpression | null {
  const [to, base, offset, length] = [wordOf(a.u32(1)), a.u32(2), a.u32(3), a.u32(4)]
  if (to === null || base === null || offset === null || length === null) return null
  return { is: 'payload', to, base, offset, length }
}

function decodeMeta(a: Attributes): NftExpression | null {
  const [key, to, from] = [a.u32(2), wordOf(a.u32(1)), wordOf(a.u32(3))]
  if (key === null) return null
  if (to !== null) return { is: 'meta', to, key }
  return from === null ? null : { is: 'set meta', from, key }
}

function decodeRange(a: Attributes): NftExpression | null {
  const [from, op] = [wordOf(a.u32(1)), a.u32(2)]
  const [first, last] = [valueIn(a.nested(3)), valueIn(a.nested(4))]
  if (from === null || op === null || first === null || last === null) return null
  return { is: 'range', from, op, first, last }
}

function decodeBitwise(a: Attributes): NftExpression | null {
  const [from, to] = [wordOf(a.u32(1)), wordOf(a.u32(2))]
  const [mask, xor] = [valueIn(a.nested(4)), valueIn(a.nested(5))]
  const op = a.u32(6) ?? 0
  if (op !== 0 || from === null || to === null || mask === null || xor?.length !== mask.length) return null
  return { is: 'bitwise', from, to, mask, xor }
}

function decodeImmediate(a: Attributes): NftExpression | null {
  const register = a.u32(1)
  const data = a.nested(2)
  if (register === 0) {
    const verdict = verdictIn(data)
    return verdict === null ? null : { is: 'verdict', verdict }
  }
  const [to, value] = [wordOf(register), valueIn(data)]
  return to === null || value === null ? null : { is: 'immediate', to, data: value }
}

function decodeHash(a: Attributes): NftExpression | null {
  const [from, to, length, mod] = [wordOf(a.u32(1)), wordOf(a.u32(2)), a.u32(3), a.u32(4)]
  const plain = (a.u32(6) ?? 0) === 0 && (a.u32(7) ?? 0) === 0
  if (!plain || from === null || to === null || length === null || mod === null) return null
  const seed = a.u32(5)
  // The kernel tells no seed and a seed of nothing alike.
  return { is: 'hash', from, to, length, mod, seed: seed === 0 ? null : seed }
}

function decodeLookup(a: Attributes): NftExpression | null {
  const [from, set, register, flags] = [wordOf(a.u32(2)), a.text(1), a.u32(3), a.u32(5) ?? 0]
  if (from === null || set === null) return null
  const to = register === null ? null : register === 0 ? 'verdict' : wordOf(register)
  return { is: 'lookup', from, to, set, setId: null, inverse: (flags & 1) !== 0 }
}

function decodeDynset(a: Attributes): NftExpression | null {
  const [from, set, op] = [wordOf(a.u32(4)), a.text(1), a.u32(3)]
  // With data, or expressions for each element, it is more than is modelled.
  if (from === null || set === null || op === null || a.raw(5) || a.raw(7) || a.raw(10)) return null
  const timeout = a.u64(6)
  return { is: 'dynset', from, set, op, timeoutMs: timeout === 0 ? null : timeout }
}

function decodeNat(a: Attributes): NftExpression | null {
  const [type, family, address] = [a.u32(1), a.u32(2), wordOf(a.u32(3))]
  if (type === null || family === null || address === null) return null
  const [last, port, lastPort] = [wordOf(a.u32(4)), wordOf(a.u32(5)), wordOf(a.u32(6))]
  if ((last !== null && last !== address) || (lastPort !== null && lastPort !== port)) return null
  return { is: 'nat', type, family, address, port, flags: a.u32(7) ?? 0 }
}
