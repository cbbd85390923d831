import type { ObjectProblem } from '../cluster/state.ts'
import type { Branded } from '../net/brand.ts'
import type { Cidr } from '../net/cidr.ts'
import type { IpFamily } from '../net/family.ts'
import type { Ip } from '../net/ip.ts'
import type { Port } from '../net/port.ts'
import type { Protocol } from '../net/protocol.ts'
import type { ShardedMap } from '../shared/sharded-map.ts'
import type { ServiceIndex } from './service-index.ts'

/** `namespace/name:port`, or `namespace/name` for an unnamed port, as kube-proxy logs it. */
export type ServicePortId = Branded<string, 'ServicePortId'>

/** How to tell whether a packet comes from a pod of this node (KubeProxyConfiguration `detectLocalMode`). */
export type LocalDetector =
  /** Source within the CIDR of this family: modes ClusterCIDR and NodeCIDR. */
  | { readonly by: 'source-cidr'; readonly cidr: Cidr }
  /** Received on this interface: mode BridgeInterface. */
  | { readonly by: 'interface'; readonly name: string }
  /** Received on an interface whose name starts so: mode InterfaceNamePrefix. */
  | { readonly by: 'interface-prefix'; readonly prefix: string }
  /** Not possible (no CIDR configured for this family): nothing counts as a local pod and nothing is off-cluster. */
  | { readonly by: 'none' }

/** What this node is to the proxy, in one IP family: from the Node object, the configuration and the interfaces. */
export interface NodeView {
  readonly name: string
  readonly family: IpFamily
  /** Label topology.kubernetes.io/zone; null if absent. */
  readonly zone: string | null
  readonly detectLocal: LocalDetector
  /** The node's own address of this family (`bindAddress`, or else from the Node object); null while not known. */
  readonly primaryIp: Ip | null
  /** Node ports are served on these addresses only; `any-local` = every address of the node but loopback. */
  readonly nodePortAddresses: readonly Cidr[] | 'any-local' | { readonly primary: Ip | null }
  /** The addresses that `nodePortAddresses` selects now, of this family, loopback left out; empty for `any-local`. */
  readonly nodePortIps: readonly Ip[]
  /** Addresses of the node's interfaces of this family, as known; used by the tracer. */
  readonly localIps: readonly Ip[]
  readonly masqueradeAll: boolean
  /** Bit number, 0–31; kube-proxy's default 14 gives the mark 0x4000. */
  readonly masqueradeBit: number
  /** Known Service ranges of this family; packets to unknown addresses within are dropped by modes that can. */
  readonly serviceCidrs: readonly Cidr[]
}

export interface Endpoint {
  readonly ip: Ip
  readonly port: Port
  /** On this node. */
  readonly isLocal: boolean
  /** `terminating`: used only because no ready endpoint is left. */
  readonly state: 'ready' | 'terminating'
}

/**
 * A set of endpoints that share the load evenly. Endpoints are unique and sorted by address bytes, then port, so a
 * pool is the same whatever the order of slices.
 */
export interface Pool {
  readonly endpoints: readonly Endpoint[]
}

/** What a new flow gets; decided here once, modes only translate it. */
export type Destination =
  | { readonly kind: 'endpoints'; readonly pool: PoolName }
  /** Refused at once: the Service has no endpoint at all. */
  | { readonly kind: 'reject' }
  /** Silently dropped: there are endpoints, but the traffic policy excludes all of them. */
  | { readonly kind: 'drop' }

export type PoolName = 'cluster' | 'local'

export type FrontendKind = 'ClusterIP' | 'ExternalIP' | 'LoadBalancer' | 'NodePort'

/** One address a client can dial, with everything decided about it for this node. */
export interface Frontend {
  readonly kind: FrontendKind
  /** For NodePort: any address of {@link NodeView.nodePortAddresses}. */
  readonly ip: Ip | 'any-node-port-address'
  readonly port: Port
  /** For clients that are neither pods nor processes of this node. */
  readonly fromAnywhere: Destination
  /**
   * For pods (source kept) and processes (source masqueraded) of this node: differs from `fromAnywhere` only for the
   * short circuit of externalTrafficPolicy Local. Pods count only where {@link NodeView.detectLocal} can tell them.
   */
  readonly fromThisNode: Destination
  /**
   * Which flows get the node's address as source, besides hairpin flows, which always do: `always`;
   * `off-cluster-sources` = sources that detectLocal says are not local pods; `never`. A short-circuited process of
   * this node is always masqueraded, a short-circuited pod never.
   */
  readonly masquerade: 'always' | 'off-cluster-sources' | 'never'
  /**
   * Only these sources may pass; null = everyone. LoadBalancer frontends only. Sorted, none within another. Holds the
   * frontend's own address where the node is within the ranges: a node's packet to its own load balancer may carry
   * that address as source.
   */
  readonly sourceRanges: readonly Cidr[] | null
}

/** One Service port of one family on this node: the unit of compilation. */
export interface ServicePort {
  readonly id: ServicePortId
  readonly namespace: string
  readonly name: string
  /** Empty for the unnamed port. */
  readonly portName: string
  readonly protocol: Protocol
  /** Frontends this port owns; addresses that another Service owns are in `shadowed`. */
  readonly frontends: readonly Frontend[]
  /** Frontends that lost to an older Service claiming the same address, port and protocol. */
  readonly shadowed: readonly { readonly frontend: Frontend; readonly owner: ServicePortId }[]
  /** `local` is null unless some traffic policy is Local; `cluster` is null if nothing uses it. */
  readonly pools: { readonly cluster: Pool | null; readonly local: Pool | null }
  /** ClientIP session affinity in seconds (1–86400); null = none. */
  readonly affinitySeconds: number | null
  /** `externalTrafficPolicy: Local` with this health check port; null = none. The same for all ports of a Service. */
  readonly healthCheckNodePort: Port | null
  readonly internalPolicyLocal: boolean
  readonly externalPolicyLocal: boolean
}

/** Health of one Service with externalTrafficPolicy Local on this node. */
export interface ServiceHealth {
  readonly namespace: string
  readonly name: string
  readonly port: Port
  /** Ready endpoints of this node, counted by address over all ports and families given to the map. */
  readonly localReadyIps: readonly Ip[]
}

/** What Kubernetes wants on this node, for one IP family. */
export interface ServiceMap {
  readonly family: IpFamily
  readonly node: NodeView
  /** By {@link ServicePortId}; an unchanged port keeps its identity from one map to the next. */
  readonly ports: ShardedMap<ServicePort>
  /** By `namespace/name`: Services with a healthCheckNodePort. */
  readonly health: ShardedMap<ServiceHealth>
  /** By `namespace/name`: fields that were left out or mended; an unchanged Service keeps its list. */
  readonly problems: ShardedMap<readonly ObjectProblem[]>
  /** How the map was made, for the next build and for look-ups; absent in maps made by hand. Never part of JSON. */
  readonly index?: ServiceIndex
}

/** A pool of a port; the empty pool if it has none. */
export function poolOf(port: ServicePort, name: PoolName): Pool {
  return port.pools[name] ?? EMPTY_POOL
}

const EMPTY_POOL: Pool = Object.freeze({ endpoints: Object.freeze([]) })
