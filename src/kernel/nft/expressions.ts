import type { NetlinkWriter } from '../netlink/writer.ts'
import type { NftVerdict } from './ruleset.ts'
import { DATA, EXPR, LIST_ELEM, VERDICT, VERDICT_CODE } from './wire.ts'

/**
 * One instruction of the kernel's rule machine. `to`/`from` are registers: 16 words of 4 bytes, numbered 0–15 here;
 * longer values take the words that follow.
 */
export type NftExpression =
  | {
      readonly is: 'payload'
      readonly to: number
      readonly base: number
      readonly offset: number
      readonly length: number
    }
  | { readonly is: 'meta'; readonly to: number; readonly key: number }
  | { readonly is: 'set meta'; readonly from: number; readonly key: number }
  | { readonly is: 'ct'; readonly to: number; readonly key: number }
  | { readonly is: 'fib'; readonly to: number; readonly result: number; readonly flags: number }
  | {
      readonly is: 'numgen'
      readonly to: number
      readonly mod: number
      readonly type: number
      readonly offset: number
    }
  | {
      readonly is: 'hash'
      readonly from: number
      readonly to: number
      readonly length: number
      readonly mod: number
      readonly seed: number | null
    }
  | { readonly is: 'cmp'; readonly from: number; readonly op: number; readonly data: Buffer }
  | {
      readonly is: 'range'
      readonly from: number
      readonly op: number
      readonly first: Buffer
      readonly last: Buffer
    }
  | {
      readonly is: 'bitwise'
      readonly from: number
      readonly to: number
      readonly mask: Buffer
      readonly xor: Buffer
    }
  | { readonly is: 'immediate'; readonly to: number; readonly data: Buffer }
  | { readonly is: 'verdict'; readonly verdict: NftVerdict }
  | {
      readonly is: 'lookup'
      readonly from: number
      /** Where the data goes; null = just a test; `verdict` = into the verdict. */
      readonly to: number | 'verdict' | null
      readonly set: string
      /** Refers to a set made in the same batch; null = by name only. */
      readonly setId: number | null
      readonly inverse: boolean
    }
  | {
      readonly is: 'dynset'
      readonly from: number
      readonly set: string
      readonly op: number
      readonly timeoutMs: number | null
    }
  | {
      readonly is: 'nat'
      readonly type: number
      readonly family: number
      readonly address: number
      readonly port: number | null
      readonly flags: number
    }
  | { readonly is: 'masq'; readonly flags: number }
  | { readonly is: 'reject'; readonly type: number; readonly code: number }
  | { readonly is: 'counter'; readonly packets: number; readonly bytes: number }
  | { readonly is: 'other'; readonly name: string }

export const META = { MARK: 3, IIFNAME: 6, OIFNAME: 7, L4PROTO: 16 } as const
export const CT = { STATE: 0, STATUS: 2 } as const
export const BASE = { NETWORK: 1, TRANSPORT: 2 } as const
export const FIB = { ADDRTYPE: 3, SADDR: 1, DADDR: 2 } as const
export const CMP = { EQ: 0, NEQ: 1, LTE: 3, GTE: 5 } as const
export const NG_RANDOM = 1
export const DNAT = 1
export const NAT_FLAGS = { MAP_IPS: 1, PROTO_SPECIFIED: 2, RANDOM_FULLY: 0x10 } as const
export const REJECT = { ICMP_UNREACH: 0, TCP_RST: 1, ICMPX: 2 } as const
const LOOKUP_F_INV = 1

/** The kernel's register number of a word: the old names for the 16-byte registers where one starts there. */
export function registerOf(word: number): number {
  if (word < 0 || word > 15) throw new RangeError(`no register for word ${word}: the key is too long`)
  return word % 4 === 0 ? 1 + word / 4 : 8 + word
}

export type Writer = NetlinkWriter

/** Writes the expressions as list members (into NFTA_RULE_EXPRESSIONS). */
export function writeExpressions(writer: Writer, expressions: readonly NftExpression[]): void {
  for (const expression of expressions) {
    const member = writer.open(LIST_ELEM)
    writer.text(EXPR.NAME, kernelName(expression))
    const data = writer.open(EXPR.DATA)
    writeExpression(writer, expression)
    writer.close(data)
    writer.close(member)
  }
}

function kernelName(expression: NftExpression): string {
  switch (expression.is) {
    case 'set meta':
      return 'meta'
    case 'verdict':
      return 'immediate'
    case 'other':
      throw new TypeError(`cannot write the unknown expression ${expression.name}`)
    default:
      return expression.is
  }
}

function writeExpression(w: Writer, e: NftExpression): void {
  switch (e.is) {
    case 'payload':
      w.u32(1, registerOf(e.to))
      w.u32(2, e.base)
      w.u32(3, e.offset)
      return w.u32(4, e.length)
    case 'meta':
      w.u32(2, e.key)
      return w.u32(1, registerOf(e.to))
    case 'set meta':
      w.u32(2, e.key)
      return w.u32(3, registerOf(e.from))
    case 'ct':
      w.u32(2, e.key)
      return w.u32(1, registerOf(e.to))
    case 'fib':
      w.u32(3, e.flags)
      w.u32(2, e.result)
      return w.u32(1, registerOf(e.to))
    case 'cmp':
      w.u32(1, registerOf(e.from))
      w.u32(2, e.op)
      return writeData(w, 3, e.data)
    case 'range':
      w.u32(1, registerOf(e.from))
      w.u32(2, e.op)
      writeData(w, 3, e.first)
      return writeData(w, 4, e.last)
    case 'bitwise':
      w.u32(1, registerOf(e.from))
      w.u32(2, registerOf(e.to))
      w.u32(3, e.mask.length)
      w.u32(6, 0)
      writeData(w, 4, e.mask)
      return writeData(w, 5, e.xor)
    case 'immediate':
      w.u32(1, registerOf(e.to))
      return writeData(w, 2, e.data)
    case 'verdict':
      w.u32(1, 0)
      return writeVerdict(w, 2, e.verdict)
    default:
      return writeMore(w, e)
  }
}

function writeMore(w: Writer, e: NftExpression): void {
  switch (e.is) {
    case 'numgen':
      w.u32(1, registerOf(e.to))
      w.u32(2, e.mod)
      w.u32(3, e.type)
      return w.u32(4, e.offset)
    case 'hash':
      w.u32(1, registerOf(e.from))
      w.u32(2, registerOf(e.to))
      w.u32(3, e.length)
      w.u32(4, e.mod)
      if (e.seed !== null) w.u32(5, e.seed)
      w.u32(6, 0)
      return w.u32(7, 0)
    case 'lookup':
      w.u32(2, registerOf(e.from))
      if (e.to !== null) w.u32(3, e.to === 'verdict' ? 0 : registerOf(e.to))
      w.text(1, e.set)
      if (e.setId !== null) w.u32(4, e.setId)
      return e.inverse ? w.u32(5, LOOKUP_F_INV) : undefined
    case 'dynset':
      w.u32(4, registerOf(e.from))
      w.u32(3, e.op)
      if (e.timeoutMs !== null) w.u64(6, e.timeoutMs)
      return w.text(1, e.set)
    case 'nat':
      w.u32(1, e.type)
      w.u32(2, e.family)
      w.u32(3, registerOf(e.address))
      if (e.port !== null) w.u32(5, registerOf(e.port))
      return e.flags === 0 ? undefined : w.u32(7, e.flags)
    case 'masq':
      return e.flags === 0 ? undefined : w.u32(1, e.flags)
    case 'reject':
      w.u32(1, e.type)
      return w.u8(2, e.code)
    case 'counter':
      w.u64(1, e.bytes)
      return w.u64(2, e.packets)
    default:
      throw new TypeError(`cannot write ${e.is}`)
  }
}

/** A value as NFTA_DATA_VALUE within the attribute. */
export function writeData(writer: Writer, type: number, data: Uint8Array): void {
  const nest = writer.open(type)
  writer.data(DATA.VALUE, data)
  writer.close(nest)
}

/** A verdict as NFTA_DATA_VERDICT within the attribute. */
export function writeVerdict(writer: Writer, type: number, verdict: NftVerdict): void {
  const nest = writer.open(type)
  const inner = writer.open(DATA.VERDICT)
  writer.u32(VERDICT.CODE, VERDICT_CODE[verdict.verdict])
  if ('chain' in verdict) writer.text(VERDICT.CHAIN, verdict.chain)
  writer.close(inner)
  writer.close(nest)
}
