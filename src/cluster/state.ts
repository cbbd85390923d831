import type { Ip } from '../net/ip.ts'
import type { Cidr } from '../net/cidr.ts'
import type { IpFamily } from '../net/family.ts'
import type { Protocol } from '../net/protocol.ts'
import type { ShardedMap } from '../shared/sharded-map.ts'

/**
 * What the cluster wants, reduced to what a proxy uses: plain frozen data. Values that did not change keep their
 * identity from one snapshot to the next; everything downstream is memoised by it.
 */
export interface ClusterState {
  /** By `namespace/name`. Holds an entry for every Service and for every Service name that has slices. */
  readonly services: ShardedMap<ServiceBundle>
  /** The Node object of this node; null while it does not exist. */
  readonly node: NodeRecord | null
  /** From ServiceCIDR objects (or configuration); empty when not known. */
  readonly serviceCidrs: readonly Cidr[]
}

/** A Service and its EndpointSlices: the unit of change. */
export interface ServiceBundle {
  /** `namespace/name` */
  readonly key: string
  /** null while only slices are known. */
  readonly service: ServiceRecord | null
  /** Sorted by slice name. */
  readonly slices: readonly SliceRecord[]
}

/** A Service as the API server stored it, text fields not yet judged (services/ does that, and reports). */
export interface ServiceRecord {
  readonly namespace: string
  readonly name: string
  readonly uid: string
  /** ISO time; empty when unknown. */
  readonly creationTimestamp: string
  readonly type: string
  /** Value of the label `service.kubernetes.io/service-proxy-name`; null if absent. */
  readonly proxyName: string | null
  /** `spec.clusterIPs`, or `[spec.clusterIP]` for objects of old servers; may hold `None` or be empty. */
  readonly clusterIps: readonly string[]
  readonly externalIps: readonly string[]
  readonly ports: readonly ServicePortRecord[]
  readonly loadBalancerIngress: readonly { readonly ip: string; readonly ipMode: string | null }[]
  readonly loadBalancerSourceRanges: readonly string[]
  readonly externalTrafficPolicy: string
  readonly internalTrafficPolicy: string
  readonly healthCheckNodePort: number
  readonly sessionAffinity: string
  readonly affinitySeconds: number | null
  readonly trafficDistribution: string | null
}

export interface ServicePortRecord {
  /** Empty for the one unnamed port. */
  readonly name: string
  readonly protocol: string
  readonly port: number
  /** 0 when none. */
  readonly nodePort: number
}

export interface SliceRecord {
  readonly namespace: string
  readonly name: string
  readonly service: string
  readonly family: IpFamily
  readonly ports: readonly {
    readonly name: string
    readonly protocol: Protocol
    readonly port: number | null
  }[]
  readonly endpoints: readonly EndpointRecord[]
  /** When the endpoints last changed, ms since the epoch (annotation `endpoints.kubernetes.io/last-change-trigger-time`); null if unknown. */
  readonly triggeredAt: number | null
}

/** One endpoint of a slice; conditions already have their defaults (ready ← true, serving ← true, terminating ← false, as kube-proxy reads them). */
export interface EndpointRecord {
  /** The first address only, as the API promises that all are equivalent. */
  readonly ip: Ip
  readonly ready: boolean
  readonly serving: boolean
  readonly terminating: boolean
  readonly nodeName: string | null
  readonly zone: string | null
  readonly forZones: readonly string[]
  readonly forNodes: readonly string[]
}

export interface NodeRecord {
  readonly name: string
  readonly uid: string
  readonly labels: Readonly<Record<string, string>>
  readonly podCidrs: readonly Cidr[]
  /** InternalIP then ExternalIP addresses, in object order; what cannot be parsed is left out and reported. */
  readonly addresses: readonly Ip[]
  readonly taints: readonly string[]
  readonly deleting: boolean
}

/** Something in an object that had to be left out or mended; logged once per object version. */
export interface ObjectProblem {
  /** e.g. `Service default/web` */
  readonly object: string
  /** e.g. `spec.loadBalancerSourceRanges[2]` */
  readonly field: string
  readonly message: string
}
