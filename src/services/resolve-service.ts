import type { ObjectProblem, ServiceBundle, ServiceRecord } from '../cluster/state.ts'
import type { Ip } from '../net/ip.ts'
import type { Port } from '../net/port.ts'
import type { Candidate } from './endpoints.ts'
import { categorise, mergeEndpoints } from './endpoints.ts'
import { compareIps } from './node-view.ts'
import type { Addresses, ReadPort } from './read-service.ts'
import { affinityOf, healthCheckPort, isSkipped, readAddresses, readPort } from './read-service.ts'
import type {
  Destination,
  Frontend,
  NodeView,
  ServiceHealth,
  ServicePort,
  ServicePortId,
} from './service-map.ts'
import { rangesForAddress } from './source-ranges.ts'

/** What one Service comes to in one family on this node, before conflicts with other Services are settled. */
export interface ResolvedService {
  /** Every port with all frontends that it claims. */
  readonly ports: readonly ServicePort[]
  readonly health: ServiceHealth | null
  readonly problems: readonly ObjectProblem[]
  /** `metadata.creationTimestamp`; settles conflicts. */
  readonly created: string
}

/** What NodeView fields a Service's resolution depends on; others may change without any port being rebuilt. */
export type ResolutionView = Pick<
  NodeView,
  'name' | 'family' | 'zone' | 'masqueradeAll' | 'detectLocal' | 'primaryIp'
>

/**
 * Applies every Kubernetes rule to one Service. Null if it is not for this proxy in this family: no Service object,
 * headless, ExternalName, labelled for another proxy, or without a cluster IP of the family.
 */
export function resolveService(bundle: ServiceBundle, node: ResolutionView): ResolvedService | null {
  const { service } = bundle
  if (service === null || isSkipped(service)) return null
  const addresses = readAddresses(service, node)
  if (addresses.clusterIp === null) {
    return addresses.problems.length === 0
      ? null
      : { ports: [], health: null, problems: addresses.problems, created: service.creationTimestamp }
  }
  const localReady = new Set<Ip>()
  const ports: ServicePort[] = []
  const healthPort = healthCheckPort(service, addresses.report)
  const affinitySeconds = affinityOf(service, addresses.report)
  for (const [i, record] of service.ports.entries()) {
    const port = readPort(record, i, addresses.report)
    if (port === null) continue
    const id = servicePortId(service, port.name)
    if (ports.some((other) => other.id === id)) {
      addresses.report(`spec.ports[${i}].name`, 'is used twice; the second port is left out')
      continue
    }
    const candidates = mergeEndpoints(bundle.slices, port, node)
    for (const { ip, isLocal, record: endpoint } of candidates)
      if (isLocal && endpoint.ready) localReady.add(ip)
    ports.push(
      resolvePort(service, { id, ...port, healthPort, affinitySeconds }, addresses, candidates, node),
    )
  }
  const health =
    healthPort === null
      ? null
      : Object.freeze({
          namespace: service.namespace,
          name: service.name,
          port: healthPort,
          localReadyIps: Object.freeze([...localReady].sort(compareIps)),
        })
  const problems = addresses.problems.length === 0 ? NO_PROBLEMS : addresses.problems
  return { ports, health, problems, created: service.creationTimestamp }
}

/** `namespace/name:port`, or `namespace/name` for the unnamed port. */
export function servicePortId(service: { namespace: string; name: string }, portName: string): ServicePortId {
  const key = `${service.namespace}/${service.name}`
  return (portName === '' ? key : `${key}:${portName}`) as ServicePortId
}

/** The Service (`namespace/name`) of a port. */
export function serviceKeyOf(id: ServicePortId): string {
  const colon = id.indexOf(':')
  return colon < 0 ? id : id.slice(0, colon)
}

type PortHead = ReadPort & {
  readonly id: ServicePortId
  readonly healthPort: Port | null
  readonly affinitySeconds: number | null
}

function resolvePort(
  service: ServiceRecord,
  head: PortHead,
  addresses: Addresses,
  candidates: readonly Candidate[],
  node: ResolutionView,
): ServicePort {
  const { cluster, local } = categorise(candidates, node)
  const isExternal =
    head.nodePort !== null || addresses.externalIps.length + addresses.loadBalancerIps.length > 0
  const internalPolicyLocal = service.internalTrafficPolicy === 'Local'
  const externalPolicyLocal =
    isExternal && service.externalTrafficPolicy === 'Local' && mayBeExternal(service)
  const inCluster: Destination = cluster.endpoints.length > 0 ? TO_CLUSTER : REJECT
  const onNode: Destination = local.endpoints.length > 0 ? TO_LOCAL : inCluster === REJECT ? REJECT : DROP
  return Object.freeze({
    id: head.id,
    namespace: service.namespace,
    name: service.name,
    portName: head.name,
    protocol: head.protocol,
    frontends: frontendsOf(head, addresses, node, {
      internal: internalPolicyLocal ? onNode : inCluster,
      external: externalPolicyLocal ? onNode : inCluster,
      shortCircuit: inCluster,
      externalPolicyLocal,
    }),
    shadowed: NONE_SHADOWED,
    pools: Object.freeze({
      cluster: !internalPolicyLocal || isExternal ? cluster : null,
      local: internalPolicyLocal || externalPolicyLocal ? local : null,
    }),
    affinitySeconds: head.affinitySeconds,
    healthCheckNodePort: head.healthPort,
    internalPolicyLocal,
    externalPolicyLocal,
  })
}

interface Policy {
  readonly internal: Destination
  readonly external: Destination
  /** For pods and processes of this node, to external addresses. */
  readonly shortCircuit: Destination
  readonly externalPolicyLocal: boolean
}

function frontendsOf(
  head: PortHead,
  addresses: Addresses,
  node: ResolutionView,
  policy: Policy,
): readonly Frontend[] {
  const external = {
    fromAnywhere: policy.external,
    fromThisNode: policy.shortCircuit,
    masquerade: policy.externalPolicyLocal ? 'never' : 'always',
    sourceRanges: null,
  } as const
  const frontends: Frontend[] = [
    {
      kind: 'ClusterIP',
      ip: addresses.clusterIp!,
      port: head.port,
      fromAnywhere: policy.internal,
      fromThisNode: policy.internal,
      masquerade: clusterIpMasquerade(node),
      sourceRanges: null,
    },
    ...addresses.externalIps.map((ip): Frontend => ({
      kind: 'ExternalIP',
      ip,
      port: head.port,
      ...external,
    })),
    ...addresses.loadBalancerIps.map((ip): Frontend => {
      const sourceRanges = rangesForAddress(addresses.sourceRanges, ip, node.primaryIp)
      return { kind: 'LoadBalancer', ip, port: head.port, ...external, sourceRanges }
    }),
  ]
  if (head.nodePort !== null) {
    frontends.push({ kind: 'NodePort', ip: 'any-node-port-address', port: head.nodePort, ...external })
  }
  return Object.freeze(frontends.map((frontend) => Object.freeze(frontend)))
}

/** Where local pods cannot be told, nothing is masqueraded as off-cluster. */
function clusterIpMasquerade(node: ResolutionView): Frontend['masquerade'] {
  if (node.masqueradeAll) return 'always'
  return node.detectLocal.by === 'none' ? 'never' : 'off-cluster-sources'
}

/** External policy Local has no meaning for a Service that nothing outside can reach. */
function mayBeExternal(service: ServiceRecord): boolean {
  return service.type === 'NodePort' || service.type === 'LoadBalancer' || service.externalIps.length > 0
}

const TO_CLUSTER: Destination = Object.freeze({ kind: 'endpoints', pool: 'cluster' })
const TO_LOCAL: Destination = Object.freeze({ kind: 'endpoints', pool: 'local' })
const REJECT: Destination = Object.freeze({ kind: 'reject' })
const DROP: Destination = Object.freeze({ kind: 'drop' })
const NONE_SHADOWED: ServicePort['shadowed'] = Object.freeze([])
const NO_PROBLEMS: readonly ObjectProblem[] = Object.freeze([])
