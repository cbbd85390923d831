import type { KubernetesObject } from '../../kubernetes/objects.ts'

/** The parts of a Pod that the lab's kubelet reads. */
export interface Pod extends KubernetesObject {
  readonly metadata: KubernetesObject['metadata'] & { readonly deletionGracePeriodSeconds?: number }
  readonly spec: PodSpec
  readonly status?: {
    readonly phase?: string
    readonly podIPs?: readonly { readonly ip: string }[]
    readonly conditions?: readonly { readonly type: string; readonly status: string }[]
  }
}

export interface PodSpec {
  readonly nodeName?: string
  readonly hostNetwork?: boolean
  readonly terminationGracePeriodSeconds?: number
  readonly nodeSelector?: Readonly<Record<string, string>>
  readonly containers: readonly Container[]
}

export interface Container {
  readonly name: string
  readonly image: string
  readonly ports?: readonly { readonly containerPort: number; readonly protocol?: string }[]
}

/** Path of an object or (without `name`) of a namespace's collection. */
export function podPath(namespace: string, name?: string): string {
  return `/api/v1/namespaces/${namespace}/pods${name === undefined ? '' : `/${name}`}`
}

export function isReady(pod: Pod): boolean {
  return pod.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ?? false
}
