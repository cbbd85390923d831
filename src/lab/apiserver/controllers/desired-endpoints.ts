import { familyOf, parseIp } from '../../../net/ip.ts'
import type { IpFamily } from '../../../net/family.ts'
import type { Service, SliceEndpoint, SlicePort } from '../../../kubernetes/objects.ts'
import type { ApiObject, Mutable } from '../json.ts'
import { isHeadless } from '../service-defaults.ts'
import { asPod, isFinished, isReady, isTerminating, podIps, resolveTargetPort } from './pods.ts'

/** Endpoints that share one list of ports and one family: what may be in one slice. */
export interface EndpointGroup {
  readonly family: IpFamily
  readonly ports: readonly SlicePort[]
  /** By address, in the order of pod names. */
  readonly endpoints: ReadonlyMap<string, SliceEndpoint>
}

/** What the slices of a Service should hold, given the pods it selects and the zone of each node. */
export function desiredEndpoints(
  service: Service,
  pods: readonly ApiObject[],
  zoneOf: (node: string) => string | null,
): EndpointGroup[] {
  const groups = new Map<string, EndpointGroup & { endpoints: Map<string, SliceEndpoint> }>()
  for (const family of (service.spec.ipFamilies ?? ['IPv4']) as IpFamily[]) {
    let any = false
    for (const object of pods) {
      const ip = podIps(object).find((each) => familyIs(each, family))
      if (ip === undefined || isFinished(asPod(object))) continue
      any = true
      const ports = portsFor(service, object)
      const key = `${family} ${JSON.stringify(ports)}`
      const group = groups.get(key) ?? { family, ports, endpoints: new Map<string, SliceEndpoint>() }
      groups.set(key, group)
      group.endpoints.set(ip, endpointFor(service, object, ip, zoneOf))
    }
    if (!any) groups.set(family, { family, ports: [], endpoints: new Map() })
  }
  return [...groups.values()]
}

function familyIs(text: string, family: IpFamily): boolean {
  const ip = parseIp(text)
  return ip !== null && familyOf(ip) === family
}

function portsFor(service: Service, object: ApiObject): SlicePort[] {
  const pod = asPod(object)
  return (service.spec.ports ?? []).flatMap((spec) => {
    const port = resolveTargetPort(pod, spec)
    if (port === null) return []
    const { name = '', protocol = 'TCP', appProtocol } = spec
    return [{ name, protocol, port, ...(appProtocol === undefined ? {} : { appProtocol }) }]
  })
}

function endpointFor(
  service: Service,
  object: ApiObject,
  ip: string,
  zoneOf: (node: string) => string | null,
): SliceEndpoint {
  const pod = asPod(object)
  const { name, namespace, uid } = pod.metadata
  const terminating = isTerminating(pod)
  const serving = isReady(pod)
  const ready = service.spec.publishNotReadyAddresses === true || (serving && !terminating)
  const { nodeName, hostname, subdomain } = pod.spec ?? {}
  const zone = nodeName === undefined ? null : zoneOf(nodeName)
  const endpoint: Mutable<SliceEndpoint> = { addresses: [ip], conditions: { ready, serving, terminating } }
  if (nodeName !== undefined) endpoint.nodeName = nodeName
  if (zone !== null) endpoint.zone = zone
  if (hostname !== undefined && subdomain === service.metadata.name) endpoint.hostname = hostname
  endpoint.targetRef = {
    kind: 'Pod',
    name,
    ...(namespace === undefined ? {} : { namespace }),
    ...(uid === undefined ? {} : { uid }),
  }
  const hints = ready ? hintsFor(service, nodeName ?? null, zone) : {}
  if (Object.keys(hints).length > 0) endpoint.hints = hints
  return endpoint
}

/** KEP-4444 and KEP-3015: who prefers its node also prefers its zone, for where the node has none. */
function hintsFor(
  { spec }: Service,
  node: string | null,
  zone: string | null,
): Mutable<NonNullable<SliceEndpoint['hints']>> {
  const wish = spec.trafficDistribution
  if (wish !== 'PreferClose' && wish !== 'PreferSameZone' && wish !== 'PreferSameNode') return {}
  return {
    ...(zone === null ? {} : { forZones: [{ name: zone }] }),
    ...(wish === 'PreferSameNode' && node !== null ? { forNodes: [{ name: node }] } : {}),
  }
}

/** Labels of a Service's slices: the Service's own, and those that tie the slice to it. */
export function sliceLabels(service: Service): Record<string, string> {
  return {
    ...service.metadata.labels,
    ...(isHeadless(service) ? { 'service.kubernetes.io/headless': '' } : {}),
    'kubernetes.io/service-name': service.metadata.name,
    'endpointslice.kubernetes.io/managed-by': MANAGED_BY,
  }
}

/** Value of the managed-by label of slices that the controller owns; others it leaves alone. */
export const MANAGED_BY = 'endpointslice-controller.k8s.io'
