/**
 * The parts of Kubernetes API objects that the product reads, as the API server sends them (JSON). Types only: the
 * reflector, the lab's API server and the YAML loader share them and nothing else.
 */

export interface ObjectMeta {
  readonly name: string
  readonly namespace?: string
  readonly uid?: string
  readonly resourceVersion?: string
  readonly generation?: number
  readonly creationTimestamp?: string
  readonly deletionTimestamp?: string
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
  readonly ownerReferences?: readonly OwnerReference[]
  readonly generateName?: string
  readonly managedFields?: unknown
}

export interface OwnerReference {
  readonly apiVersion: string
  readonly kind: string
  readonly name: string
  readonly uid: string
  readonly controller?: boolean
  readonly blockOwnerDeletion?: boolean
}

export interface KubernetesObject {
  readonly apiVersion?: string
  readonly kind?: string
  readonly metadata: ObjectMeta
}

export interface ServicePortSpec {
  readonly name?: string
  readonly protocol?: string
  readonly appProtocol?: string
  readonly port: number
  readonly targetPort?: number | string
  readonly nodePort?: number
}

export interface LoadBalancerIngress {
  readonly ip?: string
  readonly hostname?: string
  /** `VIP` or `Proxy`; absent means VIP (KEP-1860). */
  readonly ipMode?: string
}

export interface ServiceSpec {
  readonly type?: string
  readonly clusterIP?: string
  readonly clusterIPs?: readonly string[]
  readonly ipFamilies?: readonly string[]
  readonly ipFamilyPolicy?: string
  readonly ports?: readonly ServicePortSpec[]
  readonly selector?: Readonly<Record<string, string>>
  readonly externalIPs?: readonly string[]
  readonly externalName?: string
  readonly loadBalancerIP?: string
  readonly loadBalancerSourceRanges?: readonly string[]
  readonly externalTrafficPolicy?: string
  readonly internalTrafficPolicy?: string
  readonly healthCheckNodePort?: number
  readonly sessionAffinity?: string
  readonly sessionAffinityConfig?: { readonly clientIP?: { readonly timeoutSeconds?: number } }
  readonly publishNotReadyAddresses?: boolean
  readonly allocateLoadBalancerNodePorts?: boolean
  readonly trafficDistribution?: string
}

export interface Service extends KubernetesObject {
  readonly spec: ServiceSpec
  readonly status?: { readonly loadBalancer?: { readonly ingress?: readonly LoadBalancerIngress[] } }
}

export interface EndpointConditions {
  /** null or absent means true. */
  readonly ready?: boolean | null
  readonly serving?: boolean | null
  readonly terminating?: boolean | null
}

export interface SliceEndpoint {
  readonly addresses: readonly string[]
  readonly conditions?: EndpointConditions
  readonly hostname?: string
  readonly nodeName?: string
  readonly zone?: string
  readonly hints?: {
    readonly forZones?: readonly { readonly name: string }[]
    readonly forNodes?: readonly { readonly name: string }[]
  }
  readonly targetRef?: {
    readonly kind?: string
    readonly name?: string
    readonly namespace?: string
    readonly uid?: string
  }
}

export interface SlicePort {
  readonly name?: string | null
  readonly protocol?: string | null
  readonly port?: number | null
  readonly appProtocol?: string | null
}

export interface EndpointSlice extends KubernetesObject {
  readonly addressType: string
  readonly endpoints?: readonly SliceEndpoint[] | null
  readonly ports?: readonly SlicePort[] | null
}

export interface NodeAddress {
  readonly type: string
  readonly address: string
}

export interface Node extends KubernetesObject {
  readonly spec?: {
    readonly podCIDR?: string
    readonly podCIDRs?: readonly string[]
    readonly taints?: readonly { readonly key: string; readonly value?: string; readonly effect: string }[]
  }
  readonly status?: { readonly addresses?: readonly NodeAddress[] }
}

export interface ServiceCIDR extends KubernetesObject {
  readonly spec?: { readonly cidrs?: readonly string[] }
}
