import { bitNames, rangeText, textOf } from './datatypes.ts'
import type { NftExpression } from './expressions.ts'
import { CMP } from './expressions.ts'
import type { Content } from './registers.ts'
import { describe } from './registers.ts'
import type { NftField, NftStatement } from './ruleset.ts'

type Compare = Extract<NftExpression, { readonly is: 'cmp' }>

/** The statement that a comparison of a register makes. */
export function matchOf(content: Content | undefined, { op, data }: Compare): NftStatement {
  const equality = op === CMP.EQ ? '==' : op === CMP.NEQ ? '!=' : null
  const match =
    equality === null || content === undefined
      ? null
      : content.holds === 'part'
        ? matchPart(content, equality, data)
        : content.holds === 'masked'
          ? matchMasked(content, equality, data)
          : null
  return match ?? { unknown: `match ${describe(content)} ${COMPARISONS[op] ?? op} 0x${data.toString('hex')}` }
}

const COMPARISONS = ['==', '!=', '<', '<=', '>', '>='] as const

/** A field between two values (`cmp gte` and `cmp lte`, or `range`). */
export function rangeMatch(
  content: Content | undefined,
  op: '==' | '!=',
  first: Buffer,
  last: Buffer,
): NftStatement {
  if (content?.holds !== 'part' || !('field' in content.part)) {
    return { unknown: `match ${describe(content)} range` }
  }
  return { match: { left: content.part.field, op, right: [rangeText(content.type, first, last)] } }
}

function matchPart(
  { part, type, bytes }: Extract<Content, { readonly holds: 'part' }>,
  op: '==' | '!=',
  data: Buffer,
): NftStatement | null {
  if (!('field' in part)) return null
  const left = part.field
  if (type === 'ct_state' || type === 'ct_status') {
    const bits = data.length === 4 ? data.readUInt32LE(0) : 0
    // A packet has exactly one state, so that equal and in mean the same for one bit of it; not so the status.
    const single = bits !== 0 && (bits & (bits - 1)) === 0
    return single && type === 'ct_state' ? { match: { left, op, right: bitNames(type, bits) } } : null
  }
  if (type === 'ifname' && data.length < 16) {
    return { match: { left, op, right: [`${data.toString('utf8')}*`] } }
  }
  const size = type === 'ipv4_addr' ? 4 : type === 'ipv6_addr' ? 16 : data.length
  if (bytes < size || data.length < size) {
    if (data.length !== bytes) return null
    const address = Buffer.concat([data, Buffer.alloc(size - data.length)])
    return { match: { left, op, right: [`${textOf(type, address)}/${data.length * 8}`] } }
  }
  return { match: { left, op, right: [textOf(type, data)] } }
}

function matchMasked(
  { field, mask, xor }: Extract<Content, { readonly holds: 'masked' }>,
  op: '==' | '!=',
  data: Buffer,
): NftStatement | null {
  if (xor.some((byte) => byte !== 0) || data.length !== mask.length) return null
  if (field === 'mark' && mask.length === 4) {
    return { matchMark: { mask: mask.readUInt32LE(0), op, value: data.readUInt32LE(0) } }
  }
  if (field === 'ct state' || field === 'ct status') return matchBits(field, op, mask, data)
  if (field === 'saddr' || field === 'daddr') {
    const bits = leadingOnes(mask)
    if (bits === null || (mask.length !== 4 && mask.length !== 16)) return null
    const type = mask.length === 4 ? 'ipv4_addr' : 'ipv6_addr'
    return { match: { left: field, op, right: [`${textOf(type, data)}/${bits}`] } }
  }
  return null
}

/** `state & bits != 0`: one of them is set; `& bits == 0`: none is. For one bit, `& bit == bit` says it too. */
function matchBits(
  field: NftField & ('ct state' | 'ct status'),
  op: '==' | '!=',
  mask: Buffer,
  data: Buffer,
): NftStatement | null {
  if (mask.length !== 4) return null
  const [bits, value] = [mask.readUInt32LE(0), data.readUInt32LE(0)]
  const right = bitNames(field === 'ct state' ? 'ct_state' : 'ct_status', bits)
  if (value === 0) return { match: { left: field, op: op === '!=' ? '==' : '!=', right } }
  return value === bits && right.length === 1 ? { match: { left: field, op, right } } : null
}

function leadingOnes(mask: Buffer): number | null {
  let bits = 0
  while (bits < mask.length * 8 && ((mask[bits >> 3]! >> (7 - (bits & 7))) & 1) === 1) bits++
  for (let i = bits; i < mask.length * 8; i++) {
    if (((mask[i >> 3]! >> (7 - (i & 7))) & 1) === 1) return null
  }
  return bits
}
