import type { Branded } from './brand.ts'
import type { IpFamily } from './family.ts'
import type { Ip } from './ip.ts'
import { familyOf, ipFromBytes, ipToBytes, parseIp } from './ip.ts'

/** An IP prefix in canonical text, host bits zero: `10.0.0.0/8`, `fd00::/64`. */
export type Cidr = Branded<string, 'Cidr'>

/** Reads `ADDRESS/BITS` (leading zeros are decimal, host bits are cleared), or returns null. Blanks are not trimmed. */
export function parseCidr(text: string): Cidr | null {
  const slash = text.indexOf('/')
  if (slash < 0) return null
  const ip = parseIp(text.slice(0, slash))
  const digits = text.slice(slash + 1)
  if (ip === null || !/^\d{1,4}$/.test(digits)) return null
  const bits = Number(digits)
  const bytes = ipToBytes(ip)
  if (bits > bytes.length * 8) return null
  return `${ipFromBytes(masked(bytes, bits))}/${bits}` as Cidr
}

/** The prefix that holds just this address: /32 or /128. */
export function singleAddress(ip: Ip): Cidr {
  return `${ip}/${familyOf(ip) === 'IPv4' ? 32 : 128}` as Cidr
}

/** A prefix in its two parts. */
export function splitCidr(cidr: Cidr): { readonly address: Ip; readonly bits: number } {
  const slash = cidr.indexOf('/')
  return { address: cidr.slice(0, slash) as Ip, bits: Number(cidr.slice(slash + 1)) }
}

/** The family of a prefix. */
export function cidrFamily(cidr: Cidr): IpFamily {
  return cidr.includes(':') ? 'IPv6' : 'IPv4'
}

/** True if the address is of the prefix's family and within it. */
export function cidrContains(cidr: Cidr, ip: Ip): boolean {
  const { address, bits } = splitCidr(cidr)
  const network = ipToBytes(address)
  const candidate = ipToBytes(ip)
  if (network.length !== candidate.length) return false
  const whole = bits >> 3
  for (let i = 0; i < whole; i++) if (network[i] !== candidate[i]) return false
  const rest = bits & 7
  if (rest === 0) return true
  return (network[whole]! ^ candidate[whole]!) >> (8 - rest) === 0
}

/** The first and the last address of a prefix. */
export function cidrRange(cidr: Cidr): { readonly first: Ip; readonly last: Ip } {
  const { address, bits } = splitCidr(cidr)
  const last = Uint8Array.from(ipToBytes(address))
  for (let i = bits; i < last.length * 8; i++) last[i >> 3]! |= 0x80 >> (i & 7)
  return { first: address, last: ipFromBytes(last) }
}

function masked(bytes: Uint8Array, bits: number): Uint8Array {
  return bytes.map((byte, i) => {
    const keep = Math.min(8, Math.max(0, bits - i * 8))
    return byte & (0xff00 >> keep) & 0xff
  })
}
