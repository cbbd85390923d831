import type { Service } from '../../kubernetes/objects.ts'
import type { ApiObject, Mutable } from './json.ts'
import { equal } from './json.ts'

export type WritableService = Mutable<Service>

export function asService(object: ApiObject): WritableService {
  const service = object as unknown as WritableService
  service.spec ??= {}
  return service
}

/** True for what is dialled from outside, where externalTrafficPolicy means something. */
export function externallyAccessible({ spec }: Service): boolean {
  return (
    spec.type === 'LoadBalancer' ||
    spec.type === 'NodePort' ||
    (spec.type === 'ClusterIP' && (spec.externalIPs?.length ?? 0) > 0)
  )
}

export function usesNodePorts({ spec }: Service): boolean {
  if (spec.type === 'NodePort') return true
  return spec.type === 'LoadBalancer' && spec.allocateLoadBalancerNodePorts !== false
}

export function needsHealthCheckNodePort({ spec }: Service): boolean {
  return spec.type === 'LoadBalancer' && spec.externalTrafficPolicy === 'Local'
}

export function isHeadless({ spec }: Service): boolean {
  return spec.clusterIP === 'None' || spec.clusterIPs?.[0] === 'None'
}

/** Fills in what a Service leaves out and, on an update, what it keeps or must give up with its type. */
export function prepareService(object: ApiObject, old: ApiObject | null): void {
  const service = asService(object)
  const { spec } = service
  spec.type ??= 'ClusterIP'
  if (old !== null) {
    keepAllocated(service, old as unknown as Service)
    dropWithType(service, old as unknown as Service)
  }
  spec.sessionAffinity ??= 'None'
  if (spec.sessionAffinity === 'None') delete spec.sessionAffinityConfig
  if (spec.sessionAffinity === 'ClientIP') {
    spec.sessionAffinityConfig ??= {}
    spec.sessionAffinityConfig.clientIP ??= {}
    spec.sessionAffinityConfig.clientIP.timeoutSeconds ??= 10_800
  }
  for (const port of Array.isArray(spec.ports) ? spec.ports : []) {
    port.protocol ??= 'TCP'
    if (port.targetPort === undefined || port.targetPort === 0 || port.targetPort === '')
      port.targetPort = port.port
  }
  if (spec.type !== 'ExternalName') spec.internalTrafficPolicy ??= 'Cluster'
  if (externallyAccessible(service)) spec.externalTrafficPolicy ??= 'Cluster'
  if (spec.type === 'LoadBalancer') spec.allocateLoadBalancerNodePorts ??= true
  if (spec.clusterIP === undefined && spec.clusterIPs?.[0] !== undefined) spec.clusterIP = spec.clusterIPs[0]
}

/** An update that leaves out addresses and node ports keeps them: who applies a manifest never names them. */
function keepAllocated({ spec }: WritableService, { spec: old }: Service): void {
  const wasCluster = old.type !== 'ExternalName'
  if (spec.type !== 'ExternalName' && wasCluster) {
    if ((spec.clusterIP ?? '') === '' && (spec.clusterIPs?.length ?? 0) === 0) {
      if (old.clusterIP !== undefined) spec.clusterIP = old.clusterIP
      if (old.clusterIPs !== undefined) spec.clusterIPs = [...old.clusterIPs]
    } else if (
      spec.clusterIP === old.clusterIP &&
      (spec.clusterIPs?.length ?? 0) === 0 &&
      old.clusterIPs !== undefined
    ) {
      spec.clusterIPs = [...old.clusterIPs]
    }
    spec.ipFamilyPolicy ??= old.ipFamilyPolicy!
    spec.ipFamilies ??= [...(old.ipFamilies ?? [])]
    if (spec.ipFamilyPolicy === 'SingleStack' && old.ipFamilyPolicy !== 'SingleStack')
      dropSecondFamily(spec, old)
  }
  for (const port of Array.isArray(spec.ports) ? spec.ports : []) {
    const before = old.ports?.find(
      (each) => each.port === port.port && (each.protocol ?? 'TCP') === (port.protocol ?? 'TCP'),
    )
    const nodePorts = spec.type === 'NodePort' || spec.type === 'LoadBalancer'
    if (nodePorts && before?.nodePort !== undefined) port.nodePort ??= before.nodePort
  }
  if (
    spec.type === 'LoadBalancer' &&
    old.healthCheckNodePort !== undefined &&
    spec.externalTrafficPolicy === 'Local'
  ) {
    spec.healthCheckNodePort ??= old.healthCheckNodePort
  }
}

/** From dual to single stack: the secondary family goes, unless the client says something else about it. */
function dropSecondFamily(spec: WritableService['spec'], old: Service['spec']): void {
  if (equal(spec.ipFamilies, old.ipFamilies)) spec.ipFamilies = spec.ipFamilies?.slice(0, 1) ?? []
  if (equal(spec.clusterIPs, old.clusterIPs)) spec.clusterIPs = spec.clusterIPs?.slice(0, 1) ?? []
}

/** What the old type had and the new one cannot have goes, unless the client asks for it (validation then refuses). */
function dropWithType(service: WritableService, { spec: old }: Service): void {
  const { spec } = service
  if (spec.type === 'ExternalName' && old.type !== 'ExternalName') {
    if (spec.clusterIP === old.clusterIP) {
      delete spec.clusterIP
      delete spec.clusterIPs
    }
    delete spec.ipFamilies
    delete spec.ipFamilyPolicy
    if (spec.internalTrafficPolicy === old.internalTrafficPolicy) delete spec.internalTrafficPolicy
  }
  if (!['NodePort', 'LoadBalancer'].includes(spec.type ?? '')) {
    for (const port of spec.ports ?? []) {
      if (old.ports?.some((each) => each.nodePort === port.nodePort)) delete port.nodePort
    }
  }
  if (spec.type !== 'LoadBalancer' && old.type === 'LoadBalancer') {
    delete spec.allocateLoadBalancerNodePorts
    delete (spec as { loadBalancerClass?: string }).loadBalancerClass
    if (service.status !== undefined) service.status.loadBalancer = {}
  }
  if (!needsHealthCheckNodePort(service) && spec.healthCheckNodePort === old.healthCheckNodePort) {
    delete spec.healthCheckNodePort
  }
  if (!externallyAccessible(service) && spec.externalTrafficPolicy === old.externalTrafficPolicy) {
    delete spec.externalTrafficPolicy
  }
}
