import { cidrContains } from '../net/cidr.ts'
import type { Ip } from '../net/ip.ts'
import { isLoopback } from '../net/ip.ts'
import type { Packet } from '../net/packet.ts'
import type { Decision, OutcomeDestination } from './decision.ts'
import type {
  Destination,
  Frontend,
  LocalDetector,
  NodeView,
  ServiceMap,
  ServicePort,
} from './service-map.ts'
import { poolOf } from './service-map.ts'
import { admits } from './source-ranges.ts'

/** Where proxies may differ; every mode's traits fit. */
export interface DecideTraits {
  /** Node ports answer on 127.0.0.1. */
  readonly loopbackNodePorts: boolean
  /** What an unused port of a known ClusterIP gives. */
  readonly unusedClusterIpPort: 'REJECT' | 'NONE'
  /** What an unused address of a known Service range gives. */
  readonly unknownServiceIp: 'DROP' | 'NONE'
  /** Which check comes first for a blocked source of a Service without endpoints. */
  readonly sourceRangesBeforeEndpoints: boolean
}

/** Upstream's iptables mode, which the base expectations of test/cases/flows.md describe. */
export const IPTABLES_TRAITS: DecideTraits = Object.freeze({
  loopbackNodePorts: true,
  unusedClusterIpPort: 'NONE',
  unknownServiceIp: 'NONE',
  sourceRangesBeforeEndpoints: false,
})

/** Upstream's nftables mode. */
export const NFTABLES_TRAITS: DecideTraits = Object.freeze({
  loopbackNodePorts: false,
  unusedClusterIpPort: 'REJECT',
  unknownServiceIp: 'DROP',
  sourceRangesBeforeEndpoints: true,
})

/**
 * What the proxy does with the first packet of a flow, by the rules of Kubernetes alone: the reference that every
 * mode's trace and real packets are compared with.
 */
export function decide(map: ServiceMap, packet: Packet, traits: DecideTraits = IPTABLES_TRAITS): Decision {
  const hit = findFrontend(map, packet, traits)
  if (hit === null) return decideUnclaimed(map, packet, traits)
  const { port, frontend } = hit
  const reasons = [`${target(packet)} is ${describe(frontend)} of ${port.id}.`]
  const client = classify(packet, map.node)
  reasons.push(client.reason)
  const end = (verdict: 'DROP' | 'REJECT', reason: string): Decision => {
    reasons.push(reason)
    return { verdict, destinations: [], sticky: false, service: port.id, frontend, reasons }
  }
  const shortCircuit =
    port.externalPolicyLocal && frontend.kind !== 'ClusterIP' && client.from !== 'elsewhere'
  const destination = client.from === 'elsewhere' ? frontend.fromAnywhere : frontend.fromThisNode
  const blocked = frontend.sourceRanges !== null && !admits(frontend.sourceRanges, packet.source)
  const refused = destination.kind === 'reject'
  if (blocked && (traits.sourceRangesBeforeEndpoints || !refused)) {
    return end('DROP', `${packet.source} is in none of the Service's source ranges.`)
  }
  if (refused) return end('REJECT', 'The Service has no usable endpoint anywhere.')
  if (destination.kind === 'drop') {
    return end('DROP', 'The traffic policy is Local, and every usable endpoint is on another node.')
  }
  if (shortCircuit) reasons.push('The external traffic policy Local does not bind clients on this node.')
  return forward(port, frontend, destination, packet, { ...client, shortCircuit }, map.node, reasons)
}

interface Client {
  readonly from: 'pod' | 'process' | 'elsewhere'
  readonly reason: string
}

/** Tells pods and processes of this node from all others; in doubt a client is one from elsewhere. */
function classify(packet: Packet, node: NodeView): Client {
  if (isLocalPod(packet, node.detectLocal)) {
    return {
      from: 'pod',
      reason: `${packet.source} counts as a pod of this node (${evidence(node.detectLocal)}).`,
    }
  }
  if (packet.origin === 'local' || isLoopback(packet.source) || node.localIps.includes(packet.source)) {
    return { from: 'process', reason: `${packet.source} is a process of this node.` }
  }
  return { from: 'elsewhere', reason: `${packet.source} is neither a pod nor a process of this node.` }
}

function isLocalPod(packet: Packet, detector: LocalDetector): boolean {
  switch (detector.by) {
    case 'source-cidr':
      return cidrContains(detector.cidr, packet.source)
    case 'interface':
      return packet.inputInterface === detector.name
    case 'interface-prefix':
      return packet.inputInterface?.startsWith(detector.prefix) === true
    case 'none':
      return false
  }
}

function evidence(detector: LocalDetector): string {
  switch (detector.by) {
    case 'source-cidr':
      return `its address is in ${detector.cidr}`
    case 'interface':
      return `it came in on ${detector.name}`
    case 'interface-prefix':
      return `it came in on ${detector.prefix}*`
    case 'none':
      return 'nothing'
  }
}

function forward(
  port: ServicePort,
  frontend: Frontend,
  destination: Extract<Destination, { kind: 'endpoints' }>,
  packet: Packet,
  client: Client & { readonly shortCircuit: boolean },
  node: NodeView,
  reasons: string[],
): Decision {
  const { masquerade, reason } = masquerades(frontend, client, node)
  const destinations = poolOf(port, destination.pool).endpoints.map((endpoint): OutcomeDestination => {
    // A received packet for a process of this node never reaches postrouting, where sources change.
    const staysHere = packet.origin === 'received' && node.localIps.includes(endpoint.ip)
    return { endpoint, masquerade: !staysHere && (masquerade || endpoint.ip === packet.source) }
  })
  const draining = poolOf(port, destination.pool).endpoints.some(({ state }) => state === 'terminating')
  if (draining) reasons.push('No endpoint is ready, so those that still serve while terminating are used.')
  reasons.push(
    destination.pool === 'local'
      ? 'The traffic policy is Local: only endpoints of this node may be chosen.'
      : 'Any endpoint of the cluster may be chosen.',
    reason,
  )
  if (!masquerade && destinations.some((to) => to.masquerade)) {
    reasons.push(
      'Where the client itself is chosen, the source becomes the node, or the client would answer itself.',
    )
  }
  const sticky = port.affinitySeconds !== null
  if (sticky) reasons.push(`Flows of one client go to one endpoint for ${port.affinitySeconds} s.`)
  return { verdict: 'FORWARD', destinations, sticky, service: port.id, frontend, reasons }
}

function masquerades(
  frontend: Frontend,
  client: Client & { readonly shortCircuit: boolean },
  node: NodeView,
): { readonly masquerade: boolean; readonly reason: string } {
  switch (frontend.masquerade) {
    case 'always':
      return {
        masquerade: true,
        reason:
          frontend.kind === 'ClusterIP'
            ? 'The source becomes the node, because masqueradeAll is set.'
            : 'The source becomes the node, because the external traffic policy is Cluster.',
      }
    case 'off-cluster-sources':
      return client.from === 'pod'
        ? { masquerade: false, reason: 'The source is kept: it is a pod.' }
        : { masquerade: true, reason: 'The source becomes the node, because it is no pod of the cluster.' }
    case 'never':
      if (client.shortCircuit && client.from === 'process') {
        return {
          masquerade: true,
          reason: 'The source becomes the node: a process of it may have any of its addresses.',
        }
      }
      return { masquerade: false, reason: keptReason(frontend, node) }
  }
}

function keptReason(frontend: Frontend, node: NodeView): string {
  return frontend.kind === 'ClusterIP' && node.detectLocal.by === 'none'
    ? 'The source is kept: nothing tells pods from other clients here.'
    : 'The source is kept, because the external traffic policy is Local.'
}

interface Hit {
  readonly port: ServicePort
  readonly frontend: Frontend
}

/** An exact address goes before a node port. */
function findFrontend(map: ServiceMap, packet: Packet, traits: DecideTraits): Hit | null {
  const exact = lookUp(map, packet.destination, packet)
  if (exact !== null) return exact
  return servesNodePorts(map.node, packet.destination, traits)
    ? lookUp(map, 'any-node-port-address', packet)
    : null
}

function lookUp(map: ServiceMap, ip: Frontend['ip'], { port, protocol }: Packet): Hit | null {
  const matches = (frontend: Frontend): boolean => frontend.ip === ip && frontend.port === port
  if (map.index !== undefined) {
    const owner = map.index.ownerOf(ip, port, protocol)
    const found = owner === null ? undefined : map.ports.get(owner)
    const frontend = found?.frontends.find(matches)
    return found === undefined || frontend === undefined ? null : { port: found, frontend }
  }
  for (const candidate of map.ports.values()) {
    if (candidate.protocol !== protocol) continue
    const frontend = candidate.frontends.find(matches)
    if (frontend !== undefined) return { port: candidate, frontend }
  }
  return null
}

/** True if node ports are served on this address. IPv6 loopback never serves them. */
function servesNodePorts(node: NodeView, ip: Ip, traits: DecideTraits): boolean {
  const selected = node.nodePortAddresses
  if (!isLoopback(ip))
    return selected === 'any-local' ? node.localIps.includes(ip) : node.nodePortIps.includes(ip)
  if (!traits.loopbackNodePorts || node.family === 'IPv6') return false
  if (selected === 'any-local') return true
  return !('primary' in selected) && admits(selected, ip)
}

/** A packet to nobody's frontend. */
function decideUnclaimed(map: ServiceMap, packet: Packet, traits: DecideTraits): Decision {
  const { node } = map
  const plain = { destinations: [], sticky: false, service: null, frontend: null }
  if (isHealthCheck(map, packet)) {
    const reasons = [
      `${target(packet)} is the health check port of a Service; the proxy answers it on this node.`,
    ]
    return { ...plain, verdict: 'ACCEPT_LOCAL', reasons }
  }
  const nobody = `No Service has ${target(packet)}.`
  if (isClusterIp(map, packet.destination)) {
    if (traits.unusedClusterIpPort === 'NONE') return { ...plain, verdict: 'NONE', reasons: [nobody] }
    const reasons = [nobody, 'The address is a cluster IP with other ports, so the packet is refused.']
    return { ...plain, verdict: 'REJECT', reasons }
  }
  if (traits.unknownServiceIp === 'DROP' && admits(node.serviceCidrs, packet.destination)) {
    const reasons = [nobody, 'The address is in a Service range and nobody has it, so the packet is dropped.']
    return { ...plain, verdict: 'DROP', reasons }
  }
  return { ...plain, verdict: 'NONE', reasons: [nobody, 'The proxy leaves the packet alone.'] }
}

function isHealthCheck(map: ServiceMap, { destination, port, protocol }: Packet): boolean {
  if (protocol !== 'TCP' || !(isLoopback(destination) || map.node.localIps.includes(destination)))
    return false
  if (map.node.nodePortAddresses !== 'any-local' && !map.node.nodePortIps.includes(destination)) return false
  for (const health of map.health.values()) if (health.port === port) return true
  return false
}

function isClusterIp(map: ServiceMap, ip: Ip): boolean {
  for (const { frontends } of map.ports.values()) {
    if (frontends.some((frontend) => frontend.kind === 'ClusterIP' && frontend.ip === ip)) return true
  }
  return false
}

function target({ destination, port, protocol }: Packet): string {
  return `${destination.includes(':') ? `[${destination}]` : destination}:${port} ${protocol}`
}

function describe({ kind }: Frontend): string {
  switch (kind) {
    case 'ClusterIP':
      return 'the cluster IP'
    case 'ExternalIP':
      return 'an external IP'
    case 'LoadBalancer':
      return 'a load-balancer IP'
    case 'NodePort':
      return 'a node port'
  }
}
