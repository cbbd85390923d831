import type { Cidr } from '../net/cidr.ts'
import { cidrContains, cidrFamily, parseCidr, singleAddress, splitCidr } from '../net/cidr.ts'
import type { IpFamily } from '../net/family.ts'
import type { Ip } from '../net/ip.ts'
import { compareIps } from './node-view.ts'

/** `spec.loadBalancerSourceRanges` for one family. */
export interface SourceRanges {
  /** Sorted, none within another; null = everyone may pass. */
  readonly ranges: readonly Cidr[] | null
  /** Index and text of entries that are no CIDR. */
  readonly malformed: readonly { readonly index: number; readonly text: string }[]
  /** There are entries, and none of either family could be read. */
  readonly allMalformed: boolean
}

/**
 * Reads the ranges that apply to one family. Blanks around an entry are taken off, as API validation does; what is no
 * CIDR is left out. No filter is left when the list has nothing for this family, and when it has a /0. That includes
 * a list of which nothing can be read: like upstream, such a Service stays open to everyone rather than closed to
 * everyone, so that taking a node over changes no traffic; it is reported.
 */
export function readSourceRanges(texts: readonly string[], family: IpFamily): SourceRanges {
  if (texts.length === 0) return NO_RANGES
  const entries = texts.map((text, index) => ({ index, text, cidr: parseCidr(text.trim()) }))
  const valid = entries.map(({ cidr }) => cidr).filter((cidr) => cidr !== null)
  const ofFamily = valid.filter((cidr) => cidrFamily(cidr) === family)
  const open = ofFamily.length === 0 || ofFamily.some((cidr) => splitCidr(cidr).bits === 0)
  return {
    ranges: open ? null : withoutCovered(ofFamily),
    malformed: entries.filter(({ cidr }) => cidr === null),
    allMalformed: valid.length === 0,
  }
}

/**
 * The ranges for one load-balancer address: with the address itself if the node's own address is within them, since a
 * packet from the node to its own load balancer may carry that address as source.
 */
export function rangesForAddress(
  ranges: readonly Cidr[] | null,
  vip: Ip,
  primaryIp: Ip | null,
): readonly Cidr[] | null {
  if (ranges === null || primaryIp === null || !admits(ranges, primaryIp)) return ranges
  return admits(ranges, vip) ? ranges : withoutCovered([...ranges, singleAddress(vip)])
}

/** True if an address is within one of the ranges. */
export function admits(ranges: readonly Cidr[], ip: Ip): boolean {
  return ranges.some((cidr) => cidrContains(cidr, ip))
}

/** Drops prefixes within others; sorts what is left by address. */
function withoutCovered(cidrs: readonly Cidr[]): readonly Cidr[] {
  const parts = [...new Set(cidrs)].map((cidr) => ({ cidr, ...splitCidr(cidr) }))
  const kept = parts.filter(
    ({ cidr, address, bits }) =>
      !parts.some((other) => other.cidr !== cidr && other.bits < bits && cidrContains(other.cidr, address)),
  )
  return Object.freeze(kept.sort((a, b) => compareIps(a.address, b.address)).map(({ cidr }) => cidr))
}

const NO_RANGES: SourceRanges = Object.freeze({
  ranges: null,
  malformed: Object.freeze([]),
  allMalformed: false,
})
