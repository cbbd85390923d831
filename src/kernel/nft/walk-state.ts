import type { Ip } from '../../net/ip.ts'
import type { Protocol } from '../../net/protocol.ts'
import type { NftBaseChain, NftElement, NftRule, NftValue, NftVerdict } from './ruleset.ts'
import type { RuleView } from './rule-view.ts'

/** What a rule did to a packet, and where. */
export type Deed =
  | { readonly kind: 'jump' | 'goto'; readonly chain: string }
  | { readonly kind: 'mark'; readonly mark: number }
  | { readonly kind: 'dnat' | 'masquerade' | 'drop' | 'reject' | 'accept' | 'policy drop' }
  /** The packet's key was put into a set. */
  | { readonly kind: 'update'; readonly set: string }

/** One rule that did something, in the order of the packet's way. */
export interface Step {
  readonly hook: NftBaseChain['hook']
  readonly base: string
  readonly view: RuleView
  readonly chain: string
  /** null for a base chain's policy. */
  readonly rule: NftRule | null
  /** The map element that decided, if the rule looked one up. */
  readonly hit: Hit | null
  readonly deed: Deed
  /** Jumps from the base chain to the rule's chain. */
  readonly depth: number
  readonly before: PacketState
  readonly after: PacketState
}

/** An element that a rule looked up. `map` is null for an anonymous map, whose entry has no name. */
export interface Hit {
  readonly map: string | null
  readonly key: NftValue
  readonly value: NftValue | NftVerdict
  readonly element: NftElement | null
}

/** Steps as a list from the last to the first, so that branches share what they have in common. */
export interface StepList {
  readonly last: Step
  readonly earlier: StepList | null
}

/** A packet somewhere on its way. Branches of a random choice are separate states with their share of the weight. */
export interface PacketState {
  readonly source: Ip
  readonly sourcePort: number
  readonly destination: Ip
  readonly port: number
  readonly protocol: Protocol
  /** null = made on this node, or not known. */
  readonly inputInterface: string | null
  readonly outputInterface: string | null
  readonly mark: number
  /** The first packet's destination (or source) was rewritten; conntrack remembers. */
  readonly dnat: boolean
  readonly masquerade: boolean
  /** The choice of the destination is remembered for this client. */
  readonly sticky: boolean
  /** Probability of this branch, 0–1. */
  readonly weight: number
  /** Values chosen for hash expressions, so that the same hash gives the same value again. */
  readonly hashes: Readonly<Record<string, number>>
  readonly steps: StepList | null
}

/** How a chain (or a whole hook) ended for one branch. */
export interface Branch {
  readonly end: 'accept' | 'drop' | 'reject' | 'return'
  readonly state: PacketState
}

/** What the walk knows about the node and how it reports what it does not understand. */
export interface WalkContext {
  isLocal(ip: Ip): boolean
  /** The source address that masquerading gives; a stand-in where the interface is not known. */
  masqueradeSource(destination: Ip): Ip
  notUnderstood(text: string): void
}

/** Steps in order. */
export function stepsOf(state: PacketState): readonly Step[] {
  const steps: Step[] = []
  for (let at = state.steps; at !== null; at = at.earlier) steps.push(at.last)
  return steps.toReversed()
}
