import type { IpFamily } from '../../net/family.ts'
import type { Ip } from '../../net/ip.ts'
import type { Protocol } from '../../net/protocol.ts'

/** One direction of a tracked flow. */
export interface FlowTuple {
  readonly source: Ip
  readonly destination: Ip
  readonly sourcePort: number
  readonly destinationPort: number
}

/** A conntrack entry: what the first packet said, and what a reply must look like. */
export interface Flow {
  readonly family: IpFamily
  readonly protocol: Protocol | number
  readonly original: FlowTuple
  readonly reply: FlowTuple
  /** Conntrack id, unique while the entry lives. */
  readonly id: number
  /** IPS_* bits (linux/netfilter/nf_conntrack_common.h). */
  readonly status: number
  readonly mark: number
  /** Conntrack zone; 0 unless somebody uses zones. */
  readonly zone: number
}

/** Connection tracking of one network namespace. */
export interface ConntrackPort extends AsyncDisposable {
  /** All entries of a family and protocol; entries may come and go meanwhile. */
  list(family: IpFamily, protocol: Protocol): Promise<readonly Flow[]>
  /** Deletes exactly this entry (by tuple and id); false if it is gone already. */
  delete(flow: Flow): Promise<boolean>
  /** Entries in the table now, and the most it can hold. */
  usage(): Promise<{ readonly count: number; readonly max: number }>
}
