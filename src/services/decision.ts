import type { Endpoint, Frontend, ServicePortId } from './service-map.ts'

/** What the proxy does with the first packet of a flow; vocabulary of test/cases/flows.md. */
export type Verdict = 'FORWARD' | 'REJECT' | 'DROP' | 'NONE' | 'ACCEPT_LOCAL'

/** Outcome of a packet: what `decide`, every mode's `trace` and the wire must agree on. */
export interface Outcome {
  readonly verdict: Verdict
  /** For FORWARD: everything that may be chosen, with the source the endpoint will see. Sorted as in the pool. */
  readonly destinations: readonly OutcomeDestination[]
  /** Repeated flows of this client go to one of the destinations. */
  readonly sticky: boolean
}

export interface OutcomeDestination {
  readonly endpoint: Pick<Endpoint, 'ip' | 'port'>
  /** The source becomes an address of this node. */
  readonly masquerade: boolean
}

/** The reference model's answer, with its reasons. */
export interface Decision extends Outcome {
  /** The Service port whose frontend the packet hit; null if none. */
  readonly service: ServicePortId | null
  readonly frontend: Frontend | null
  /** One sentence each, in the order in which they were decided. */
  readonly reasons: readonly string[]
}
