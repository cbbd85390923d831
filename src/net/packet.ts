import type { Ip } from './ip.ts'
import type { Port } from './port.ts'
import type { Protocol } from './protocol.ts'

/** The first packet of a new flow, as it enters (or leaves) the node's network stack. */
export interface Packet {
  readonly source: Ip
  /** 0 when unknown; no decision of a proxy depends on it. */
  readonly sourcePort: number
  readonly destination: Ip
  readonly port: Port
  readonly protocol: Protocol
  /** Where the packet comes from: `received` = received on an interface, `local` = made by a process on this node. */
  readonly origin: 'received' | 'local'
  /** The interface a received packet came in on, e.g. `eth0`; null if made on this node or unknown. */
  readonly inputInterface: string | null
}
