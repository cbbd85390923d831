import type { ModeName } from '../modes/mode.ts'
import type { Cidr } from '../net/cidr.ts'

/** Values every rule-based mode has a section for; kept per mode so that a change of mode does not change them silently. */
export interface ModeSection {
  /** Bit of the packet mark that asks for masquerading, 0–31. */
  readonly masqueradeBit: number
  readonly masqueradeAll: boolean
  /** Longest time between a failure (or a check for drift) and the next attempt. */
  readonly syncPeriodMs: number
  /** Shortest time between the end of one sync and the start of the next. */
  readonly minSyncPeriodMs: number
}

export type DetectLocalMode = 'ClusterCIDR' | 'NodeCIDR' | 'BridgeInterface' | 'InterfaceNamePrefix'

/**
 * KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1) after defaulting and validation, durations in milliseconds.
 * Field meanings and defaults are upstream's: https://kubernetes.io/docs/reference/config-api/kube-proxy-config.v1alpha1/
 */
export interface ProxyConfiguration {
  readonly mode: ModeName
  readonly hostnameOverride: string
  readonly clientConnection: { readonly kubeconfig: string; readonly qps: number; readonly burst: number }
  readonly logging: { readonly format: 'text' | 'json'; readonly verbosity: number }
  /** Overrides the node's primary address when not unspecified (0.0.0.0 or ::); binds no socket. */
  readonly bindAddress: string
  /** `ip:port`; empty = not served. */
  readonly healthzBindAddress: string
  readonly metricsBindAddress: string
  readonly bindAddressHardFail: boolean
  readonly iptables: ModeSection & { readonly localhostNodePorts: boolean }
  readonly nftables: ModeSection
  readonly detectLocalMode: DetectLocalMode
  readonly detectLocal: { readonly bridgeInterface: string; readonly interfaceNamePrefix: string }
  /** At most one per family. */
  readonly clusterCidrs: readonly Cidr[]
  /** CIDRs, or the one word `primary`; empty = the mode's default (nftables: primary; others: any local address). */
  readonly nodePortAddresses: readonly Cidr[] | 'primary'
  readonly configSyncPeriodMs: number
}
