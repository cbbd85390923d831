import type { ApiObject } from '../json.ts'
import { listOf, textOf, valueAt } from '../json.ts'
import type { ContainerPort, Pod } from '../kinds.ts'
import type { ServicePortSpec } from '../../../kubernetes/objects.ts'

export function asPod(object: ApiObject): Pod {
  return object as unknown as Pod
}

export function isTerminating({ metadata }: Pod): boolean {
  return metadata.deletionTimestamp !== undefined
}

export function isReady({ status }: Pod): boolean {
  return status?.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True') === true
}

/** True once it will never run again. */
export function isFinished({ status }: Pod): boolean {
  return status?.phase === 'Succeeded' || status?.phase === 'Failed'
}

/** The pod's addresses, in its own order. */
export function podIps(object: ApiObject): string[] {
  const all = listOf<{ ip: string }>(valueAt(object, 'status.podIPs')).map(({ ip }) => ip)
  const one = textOf(valueAt(object, 'status.podIP'))
  return all.length > 0 || one === '' ? all : [one]
}

/** The number that a Service port leads to on this pod; null when the pod has no port of that name. */
export function resolveTargetPort(pod: Pod, { port, targetPort, protocol }: ServicePortSpec): number | null {
  if (targetPort === undefined || targetPort === 0 || targetPort === '') return port
  if (typeof targetPort === 'number') return targetPort
  const containers = [...(pod.spec?.containers ?? []), ...(pod.spec?.initContainers ?? [])]
  const ports = containers.flatMap((container): readonly ContainerPort[] => container.ports ?? [])
  const match = ports.find(
    (each) => each.name === targetPort && (each.protocol ?? 'TCP') === (protocol ?? 'TCP'),
  )
  return match?.containerPort ?? null
}
