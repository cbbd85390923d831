import fc from 'fast-check'
import type { Cidr } from '../../src/net/cidr.ts'
import type { IpFamily } from '../../src/net/family.ts'
import type { Ip } from '../../src/net/ip.ts'
import type { Port } from '../../src/net/port.ts'
import type { Protocol } from '../../src/net/protocol.ts'
import type {
  Destination,
  Endpoint,
  Frontend,
  NodeView,
  Pool,
  ServiceMap,
  ServicePort,
  ServicePortId,
} from '../../src/services/service-map.ts'
import { ShardedMap } from '../../src/shared/sharded-map.ts'

/** Service maps made by hand and at random, for tests of what modes make of them. IPv4 texts; IPv6 by mapping. */

/** A node `node-a` at 192.0.2.10 with pods 10.128.0.0/9 (fd00:2::10 and fd00:128::/48). */
export function nodeView(family: IpFamily = 'IPv4', rest: Partial<NodeView> = {}): NodeView {
  const four = family === 'IPv4'
  const own = (four ? '192.0.2.10' : 'fd00:2::10') as Ip
  return {
    name: 'node-a',
    family,
    zone: null,
    detectLocal: { by: 'source-cidr', cidr: (four ? '10.128.0.0/9' : 'fd00:128::/48') as Cidr },
    nodePortAddresses: { primary: own },
    nodePortIps: [own],
    primaryIp: own,
    localIps: [own],
    masqueradeAll: false,
    masqueradeBit: 14,
    serviceCidrs: [(four ? '10.96.0.0/12' : 'fd00:96::/108') as Cidr],
    ...rest,
  }
}

/** The n-th address of a /16: `10.96.x.y` in IPv4, `fd00:96::n` in IPv6. */
export function addressIn(family: IpFamily, second: number, n: number): Ip {
  if (family === 'IPv6') return `fd00:${second}::${(n + 1).toString(16)}` as Ip
  return `10.${second}.${(n + 1) >> 8}.${(n + 1) & 255}` as Ip
}

/** Ready endpoints 10.128.x.y:8080 by number; those in `local` are of this node. */
export function endpoints(
  family: IpFamily,
  numbers: readonly number[],
  local: readonly number[] = [],
): readonly Endpoint[] {
  return numbers.map((n) => ({
    ip: addressIn(family, 128, n),
    port: 8080 as Port,
    isLocal: local.includes(n),
    state: 'ready',
  }))
}

/** What one Service port is, in short. */
export interface PortShape {
  readonly number: number
  readonly protocol?: Protocol
  readonly cluster: readonly number[]
  readonly local?: readonly number[]
  /** Which of the cluster's endpoints the external address serves; undefined = there is none. */
  readonly external?: 'cluster' | 'local' | undefined
  readonly nodePort?: boolean
  readonly internalLocal?: boolean
  readonly affinitySeconds?: number | null
  readonly sourceRanges?: readonly string[] | null
  readonly nameLength?: number
}

/** The Service port of a shape, resolved by the same rules as the product's own. */
export function servicePort(
  family: IpFamily,
  shape: PortShape,
  node: Pick<NodeView, 'masqueradeAll' | 'detectLocal'> = nodeView(family),
): ServicePort {
  const { number, cluster, local = [], external, nodePort = false } = shape
  const name = `svc-${number}`.padEnd(shape.nameLength ?? 0, 'x')
  const pool = (numbers: readonly number[]): Pool => ({ endpoints: endpoints(family, numbers, local) })
  const reach = (name: 'cluster' | 'local'): Destination => {
    if (cluster.length === 0) return { kind: 'reject' }
    if (name === 'local' && local.length === 0) return { kind: 'drop' }
    return { kind: 'endpoints', pool: name }
  }
  const outside = (kind: Frontend['kind'], ip: Frontend['ip'], port: number): Frontend => ({
    kind,
    ip,
    port: port as Port,
    fromAnywhere: reach(external ?? 'cluster'),
    fromThisNode: reach('cluster'),
    masquerade: external === 'local' ? 'never' : 'always',
    sourceRanges: kind === 'LoadBalancer' ? ((shape.sourceRanges ?? null) as Frontend['sourceRanges']) : null,
  })
  const inside = reach(shape.internalLocal === true ? 'local' : 'cluster')
  const frontends: Frontend[] = [
    {
      kind: 'ClusterIP',
      ip: addressIn(family, 96, number),
      port: 80 as Port,
      fromAnywhere: inside,
      fromThisNode: inside,
      masquerade: node.masqueradeAll
        ? 'always'
        : node.detectLocal.by === 'none'
          ? 'never'
          : 'off-cluster-sources',
      sourceRanges: null,
    },
  ]
  if (external !== undefined) frontends.push(outside('LoadBalancer', addressIn(family, 200, number), 80))
  if (nodePort) frontends.push(outside('NodePort', 'any-node-port-address', 30_000 + (number % 2000)))
  return {
    id: `ns/${name}:http` as ServicePortId,
    namespace: 'ns',
    name,
    portName: 'http',
    protocol: shape.protocol ?? 'TCP',
    frontends,
    shadowed: [],
    pools: { cluster: pool(cluster), local: pool(local) },
    affinitySeconds: shape.affinitySeconds ?? null,
    healthCheckNodePort: null,
    internalPolicyLocal: shape.internalLocal === true,
    externalPolicyLocal: external === 'local',
  }
}

/** The map of these ports on a node; `previous` lends the identity of ports that are equal. */
export function serviceMap(
  ports: readonly ServicePort[],
  node: NodeView = nodeView(),
  previous: ServiceMap | null = null,
): ServiceMap {
  const known = (port: ServicePort): ServicePort => {
    const before = previous?.ports.get(port.id)
    return before !== undefined && JSON.stringify(before) === JSON.stringify(port) ? before : port
  }
  return {
    family: node.family,
    node,
    ports: ShardedMap.from(ports.map((port) => [port.id, known(port)])),
    health: ShardedMap.empty(),
    problems: ShardedMap.empty(),
  }
}

/** Shapes with every feature, on few addresses, so that two draws share much and differ in detail. */
export const anyShape = (number: number): fc.Arbitrary<PortShape> =>
  fc
    .record({
      protocol: fc.constantFrom<Protocol>('TCP', 'UDP', 'SCTP'),
      cluster: fc.subarray([0, 1, 2, 3, 4]),
      external: fc.constantFrom(undefined, 'cluster' as const, 'local' as const),
      nodePort: fc.boolean(),
      internalLocal: fc.boolean(),
      affinitySeconds: fc.constantFrom(null, null, 60, 10_800),
      sourceRanges: fc.constantFrom(null, ['203.0.113.0/24'], ['203.0.113.0/25', '203.0.113.64/26']),
    })
    .map((shape) => ({ ...shape, number, local: shape.cluster.filter((n) => n % 2 === 0) }))

/** Up to five Service ports. */
export const anyShapes: fc.Arbitrary<readonly PortShape[]> = fc
  .tuple(...[0, 1, 2, 3, 4].map((number) => fc.option(anyShape(number), { nil: null, freq: 4 })))
  .map((shapes) => shapes.filter((shape) => shape !== null))
