import type { EndpointSlice, KubernetesObject, Node } from '../../kubernetes/objects.ts'
import type { Cidr } from '../../net/cidr.ts'
import { cidrContains, parseCidr } from '../../net/cidr.ts'
import type { Ip } from '../../net/ip.ts'
import { familyOf, isLoopback, parseIp } from '../../net/ip.ts'
import type { Protocol } from '../../net/protocol.ts'
import { parseProtocol } from '../../net/protocol.ts'
import type { ListenSocket } from './protocol.ts'

/** The namespaces of a packet test: each is one place of the network around the node under test. */
export type PlaceName =
  /** The node under test: its own addresses, processes, and the proxy. */
  | 'node'
  /** The pods of this node, and one more that is only a client. */
  | 'pods'
  | 'client'
  /** Other nodes and their pods, and one more pod that is only a client. */
  | 'remote'
  | 'visitor'
  /** Clients outside the cluster. */
  | 'outside'
  /** Where every other destination is: it catches what the proxy left alone. */
  | 'beyond'

export const PLACES: readonly PlaceName[] = [
  'node',
  'pods',
  'client',
  'remote',
  'visitor',
  'outside',
  'beyond',
]

/** A packet to be sent, by the words of test/cases/flows.md. */
export interface PlannedPacket {
  readonly client: string
  readonly source: Ip
  readonly destination: Ip
  readonly port: number
  readonly protocol: Protocol
  /** Further clients at the source's place, of whom the same is expected; affinity gives each an endpoint of its own. */
  readonly others: readonly Ip[]
  /** A health check port of the proxy: the destination must be left for the agent to listen on. */
  readonly answeredByAgent: boolean
}

/** The network that a fixture's objects describe. */
export interface NetworkPlan {
  /** Addresses of the node's interfaces, loopback left out. */
  readonly nodeAddresses: readonly Ip[]
  /** Addresses of each place but the node, besides those of clients. */
  readonly addresses: Readonly<Record<'pods' | 'remote', readonly Ip[]>>
  /** Every endpoint, ready or not: a wrong choice must be seen, too. */
  readonly listeners: readonly (ListenSocket & { readonly ip: Ip; readonly place: PlaceName })[]
  readonly podCidrs: readonly Cidr[]
}

/** Reads the places of all addresses from Nodes and EndpointSlices. */
export function planNetwork(
  objects: readonly unknown[],
  nodeName: string,
  localAddresses: readonly Ip[],
): NetworkPlan {
  const nodes = objects.filter((object) => kindOf(object) === 'Node') as readonly Node[]
  const slices = objects.filter((object) => kindOf(object) === 'EndpointSlice') as readonly EndpointSlice[]
  const own = nodes.find(({ metadata }) => metadata.name === nodeName)
  const podCidrs = (own?.spec?.podCIDRs ?? []).map((text) => parseCidr(text)).filter((cidr) => cidr !== null)
  const nodeAddresses = localAddresses.filter((ip) => !isLoopback(ip))
  const placeOf = (ip: Ip): PlaceName => {
    if (nodeAddresses.includes(ip)) return 'node'
    return podCidrs.some((cidr) => cidrContains(cidr, ip)) ? 'pods' : 'remote'
  }
  const listeners = [...endpointSockets(slices).values()].map((socket) => ({
    ...socket,
    place: placeOf(socket.ip),
  }))
  const otherNodes = nodes
    .filter(({ metadata }) => metadata.name !== nodeName)
    .flatMap(({ status }) => (status?.addresses ?? []).map(({ address }) => parseIp(address)))
    .filter((ip) => ip !== null)
  const at = (place: PlaceName): readonly Ip[] => listeners.flatMap((l) => (l.place === place ? [l.ip] : []))
  return {
    nodeAddresses,
    addresses: { pods: unique(at('pods')), remote: unique([...otherNodes, ...at('remote')]) },
    listeners,
    podCidrs,
  }
}

/** Every address of a Service's slices with every port of them, so that a mixed-up pair is answered and seen. */
function endpointSockets(
  slices: readonly EndpointSlice[],
): ReadonlyMap<string, ListenSocket & { readonly ip: Ip }> {
  const sockets = new Map<string, ListenSocket & { readonly ip: Ip }>()
  for (const slice of slices) {
    const service = serviceOf(slice)
    const ports = slices.filter((other) => serviceOf(other) === service).flatMap((other) => other.ports ?? [])
    const ips = (slice.endpoints ?? [])
      .flatMap(({ addresses }) => addresses.map((address) => parseIp(address)))
      .filter((ip) => ip !== null)
    for (const { protocol: name, port } of ports) {
      const protocol = parseProtocol(name)
      if (port === null || port === undefined || protocol === null) continue
      for (const ip of ips) sockets.set(`${ip} ${protocol} ${port}`, { ip, protocol, port })
    }
  }
  return sockets
}

function serviceOf({ metadata }: EndpointSlice): string {
  return `${metadata.namespace ?? 'default'}/${metadata.labels?.['kubernetes.io/service-name'] ?? ''}`
}

function kindOf(object: unknown): string {
  return (object as KubernetesObject | null)?.kind ?? ''
}

/** The place a packet starts from. */
export function placeOfClient(packet: PlannedPacket, plan: NetworkPlan): PlaceName {
  const { client, source } = packet
  if (plan.nodeAddresses.includes(source) || isLoopback(source) || client === 'lb-as-source') return 'node'
  for (const place of ['pods', 'remote'] as const) if (plan.addresses[place].includes(source)) return place
  if (client.startsWith('local-pod') || client === 'endpoint-pod') return 'client'
  return client === 'remote-pod' ? 'visitor' : 'outside'
}

/** The place that a packet reaches if the proxy leaves it alone. */
export function placeOfDestination({ destination }: PlannedPacket, plan: NetworkPlan): PlaceName {
  if (plan.nodeAddresses.includes(destination) || isLoopback(destination)) return 'node'
  if (plan.addresses.remote.includes(destination)) return 'remote'
  const isPod = plan.podCidrs.some((cidr) => cidrContains(cidr, destination))
  return isPod ? 'pods' : 'beyond'
}

export function unique<T>(list: readonly T[]): readonly T[] {
  return [...new Set(list)]
}

/** `10.0.0.1/32`, `fd00::1/128`. */
export function hostPrefix(ip: Ip): string {
  return `${ip}/${familyOf(ip) === 'IPv6' ? 128 : 32}`
}
