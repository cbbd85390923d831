import type { Outcome } from '../services/decision.ts'
import type { Addresses, Hop, Trace } from '../modes/trace.ts'
import type { Ip } from '../net/ip.ts'
import { familyOf } from '../net/ip.ts'

/** `trace -o json`; docs/json.md describes the fields, and a test holds both. */
export interface TraceReport {
  readonly verdict: Outcome['verdict']
  readonly destinations: readonly string[]
  readonly masquerade: boolean | 'per-destination'
  /** Only where `masquerade` is `per-destination`. */
  readonly masqueradePerDestination?: Readonly<Record<string, boolean>>
  readonly sticky: boolean
  readonly hops: readonly HopReport[]
  readonly reply: readonly HopReport[]
  readonly notUnderstood: readonly string[]
}

export interface HopReport {
  readonly where: string
  readonly object: string
  readonly rule: string
  readonly before: AddressReport
  readonly after: AddressReport
  readonly why: string
}

export interface AddressReport {
  readonly src: string
  readonly dst: string
}

/** A trace in the form that programs read. */
export function traceReport(trace: Trace): TraceReport {
  const { verdict, sticky, hops, reply, notUnderstood } = trace
  return {
    verdict,
    ...outcomeReport(trace),
    sticky,
    hops: hops.map(hopReport),
    reply: reply.map(hopReport),
    notUnderstood,
  }
}

/** Destinations and masquerading of an outcome. */
export function outcomeReport({
  destinations,
}: Outcome): Pick<TraceReport, 'destinations' | 'masquerade' | 'masqueradePerDestination'> {
  const addresses = destinations.map(({ endpoint }) => socketText(endpoint.ip, endpoint.port))
  const values = new Set(destinations.map(({ masquerade }) => masquerade))
  if (values.size < 2) return { destinations: addresses, masquerade: values.has(true) }
  return {
    destinations: addresses,
    masquerade: 'per-destination',
    masqueradePerDestination: Object.fromEntries(
      destinations.map(({ masquerade }, i) => [addresses[i]!, masquerade]),
    ),
  }
}

function hopReport({ where, object, rule, before, after, why }: Hop): HopReport {
  return { where, object, rule, before: addressReport(before), after: addressReport(after), why }
}

function addressReport({ source, destination }: Addresses): AddressReport {
  return { src: socketText(source.ip, source.port), dst: socketText(destination.ip, destination.port) }
}

/** `10.0.0.1:80`, `[fd00::1]:80`; without the port where it is not known (0). */
export function socketText(ip: Ip, port: number): string {
  if (port === 0) return ip
  return familyOf(ip) === 'IPv6' ? `[${ip}]:${port}` : `${ip}:${port}`
}
