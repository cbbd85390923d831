import type { Ip } from '../net/ip.ts'
import type { Outcome } from '../services/decision.ts'
import type { FrontendKind } from '../services/service-map.ts'
import type { Protocol } from '../net/protocol.ts'

/** A packet's addresses at one point of its way. */
export interface Addresses {
  readonly source: { readonly ip: Ip; readonly port: number }
  readonly destination: { readonly ip: Ip; readonly port: number }
}

/** One step of a packet's way. */
export interface Hop {
  /** The hook or stage, e.g. `nat-prerouting`, `conntrack`, `routing`. */
  readonly where: string
  /** The object that acted, e.g. `chain cluster-5`, `map service-ips`. */
  readonly object: string
  /** The rule or element in the tool's syntax. */
  readonly rule: string
  readonly before: Addresses
  readonly after: Addresses
  /** One sentence for a person. */
  readonly why: string
}

/** How one packet fares: the outcome that modes are compared by, and the way there and back (one example endpoint). */
export interface Trace extends Outcome {
  /**
   * Probability of each destination, in their order. Their sum is less than 1 where some of the choices are dropped or
   * refused later.
   */
  readonly shares: readonly number[]
  readonly hops: readonly Hop[]
  /** The reply of the example endpoint; empty unless forwarded. */
  readonly reply: readonly Hop[]
  /** Rules that the tracer could not interpret; a non-empty list means that the outcome is a guess. */
  readonly notUnderstood: readonly string[]
}

/** What people call an address, for the sentences of a trace. */
export interface ServiceNames {
  /** The frontend at an address; null if no Service is known there. */
  frontend(
    ip: Ip,
    protocol: Protocol,
    port: number,
  ): { readonly kind: FrontendKind; readonly service: string } | null
}

export interface TraceOptions {
  /** What addresses are called; without it, the sentences name addresses only. */
  readonly names?: ServiceNames
}
