import type { Branded } from './brand.ts'
import type { IpFamily } from './family.ts'

/**
 * An IP address in canonical text: dotted quad without leading zeros, or RFC 5952 for IPv6.
 * Being canonical text it is JSON-safe, a Map key, and what logs and kernel tools show.
 */
export type Ip = Branded<string, 'Ip'>

/** The family of an address. */
export function familyOf(ip: Ip): IpFamily {
  return ip.includes(':') ? 'IPv6' : 'IPv4'
}

/** True for 127.0.0.0/8 and ::1. */
export function isLoopback(ip: Ip): boolean {
  return ip === '::1' || ip.startsWith('127.')
}

/**
 * Reads an address and returns its canonical text, or null if it is none. Dotted quads with leading zeros are read
 * as decimal, as Kubernetes does for objects stored by older API servers. IPv4-mapped IPv6 (`::ffff:a.b.c.d`) is
 * read as IPv4, as Go's net.ParseIP does.
 */
export function parseIp(text: string): Ip | null {
  const bytes = text.includes(':') ? parseIpv6(text) : parseIpv4(text)
  if (bytes === null) return null
  const canonical = ipFromBytes(bytes)
  return canonical === text ? (text as Ip) : canonical
}

/** The address as 4 or 16 bytes in network order. */
export function ipToBytes(ip: Ip): Uint8Array {
  const bytes = ip.includes(':') ? parseIpv6(ip) : parseIpv4(ip)
  if (bytes === null) throw new TypeError(`not an IP address: ${ip}`)
  return bytes
}

/** The canonical text of 4 or 16 bytes in network order; IPv4-mapped IPv6 becomes IPv4. */
export function ipFromBytes(bytes: Uint8Array): Ip {
  if (bytes.length === 4) return `${bytes[0]}.${bytes[1]}.${bytes[2]}.${bytes[3]}` as Ip
  if (bytes.length !== 16) throw new RangeError(`an IP address has 4 or 16 bytes, not ${bytes.length}`)
  if (isMapped(bytes)) return bytes.subarray(12).join('.') as Ip
  return formatIpv6(bytes)
}

function isMapped(bytes: Uint8Array): boolean {
  for (let i = 0; i < 10; i++) if (bytes[i] !== 0) return false
  return bytes[10] === 0xff && bytes[11] === 0xff
}

/** Reads a dotted quad; by character code, since every endpoint of a cluster passes here. */
function parseIpv4(text: string): Uint8Array | null {
  const bytes = new Uint8Array(4)
  let [index, value, digits] = [0, 0, 0]
  for (let i = 0; i <= text.length; i++) {
    const digit = text.charCodeAt(i) - ZERO
    if (digit >= 0 && digit <= 9) {
      value = value * 10 + digit
      digits++
      if (value > 255 || digits > MAX_OCTET_DIGITS) return null
    } else {
      const ends = i === text.length ? index === 3 : text[i] === '.' && index < 3
      if (!ends || digits === 0) return null
      bytes[index++] = value
      value = digits = 0
    }
  }
  return bytes
}

function parseIpv6(text: string): Uint8Array | null {
  const halves = text.split('::')
  if (halves.length > 2) return null
  const head = groupsOf(halves[0] ?? '', halves.length === 1)
  const tail = halves.length === 2 ? groupsOf(halves[1] ?? '', true) : []
  if (head === null || tail === null) return null
  const missing = 8 - head.length - tail.length
  if (halves.length === 1 ? missing !== 0 : missing < 1) return null
  const groups = [...head, ...new Array<number>(missing).fill(0), ...tail]
  const bytes = new Uint8Array(16)
  for (const [i, group] of groups.entries()) {
    bytes[2 * i] = group >> 8
    bytes[2 * i + 1] = group & 0xff
  }
  return bytes
}

/** The 16-bit groups of one side of `::`; a dotted quad may stand at the very end of the address. */
function groupsOf(text: string, atEnd: boolean): number[] | null {
  if (text === '') return []
  const parts = text.split(':')
  const groups: number[] = []
  for (const [i, part] of parts.entries()) {
    if (atEnd && i === parts.length - 1 && part.includes('.')) {
      const quad = parseIpv4(part)
      if (quad === null) return null
      groups.push((quad[0]! << 8) | quad[1]!, (quad[2]! << 8) | quad[3]!)
    } else if (/^[0-9a-fA-F]{1,4}$/.test(part)) {
      groups.push(Number.parseInt(part, 16))
    } else {
      return null
    }
  }
  return groups
}

/** RFC 5952: lower case, no leading zeros, the longest run of two or more zero groups (the first of equals) as `::`. */
function formatIpv6(bytes: Uint8Array): Ip {
  const groups: number[] = []
  for (let i = 0; i < 16; i += 2) groups.push((bytes[i]! << 8) | bytes[i + 1]!)
  let best = { start: -1, length: 1 }
  for (let i = 0; i < 8;) {
    let end = i
    while (end < 8 && groups[end] === 0) end++
    if (end - i > best.length) best = { start: i, length: end - i }
    i = end === i ? i + 1 : end
  }
  const hex = groups.map((group) => group.toString(16))
  if (best.start < 0) return hex.join(':') as Ip
  return `${hex.slice(0, best.start).join(':')}::${hex.slice(best.start + best.length).join(':')}` as Ip
}

const ZERO = '0'.charCodeAt(0)
/** More padding than this is no address; bounds the work on nonsense. */
const MAX_OCTET_DIGITS = 10
