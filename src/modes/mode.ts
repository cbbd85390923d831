import type { IpFamily } from '../net/family.ts'
import type { Packet } from '../net/packet.ts'
import type { Kernel, PortName } from '../kernel/kernel.ts'
import type { NodeView, ServiceMap } from '../services/service-map.ts'
import type { Trace, TraceOptions } from './trace.ts'

export type ModeName = 'userspace' | 'iptables' | 'ipvs' | 'nftables' | 'ebpf'

/** Where a mode's behaviour differs from the reference model: declared, tested both ways, printed in the docs. */
export interface ModeTraits {
  /** The endpoint sees the client's address where policy says so. */
  readonly keepsClientIp: boolean
  readonly sctp: boolean
  /** Node ports answer on 127.0.0.1. */
  readonly loopbackNodePorts: boolean
  /** What an unused port of a known ClusterIP gives. */
  readonly unusedClusterIpPort: 'REJECT' | 'NONE'
  /** What an unused address of a known Service range gives. */
  readonly unknownServiceIp: 'DROP' | 'NONE'
  /** Which check comes first for a blocked source of a Service without endpoints. */
  readonly sourceRangesBeforeEndpoints: boolean
  readonly flowsSurviveAgent: boolean
  readonly virtualIpsBoundOnNode: boolean
  /** What shares one affinity entry of a client. */
  readonly affinityGranularity: 'service port' | 'frontend'
}

/** One thing a preflight found. */
export interface Finding {
  readonly severity: 'info' | 'warning' | 'blocker'
  readonly what: string
  readonly fix: string
}

/** One difference between what the kernel holds and what is wanted. */
export interface Drift {
  /** e.g. `map service-ips element 10.96.0.1 . tcp . 443` */
  readonly object: string
  readonly kind: 'missing' | 'unexpected' | 'different'
  readonly detail: string
}

/** `standby`: everything but the entry points; `active`: packets reach it. */
export type Entry = 'active' | 'standby'

/** What a write did, for logs, metrics and tests. */
export interface ApplyReport {
  /** The whole state was written rather than a difference. */
  readonly full: boolean
  readonly operations: number
  readonly durationMs: number
}

/**
 * One proxy mode for one IP family. `Rules` is plain immutable data; everything but the last group is pure.
 * `needs` names the kernel ports that it is given.
 */
export interface ProxyMode<Rules, Needs extends PortName = PortName> {
  readonly name: ModeName
  readonly needs: readonly Needs[]
  readonly traits: ModeTraits

  /** What this mode must install. `previous` (any earlier result) only saves work: the result is the same without. */
  compile(map: ServiceMap, previous?: Rules | null): Rules
  /** The path of a packet through these very rules. */
  trace(rules: Rules, packet: Packet, node: NodeView, options?: TraceOptions): Trace
  /** The tool's own syntax, loadable by it, deterministic. */
  print(rules: Rules): string

  /** Functional probes only; empty = ready. */
  preflight(kernel: Pick<Kernel, Needs>, family: IpFamily): Promise<readonly Finding[]>
  /**
   * Makes the kernel hold `to`, in one transaction. `from` is what was installed by the last successful call; null =
   * not known: read the kernel, adopt what is there and write the difference.
   */
  apply(
    kernel: Pick<Kernel, Needs>,
    change: { from: Rules | null; to: Rules; entry: Entry },
  ): Promise<ApplyReport>
  /** Reads the kernel back; empty = in step. */
  verify(kernel: Pick<Kernel, Needs>, want: Rules): Promise<readonly Drift[]>
  /**
   * Calls back when somebody else changed (or may have changed) what this mode owns, until the signal aborts.
   */
  watchDrift(kernel: Pick<Kernel, Needs>, family: IpFamily, signal: AbortSignal, onDrift: () => void): void
  /** Removes this mode's objects of the family, and nothing else; idempotent. */
  cleanup(kernel: Pick<Kernel, Needs>, family: IpFamily): Promise<void>
}
