import { parseCidr, cidrRange, splitCidr } from '../../net/cidr.ts'
import type { Ip } from '../../net/ip.ts'
import { ipFromBytes, ipToBytes, parseIp } from '../../net/ip.ts'
import type { NftField, NftFamily, NftType } from './ruleset.ts'
import { canonicalValue } from './values.ts'

/** Types of values in rules: those of sets, and those that only rules have. */
export type DataType = NftType | 'ct_state' | 'ct_status' | 'fib_addrtype'

interface TypeFacts {
  /** nft's own number of the type (it prints sets by it); part of the protocol between nft versions. */
  readonly id: number
  readonly bytes: number
  /** Numbers whose bytes are in the order of the machine, not of the network. */
  readonly host: boolean
}

export const TYPES: Readonly<Record<DataType, TypeFacts>> = {
  integer: { id: 4, bytes: 4, host: true },
  ipv4_addr: { id: 7, bytes: 4, host: false },
  ipv6_addr: { id: 8, bytes: 16, host: false },
  inet_proto: { id: 12, bytes: 1, host: false },
  inet_service: { id: 13, bytes: 2, host: false },
  mark: { id: 19, bytes: 4, host: true },
  ct_state: { id: 26, bytes: 4, host: true },
  ct_status: { id: 28, bytes: 4, host: true },
  fib_addrtype: { id: 38, bytes: 4, host: true },
  ifname: { id: 41, bytes: 16, host: true },
}

const TYPE_BITS = 6

/** nft's number of a concatenation: six bits per part. */
export function concatenatedTypeId(types: readonly DataType[]): number {
  return types.reduce((id, type) => id * 2 ** TYPE_BITS + TYPES[type].id, 0)
}

/** The types in nft's number, or null if one is not modelled. */
export function typesInId(id: number): readonly DataType[] | null {
  const types: DataType[] = []
  for (let rest = id; rest > 0; rest = Math.floor(rest / 2 ** TYPE_BITS)) {
    const part = rest % 2 ** TYPE_BITS
    const type = (Object.keys(TYPES) as DataType[]).find((name) => TYPES[name].id === part)
    if (type === undefined) return null
    types.unshift(type)
  }
  return types.length === 0 ? null : types
}

/** Bytes of a part in a key: registers have four bytes each. */
export const padded = (type: DataType): number => PADDED[type]

/** Bytes of a key or datum: a single part as it is, parts of a concatenation padded. */
export function lengthOf(types: readonly DataType[]): number {
  const [only] = types
  if (types.length === 1 && only !== undefined) return TYPES[only].bytes
  return types.reduce((sum, type) => sum + padded(type), 0)
}

export function typeOfField(field: NftField, family: NftFamily): DataType {
  switch (field) {
    case 'saddr':
    case 'daddr':
      if (family === 'inet')
        throw new TypeError(`${field} has no size in an inet table; use an ip or ip6 table`)
      return family === 'ip6' ? 'ipv6_addr' : 'ipv4_addr'
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
      return 'ct_state'
    case 'ct status':
      return 'ct_status'
    case 'fib saddr type':
    case 'fib daddr type':
      return 'fib_addrtype'
  }
}

const PROTOCOL_NUMBERS: Readonly<Record<string, number>> = {
  icmp: 1,
  tcp: 6,
  udp: 17,
  'ipv6-icmp': 58,
  icmpv6: 58,
  sctp: 132,
}

const WORDS: Readonly<Partial<Record<DataType, Readonly<Record<string, number>>>>> = {
  inet_proto: PROTOCOL_NUMBERS,
  ct_state: { invalid: 1, established: 2, related: 4, new: 8, untracked: 64 },
  ct_status: {
    expected: 1,
    'seen-reply': 2,
    assured: 4,
    confirmed: 8,
    snat: 16,
    dnat: 32,
    dying: 512,
  },
  fib_addrtype: {
    unspec: 0,
    unicast: 1,
    local: 2,
    broadcast: 3,
    anycast: 4,
    multicast: 5,
    blackhole: 6,
    unreachable: 7,
    prohibit: 8,
  },
}

const mapTypes = <T>(of: (facts: TypeFacts) => T): Readonly<Record<DataType, T>> =>
  Object.fromEntries(Object.entries(TYPES).map(([type, facts]) => [type, of(facts)])) as Record<DataType, T>

/** The first number that a type cannot hold. */
const LIMITS = mapTypes(({ bytes }) => 2 ** (8 * bytes))
const PADDED = mapTypes(({ bytes }) => (bytes + 3) & ~3)

/** -1 if the text is not up to ten digits. No regular expression: whole tables are encoded at once. */
function decimalOf(text: string): number {
  if (text.length === 0 || text.length > 10) return -1
  let value = 0
  for (let i = 0; i < text.length; i++) {
    const digit = text.charCodeAt(i) - 48
    if (digit < 0 || digit > 9) return -1
    value = value * 10 + digit
  }
  return value
}

/** The number that a word or number of the type stands for. */
export function numberOf(type: DataType, text: string): number {
  const decimal = decimalOf(text)
  if (decimal >= 0 && decimal < LIMITS[type]) return decimal
  const word = WORDS[type]?.[text]
  if (word !== undefined) return word
  const value = /^(0x[0-9a-f]+|\d+)$/i.test(text) ? Number(text) : Number.NaN
  if (!(value < LIMITS[type])) throw new TypeError(`not a value of type ${type}: ${text}`)
  return value
}

/** Writes a single value (no range) and returns where it ends, without padding. */
export function writeValue(type: DataType, text: string, buffer: Buffer, at: number): number {
  switch (type) {
    case 'ipv4_addr':
      return writeIpv4(text, buffer, at)
    case 'ipv6_addr':
      return writeIpv6(text, buffer, at)
    case 'inet_proto':
      return buffer.writeUInt8(numberOf(type, text), at)
    case 'inet_service':
      return buffer.writeUInt16BE(numberOf(type, text), at)
    case 'ifname':
      return writeName(text, buffer, at)
    default:
      return buffer.writeUInt32LE(numberOf(type, text), at)
  }
}

function writeIpv4(text: string, buffer: Buffer, at: number): number {
  let octet = 0
  let digits = 0
  let end = at
  // Whole tables are encoded at once: ten times faster than splitting the text.
  for (let i = 0; i <= text.length; i++) {
    const code = i < text.length ? text.charCodeAt(i) : 46
    if (code === 46) {
      if (digits === 0 || digits > 3 || octet > 255 || end === at + 4) break
      buffer[end++] = octet
      octet = digits = 0
    } else if (code >= 48 && code <= 57) {
      octet = octet * 10 + code - 48
      digits++
    } else {
      end = -1
      break
    }
  }
  if (end !== at + 4 || digits !== 0) throw new TypeError(`not an IPv4 address: ${text}`)
  return end
}

function writeIpv6(text: string, buffer: Buffer, at: number): number {
  const ip = text.includes(':') ? text : null
  if (ip === null) throw new TypeError(`not an IPv6 address: ${text}`)
  const bytes = ipToBytes(ip as Ip)
  buffer.set(bytes, at)
  return at + 16
}

function writeName(text: string, buffer: Buffer, at: number): number {
  const name = canonicalValue('ifname', text)
  const length = Buffer.byteLength(name)
  if (length === 0 || length > 15) throw new TypeError(`not an interface name: ${text}`)
  buffer.write(name, at)
  return at + 16
}

/** First and last value of a prefix or `first-last` range; null if the text is a single value. */
export function rangeOf(type: DataType, text: string): readonly [string, string] | null {
  if (type === 'ipv4_addr' || type === 'ipv6_addr') {
    if (text.includes('/')) {
      const cidr = parseCidr(text)
      if (cidr === null) throw new TypeError(`not a prefix: ${text}`)
      const { first, last } = cidrRange(cidr)
      return [first, last]
    }
  }
  if (type === 'ifname' || type === 'inet_proto') return null
  const dash = text.indexOf('-')
  return dash > 0 && /\d|:/.test(text[dash + 1] ?? '') ? [text.slice(0, dash), text.slice(dash + 1)] : null
}

/** The bytes of a single value. */
export function bytesOf(type: DataType, text: string): Buffer {
  const buffer = Buffer.alloc(TYPES[type].bytes)
  writeValue(type, text, buffer, 0)
  return buffer
}

/** The canonical text of a value's bytes (padding may follow); `0x…` if they are too few. */
export function textOf(type: DataType, bytes: Buffer): string {
  const { bytes: length, host } = TYPES[type]
  if (bytes.length < length) return `0x${bytes.toString('hex')}`
  switch (type) {
    case 'ipv4_addr':
      return ipFromBytes(bytes.subarray(0, 4))
    case 'ipv6_addr':
      return ipv6Text(bytes.subarray(0, 16))
    case 'ifname': {
      const end = bytes.indexOf(0)
      return bytes.toString('utf8', 0, end < 0 || end > 16 ? 16 : end)
    }
    case 'inet_proto':
      return canonicalValue('inet_proto', String(bytes[0]))
    default:
      return wordFor(type, length === 2 ? bytes.readUInt16BE(0) : host ? bytes.readUInt32LE(0) : 0)
  }
}

function wordFor(type: DataType, value: number): string {
  const word = Object.entries(WORDS[type] ?? {}).find(([, number]) => number === value)
  return word?.[0] ?? String(value)
}

/** IPv4-mapped addresses keep their IPv6 form: in an ip6 table they are IPv6. */
function ipv6Text(bytes: Buffer): string {
  const text = ipFromBytes(bytes)
  return text.includes(':') ? text : `::ffff:${text}`
}

/** Names of the bits that are set in a ct state or status; a number for those without a name. */
export function bitNames(type: 'ct_state' | 'ct_status', bits: number): string[] {
  const names: string[] = []
  let rest = bits
  for (const [name, bit] of Object.entries(WORDS[type] ?? {})) {
    if ((rest & bit) === 0) continue
    names.push(name)
    rest &= ~bit
  }
  if (rest !== 0) names.push(String(rest >>> 0))
  return names
}

/** A range in its shortest text: the single value, the prefix, or `first-last`. */
export function rangeText(type: DataType, first: Buffer, last: Buffer): string {
  const from = textOf(type, first)
  if (first.equals(last)) return from
  const to = textOf(type, last)
  if (type === 'ipv4_addr' || type === 'ipv6_addr') {
    const bits = prefixBits(first, last)
    if (bits !== null) return `${from}/${bits}`
  }
  return `${from}-${to}`
}

function prefixBits(first: Buffer, last: Buffer): number | null {
  let bits = 0
  const size = first.length * 8
  const bit = (bytes: Buffer, i: number): number => (bytes[i >> 3]! >> (7 - (i & 7))) & 1
  while (bits < size && bit(first, bits) === bit(last, bits)) bits++
  for (let i = bits; i < size; i++) if (bit(first, i) !== 0 || bit(last, i) !== 1) return null
  return bits
}

/** One spelling per value, also for prefixes and ranges, so that what is read back equals what was written. */
export function canonicalText(type: DataType, text: string): string {
  const range = rangeOf(type, text)
  if (range !== null) return rangeText(type, bytesOf(type, range[0]), bytesOf(type, range[1]))
  return textOf(type, bytesOf(type, text))
}

/** The mask bytes of a prefix, or null if the text is not one; with the bits that it keeps. */
export function prefixOf(text: string): { readonly address: Buffer; readonly bits: number } | null {
  if (!text.includes('/')) return null
  const cidr = parseCidr(text)
  if (cidr === null) throw new TypeError(`not a prefix: ${text}`)
  const { address, bits } = splitCidr(cidr)
  return { address: Buffer.from(ipToBytes(address)), bits }
}

/** True for an address of either family. */
export const isAddress = (text: string): boolean => parseIp(text) !== null
