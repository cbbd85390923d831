import type { KubernetesObject, ObjectMeta } from '../../kubernetes/objects.ts'

/** The parts of kinds that only the lab reads; the product itself never looks at them. */

export interface ContainerPort {
  readonly name?: string
  readonly containerPort: number
  readonly protocol?: string
}

export interface Container {
  readonly name: string
  readonly image?: string
  readonly ports?: readonly ContainerPort[]
}

export interface PodSpec {
  readonly nodeName?: string
  readonly hostNetwork?: boolean
  readonly hostname?: string
  readonly subdomain?: string
  readonly terminationGracePeriodSeconds?: number
  readonly containers: readonly Container[]
  readonly initContainers?: readonly Container[]
}

export interface PodCondition {
  readonly type: string
  readonly status: string
}

export interface ContainerStatus {
  readonly name: string
  readonly ready?: boolean
  readonly restartCount?: number
  readonly state?: { readonly waiting?: { readonly reason?: string } }
}

export interface Pod extends KubernetesObject {
  readonly spec: PodSpec
  readonly status?: {
    readonly phase?: string
    readonly reason?: string
    readonly podIP?: string
    readonly podIPs?: readonly { readonly ip: string }[]
    readonly hostIP?: string
    readonly conditions?: readonly PodCondition[]
    readonly containerStatuses?: readonly ContainerStatus[]
  }
}

export interface Deployment extends KubernetesObject {
  readonly spec: {
    readonly replicas?: number
    readonly selector: { readonly matchLabels?: Readonly<Record<string, string>> }
    readonly template: { readonly metadata?: Partial<ObjectMeta>; readonly spec: PodSpec }
  }
  readonly status?: {
    readonly replicas?: number
    readonly readyReplicas?: number
    readonly updatedReplicas?: number
    readonly availableReplicas?: number
  }
}
