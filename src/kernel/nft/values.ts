import { cidrContains, parseCidr } from '../../net/cidr.ts'
import { ipToBytes, parseIp } from '../../net/ip.ts'
import { PROTOCOL_NUMBER } from '../../net/protocol.ts'
import type { NftField, NftType } from './ruleset.ts'

const PROTOCOL_NAMES: ReadonlyMap<string, string> = new Map([
  ['1', 'icmp'],
  ['58', 'ipv6-icmp'],
  ...Object.entries(PROTOCOL_NUMBER).map(([name, number]) => [String(number), name.toLowerCase()] as const),
])

/** The type of a field's value. */
export function typeOfField(field: NftField): NftType {
  switch (field) {
    case 'saddr':
    case 'daddr':
      return 'ipv4_addr'
    case 'sport':
    case 'dport':
      return 'inet_service'
    case 'l4proto':
      return 'inet_proto'
    case 'mark':
      return 'mark'
    case 'iifname':
    case 'oifname':
      return 'ifname'
    case 'ct state':
    case 'ct status':
    case 'fib saddr type':
    case 'fib daddr type':
      return 'integer'
  }
}

/** One spelling per single value, so that values compare as text: `0x4000` = `16384`, `6` = `tcp`, RFC 5952 addresses. */
export function canonicalValue(type: NftType, text: string): string {
  switch (type) {
    case 'ipv4_addr':
    case 'ipv6_addr':
      return parseIp(text) ?? text
    case 'inet_proto':
      return PROTOCOL_NAMES.get(text) ?? text.toLowerCase()
    case 'inet_service':
    case 'mark':
    case 'integer':
      return /^(0x[0-9a-f]+|\d+)$/i.test(text) ? String(Number(text)) : text
    case 'ifname':
      return text.replaceAll('"', '')
  }
}

/**
 * True if a canonical single value is what the pattern says: the same value, within a prefix or a `first-last` range, or
 * an interface name with the pattern's `*` prefix.
 */
export function valueMatches(type: NftType, pattern: string, value: string): boolean {
  if (type === 'ifname') {
    const name = canonicalValue(type, pattern)
    return name.endsWith('*') ? value.startsWith(name.slice(0, -1)) : name === value
  }
  const isAddress = type === 'ipv4_addr' || type === 'ipv6_addr'
  if (isAddress && pattern.includes('/')) {
    const cidr = parseCidr(pattern)
    const ip = parseIp(value)
    return cidr !== null && ip !== null && cidrContains(cidr, ip)
  }
  const dash = pattern.indexOf('-')
  if (dash > 0 && type !== 'inet_proto') {
    return withinRange(type, pattern.slice(0, dash), pattern.slice(dash + 1), value)
  }
  return canonicalValue(type, pattern) === value
}

function withinRange(type: NftType, first: string, last: string, value: string): boolean {
  if (type !== 'ipv4_addr' && type !== 'ipv6_addr') {
    return Number(first) <= Number(value) && Number(value) <= Number(last)
  }
  const [low, high, at] = [first, last, value].map((text) => parseIp(text))
  if (!low || !high || !at) return false
  return compareAddresses(low, at) <= 0 && compareAddresses(at, high) <= 0
}

/** By length (family), then by bytes. */
function compareAddresses(a: NonNullable<ReturnType<typeof parseIp>>, b: typeof a): number {
  const [left, right] = [ipToBytes(a), ipToBytes(b)]
  if (left.length !== right.length) return left.length - right.length
  for (const [i, byte] of left.entries()) if (byte !== right[i]) return byte - right[i]!
  return 0
}
