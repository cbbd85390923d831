import type { Cidr } from '../../net/cidr.ts'
import { cidrRange } from '../../net/cidr.ts'
import type { IpFamily } from '../../net/family.ts'
import type { Ip } from '../../net/ip.ts'
import { ipFromBytes, ipToBytes } from '../../net/ip.ts'

/**
 * Source ranges as elements of an interval set: disjoint, merged where they overlap or touch, since the kernel refuses
 * ranges that overlap. Each as nft prints it: address, prefix, or `first-last`.
 */
export function allowedSources(ranges: readonly Cidr[], family: IpFamily): string[] {
  const spans = ranges.map((range) => {
    const { first, last } = cidrRange(range)
    return { first: toNumber(first), last: toNumber(last) }
  })
  return merge(spans).map((span) => printSpan(span, family === 'IPv4' ? 32 : 128))
}

interface Span {
  readonly first: bigint
  readonly last: bigint
}

function merge(spans: readonly Span[]): Span[] {
  const merged: Span[] = []
  for (const span of spans.toSorted((a, b) => (a.first < b.first ? -1 : a.first > b.first ? 1 : 0))) {
    const open = merged.at(-1)
    if (open === undefined || span.first > open.last + 1n) merged.push(span)
    else if (span.last > open.last) merged[merged.length - 1] = { first: open.first, last: span.last }
  }
  return merged
}

function printSpan({ first, last }: Span, bits: number): string {
  const size = last - first + 1n
  const start = toIp(first, bits)
  if (size === 1n) return start
  const isPrefix = (size & (size - 1n)) === 0n && first % size === 0n
  return isPrefix ? `${start}/${bits - size.toString(2).length + 1}` : `${start}-${toIp(last, bits)}`
}

function toNumber(ip: Ip): bigint {
  return ipToBytes(ip).reduce((value, byte) => (value << 8n) | BigInt(byte), 0n)
}

function toIp(value: bigint, bits: number): Ip {
  const bytes = new Uint8Array(bits / 8)
  for (let i = bytes.length - 1, rest = value; i >= 0; i--, rest >>= 8n) bytes[i] = Number(rest & 0xffn)
  return ipFromBytes(bytes)
}
