import { cidrFamily, parseCidr } from '../net/cidr.ts'
import { parseIp } from '../net/ip.ts'
import type { ModeName } from '../modes/mode.ts'
import { didYouMean } from '../shared/suggest.ts'

/** Names that `mode` may have; `kernelspace` is upstream's word for the one mode of Windows and means `ebpf` here. */
export const MODE_NAMES: Readonly<Record<string, ModeName>> = {
  userspace: 'userspace',
  iptables: 'iptables',
  ipvs: 'ipvs',
  nftables: 'nftables',
  ebpf: 'ebpf',
  kernelspace: 'ebpf',
}

/** Empty (the default) or exactly a mode's name: a mode that is almost right must never become another one. */
export function checkMode(value: string): string | null {
  if (value === '' || Object.hasOwn(MODE_NAMES, value)) return null
  const names = Object.keys(MODE_NAMES)
  return `"${value}" is no proxy mode; allowed are ${names.join(', ')}${didYouMean(value.trim(), names)}`
}

export function oneOf(...allowed: string[]): (value: string) => string | null {
  const shown = allowed.filter((text) => text !== '')
  return (value) =>
    allowed.includes(value)
      ? null
      : `"${value}" is not allowed; it must be one of ${shown.join(', ')}${didYouMean(value, shown)}`
}

export function intBetween(low: number, high: number): (value: number) => string | null {
  return (value) => (value >= low && value <= high ? null : `${value} is not within ${low} to ${high}`)
}

export function positive(value: number): string | null {
  return value > 0 ? null : 'must be greater than 0'
}

export function notNegative(value: number): string | null {
  return value >= 0 ? null : 'must not be negative'
}

export function checkIp(value: string): string | null {
  return parseIp(value) === null ? `"${value}" is no IP address` : null
}

/** `ip:port`, `[ip6]:port`, or only the address (the default port is added); empty or null = as defaulted. */
export function checkHostPort(value: string | null): string | null {
  if (value === null || value === '') return null
  return splitHostPort(value) === null
    ? `"${value}" is no address with port, such as 0.0.0.0:10256 or [::]:10256`
    : null
}

/** The two parts of `ip:port`; the port is null where only an address is given. Null if it is neither. */
export function splitHostPort(value: string): { readonly host: string; readonly port: number | null } | null {
  const plain = parseIp(value)
  if (plain !== null) return { host: plain, port: null }
  const match = /^(?:\[([^\]]*)\]|([^:]*)):(\d{1,5})$/.exec(value)
  if (match === null) return null
  const host = parseIp(match[1] ?? match[2] ?? '')
  const port = Number(match[3])
  return host === null || port > 65_535 ? null : { host, port }
}

/** One CIDR, or two of different families, with a comma between. */
export function checkCidrLists(value: string): string | null {
  if (value === '') return null
  const parts = value.split(',')
  const cidrs = parts.map((part) => parseCidr(part.trim()))
  const bad = parts.find((_, i) => cidrs[i] === null)
  if (bad !== undefined) return `"${bad}" is no CIDR`
  const families = cidrs.map((cidr) => cidrFamily(cidr!))
  if (new Set(families).size !== families.length) return 'at most one CIDR of each IP family is allowed'
  return null
}

/** CIDRs, or the word `primary` alone. */
export function checkNodePortAddresses(value: readonly string[]): string | null {
  if (value.includes('primary')) return value.length === 1 ? null : '"primary" must stand alone'
  const bad = value.find((text) => parseCidr(text) === null)
  return bad === undefined ? null : `"${bad}" is neither a CIDR nor the word primary`
}

/** A Linux interface name has at most 15 bytes and neither blanks nor slashes. */
export function checkBridgeName(value: string): string | null {
  if (value.length > 15) return `"${value}" is longer than the 15 characters of an interface name`
  return /[\s/]/.test(value) ? `"${value}" is no interface name` : null
}
