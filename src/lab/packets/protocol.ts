import type { Protocol } from '../../net/protocol.ts'

/**
 * What the traffic program of a namespace is told (one JSON line each on its stdin) and what it answers (one JSON line
 * each on its stdout, with the same `id`). It ends when its stdin ends.
 */
export type TrafficRequest =
  | { readonly id: number; readonly do: 'listen'; readonly sockets: readonly ListenSocket[] }
  | ({ readonly id: number; readonly do: 'send' } & SendOrder)
  | { readonly id: number; readonly do: 'get'; readonly url: string; readonly timeoutMs: number }

export interface ListenSocket {
  readonly protocol: Protocol
  readonly ip: string
  readonly port: number
}

/** `count` flows, each with a source port of its own. */
export interface SendOrder {
  readonly protocol: Protocol
  /** Source address. */
  readonly from: string
  readonly to: string
  readonly port: number
  readonly count: number
  /** How long to wait for an answer before the flow counts as unanswered. */
  readonly timeoutMs: number
}

export type TrafficAnswer =
  | {
      readonly id: number
      readonly ok: true
      readonly flows?: readonly FlowResult[]
      readonly body?: string
    }
  | { readonly id: number; readonly ok: false; readonly error: string }

/** What became of one flow. */
export type FlowResult =
  /**
   * A listener answered: where the packet arrived and whom it saw as client; `samePort` = with the port that the client
   * sent from.
   */
  | { readonly result: 'answered'; readonly at: string; readonly seen: string; readonly samePort: boolean }
  /** Something else answered with HTTP. */
  | { readonly result: 'http'; readonly status: number }
  /** ECONNREFUSED: an ICMP port-unreachable or a RST. */
  | { readonly result: 'refused' }
  | { readonly result: 'silent' }
  /** Any other end, e.g. EHOSTUNREACH. */
  | { readonly result: 'failed'; readonly error: string }
