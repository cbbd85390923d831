import type { Deployment, Pod } from './kinds.ts'
import type { EndpointSlice, Node, Service, ServiceCIDR } from '../../kubernetes/objects.ts'
import { age } from './age.ts'
import { lastSeen } from './event-versions.ts'
import type { ApiObject } from './json.ts'
import { dictOf, listOf, textOf, valueAt } from './json.ts'
import type { ResourceType } from './resources.ts'
import type { Column } from './table.ts'

const NONE = '<none>'

const NAME: Column = { name: 'Name', cell: ({ metadata }) => metadata.name }
const AGE: Column = { name: 'Age', cell: ({ metadata }, now) => age(metadata.creationTimestamp, now) }

/** Columns of `kubectl get` for each resource, as people know them. */
const COLUMNS: Readonly<Record<string, readonly Column[]>> = {
  configmaps: [
    NAME,
    {
      name: 'Data',
      cell: (map) => Object.keys({ ...dictOf(map['data']), ...dictOf(map['binaryData']) }).length,
    },
    AGE,
  ],
  namespaces: [
    NAME,
    { name: 'Status', cell: (namespace) => textOf(valueAt(namespace, 'status.phase')) },
    AGE,
  ],
  services: [
    NAME,
    { name: 'Type', cell: service((it) => it.spec.type ?? 'ClusterIP') },
    { name: 'Cluster-IP', cell: service(({ spec }) => spec.clusterIP || spec.clusterIPs?.[0] || NONE) },
    { name: 'External-IP', cell: service(externalIps) },
    { name: 'Port(s)', cell: service(servicePorts) },
    AGE,
    { name: 'Selector', wide: true, cell: service(({ spec }) => pairs(spec.selector)) },
  ],
  endpointslices: [
    NAME,
    { name: 'AddressType', cell: slice((it) => it.addressType) },
    {
      name: 'Ports',
      cell: slice((it) => some(listOf<{ port?: number }>(it.ports).map(({ port }) => port ?? '*'))),
    },
    {
      name: 'Endpoints',
      cell: slice((it) =>
        some(listOf<{ addresses: string[] }>(it.endpoints).flatMap(({ addresses }) => addresses)),
      ),
    },
    AGE,
  ],
  nodes: [
    NAME,
    { name: 'Status', cell: node(nodeStatus) },
    { name: 'Roles', cell: node(nodeRoles) },
    AGE,
    { name: 'Version', cell: (it) => textOf(valueAt(it, 'status.nodeInfo.kubeletVersion')) || '<unknown>' },
    { name: 'Internal-IP', wide: true, cell: node(nodeAddress('InternalIP')) },
    { name: 'External-IP', wide: true, cell: node(nodeAddress('ExternalIP')) },
    {
      name: 'OS-Image',
      wide: true,
      cell: (it) => textOf(valueAt(it, 'status.nodeInfo.osImage')) || '<unknown>',
    },
    {
      name: 'Kernel-Version',
      wide: true,
      cell: (it) => textOf(valueAt(it, 'status.nodeInfo.kernelVersion')) || '<unknown>',
    },
    {
      name: 'Container-Runtime',
      wide: true,
      cell: (it) => textOf(valueAt(it, 'status.nodeInfo.containerRuntimeVersion')) || '<unknown>',
    },
  ],
  pods: [
    NAME,
    { name: 'Ready', cell: pod(readyContainers) },
    { name: 'Status', cell: pod(podStatus) },
    {
      name: 'Restarts',
      cell: pod((it) => sum(it.status?.containerStatuses?.map((each) => each.restartCount ?? 0))),
    },
    AGE,
    { name: 'IP', wide: true, cell: pod((it) => it.status?.podIPs?.[0]?.ip ?? it.status?.podIP ?? NONE) },
    { name: 'Node', wide: true, cell: pod((it) => it.spec.nodeName ?? NONE) },
    { name: 'Nominated Node', wide: true, cell: () => NONE },
    { name: 'Readiness Gates', wide: true, cell: () => NONE },
  ],
  deployments: [
    NAME,
    { name: 'Ready', cell: deployment((it) => `${it.status?.readyReplicas ?? 0}/${it.spec.replicas ?? 1}`) },
    { name: 'Up-to-date', cell: deployment((it) => it.status?.updatedReplicas ?? 0) },
    { name: 'Available', cell: deployment((it) => it.status?.availableReplicas ?? 0) },
    AGE,
    {
      name: 'Containers',
      wide: true,
      cell: deployment((it) =>
        some(listOf<{ name: string }>(it.spec.template.spec.containers).map(({ name }) => name)),
      ),
    },
    {
      name: 'Images',
      wide: true,
      cell: deployment((it) =>
        some(listOf<{ image?: string }>(it.spec.template.spec.containers).map(({ image }) => image ?? '')),
      ),
    },
    { name: 'Selector', wide: true, cell: deployment((it) => pairs(it.spec.selector.matchLabels)) },
  ],
  leases: [NAME, { name: 'Holder', cell: (lease) => textOf(valueAt(lease, 'spec.holderIdentity')) }, AGE],
  servicecidrs: [
    NAME,
    { name: 'CIDRs', cell: (it) => ((it as unknown as ServiceCIDR).spec?.cidrs ?? []).join(',') },
    AGE,
  ],
  events: [
    { name: 'Last Seen', cell: (event, now) => age(lastSeen(event), now) },
    { name: 'Type', cell: (event) => textOf(event['type']) },
    { name: 'Reason', cell: (event) => textOf(event['reason']) },
    { name: 'Object', cell: involved },
    {
      name: 'Source',
      wide: true,
      cell: (event) => textOf(valueAt(event, 'source.component')) || textOf(event['reportingComponent']),
    },
    { name: 'Message', cell: (event) => textOf(event['message']).trim() },
    {
      name: 'First Seen',
      wide: true,
      cell: (event, now) => age(textOf(event['firstTimestamp']) || textOf(event['eventTime']), now),
    },
    {
      name: 'Count',
      wide: true,
      cell: (event) => Number(valueAt(event, 'series.count') ?? event['count'] ?? 1),
    },
    { ...NAME, wide: true },
  ],
}

export function columnsOf(type: ResourceType): readonly Column[] {
  return COLUMNS[type.storage] ?? [NAME, AGE]
}

type Cell = Column['cell']

function service(read: (object: Service) => string): Cell {
  return (object) => read(object as unknown as Service)
}
function slice(read: (object: EndpointSlice) => string): Cell {
  return (object) => read(object as unknown as EndpointSlice)
}
function node(read: (object: Node) => string): Cell {
  return (object) => read(object as unknown as Node)
}
function pod(read: (object: Pod) => string | number): Cell {
  return (object) => read(object as unknown as Pod)
}
function deployment(read: (object: Deployment) => string | number): Cell {
  return (object) => read(object as unknown as Deployment)
}

function externalIps({ spec, status }: Service): string {
  if (spec.type === 'ExternalName') return spec.externalName || NONE
  const ingress = (status?.loadBalancer?.ingress ?? []).map(({ ip, hostname }) => ip ?? hostname ?? '')
  if (spec.type === 'LoadBalancer') {
    const all = [...ingress, ...(spec.externalIPs ?? [])]
    return all.length > 0 ? all.join(',') : '<pending>'
  }
  return (spec.externalIPs ?? []).join(',') || NONE
}

function servicePorts({ spec }: Service): string {
  const ports = (spec.ports ?? []).map(({ port, nodePort, protocol }) =>
    nodePort === undefined || nodePort === 0
      ? `${port}/${protocol ?? 'TCP'}`
      : `${port}:${nodePort}/${protocol ?? 'TCP'}`,
  )
  return ports.join(',') || NONE
}

function nodeStatus(it: Node): string {
  const conditions = listOf<{ type: string; status: string }>(valueAt(it, 'status.conditions'))
  const ready = conditions.find(({ type }) => type === 'Ready')
  const parts = [ready === undefined ? 'Unknown' : ready.status === 'True' ? 'Ready' : 'NotReady']
  if (valueAt(it, 'spec.unschedulable') === true) parts.push('SchedulingDisabled')
  return parts.join(',')
}

function nodeRoles(it: Node): string {
  const prefix = 'node-role.kubernetes.io/'
  const roles = Object.keys(it.metadata.labels ?? {}).filter((label) => label.startsWith(prefix))
  return (
    roles
      .map((label) => label.slice(prefix.length))
      .sort()
      .join(',') || NONE
  )
}

function nodeAddress(type: string): (it: Node) => string {
  return (it) => it.status?.addresses?.find((each) => each.type === type)?.address ?? NONE
}

function readyContainers(it: Pod): string {
  const statuses = it.status?.containerStatuses ?? []
  return `${statuses.filter(({ ready }) => ready === true).length}/${it.spec.containers.length}`
}

function podStatus(it: Pod): string {
  if (it.metadata.deletionTimestamp !== undefined) return 'Terminating'
  const waiting = it.status?.containerStatuses?.find(({ state }) => state?.waiting !== undefined)
  return waiting?.state?.waiting?.reason ?? it.status?.reason ?? it.status?.phase ?? 'Unknown'
}

function involved(event: ApiObject): string {
  const object = dictOf(event['involvedObject'])
  return `${textOf(object['kind']).toLowerCase()}/${textOf(object['name'])}`
}

/** The first three, and how many more, as kubectl shortens lists. */
function some(items: readonly (string | number)[]): string {
  if (items.length === 0) return '<unset>'
  const shown = items.slice(0, 3).join(',')
  return items.length > 3 ? `${shown} + ${items.length - 3} more...` : shown
}

function pairs(labels: Readonly<Record<string, string>> | undefined): string {
  const entries = Object.entries(labels ?? {})
  return (
    entries
      .map(([key, value]) => `${key}=${value}`)
      .sort()
      .join(',') || NONE
  )
}

function sum(numbers: readonly number[] | undefined): number {
  return (numbers ?? []).reduce((total, number) => total + number, 0)
}
