import fc from 'fast-check'
import type { EndpointSlice, Node, Service, SliceEndpoint } from '../../src/kubernetes/objects.ts'
import type { IpFamily } from '../../src/net/family.ts'
import type { Ip } from '../../src/net/ip.ts'
import type { Packet } from '../../src/net/packet.ts'
import type { Port } from '../../src/net/port.ts'
import type { Protocol } from '../../src/net/protocol.ts'
import type { NodeViewConfig } from '../../src/services/node-view.ts'

/**
 * Clusters of API objects and packets at random, on few addresses and ports, so that Services collide, share endpoints
 * and are hit by packets. The node under test is `node-a`.
 */

export const NODE: Node = {
  kind: 'Node',
  metadata: { name: 'node-a', labels: { 'topology.kubernetes.io/zone': 'zone-a' } },
  spec: { podCIDRs: ['10.128.0.0/24', 'fd00:128::/64'] },
  status: {
    addresses: [
      { type: 'InternalIP', address: '192.0.2.10' },
      { type: 'InternalIP', address: '2001:db8:10::a' },
    ],
  },
}

/** Addresses of the node's interfaces. */
export const LOCAL_ADDRESSES = ['192.0.2.10', '198.51.100.10', '2001:db8:10::a', '127.0.0.1', '::1'] as Ip[]

interface Places {
  readonly clusterIps: readonly string[]
  readonly external: readonly string[]
  readonly balancers: readonly string[]
  readonly endpoints: readonly { readonly ip: string; readonly node: string; readonly zone: string }[]
  readonly sources: readonly string[]
  readonly others: readonly string[]
}

const PLACES: Readonly<Record<IpFamily, Places>> = {
  IPv4: {
    clusterIps: ['10.96.0.1', '10.96.0.2', '10.96.0.3', '10.96.0.4'],
    external: ['203.0.113.50', '203.0.113.51'],
    balancers: ['203.0.113.60', '203.0.113.61'],
    endpoints: [
      { ip: '10.128.0.5', node: 'node-a', zone: 'zone-a' },
      { ip: '10.128.0.6', node: 'node-a', zone: 'zone-a' },
      { ip: '10.128.1.5', node: 'node-b', zone: 'zone-b' },
      { ip: '10.128.2.5', node: 'node-c', zone: 'zone-a' },
      { ip: '192.0.2.10', node: 'node-a', zone: 'zone-a' },
    ],
    sources: [
      '10.128.0.20',
      '10.128.0.5',
      '10.128.1.5',
      '192.0.2.10',
      '127.0.0.1',
      '203.0.113.7',
      '198.51.100.99',
    ],
    others: ['192.0.2.10', '198.51.100.10', '127.0.0.1', '10.96.0.99', '8.8.8.8'],
  },
  IPv6: {
    clusterIps: ['fd00:96::1', 'fd00:96::2', 'fd00:96::3', 'fd00:96::4'],
    external: ['2001:db8:50::1', '2001:db8:50::2'],
    balancers: ['2001:db8:60::1', '2001:db8:60::2'],
    endpoints: [
      { ip: 'fd00:128::5', node: 'node-a', zone: 'zone-a' },
      { ip: 'fd00:128:0:1::5', node: 'node-b', zone: 'zone-b' },
      { ip: 'fd00:128:0:2::5', node: 'node-c', zone: 'zone-a' },
    ],
    sources: ['fd00:128::20', 'fd00:128::5', '2001:db8:10::a', '::1', '2001:db8:ffff::7'],
    others: ['2001:db8:10::a', '::1', 'fd00:96::99'],
  },
}

const PORTS: { readonly name: string; readonly protocol: Protocol; readonly port: number }[] = [
  { name: 'http', protocol: 'TCP', port: 80 },
  { name: 'dns', protocol: 'UDP', port: 53 },
  { name: 'dns-tcp', protocol: 'TCP', port: 53 },
  { name: 'sig', protocol: 'SCTP', port: 80 },
]

const RANGES = [
  '203.0.113.0/24',
  '203.0.113.7/32',
  '198.51.100.0/25',
  '192.0.2.0/24',
  '0.0.0.0/0',
  '2001:db8:ffff::/48',
]

const policy = fc.constantFrom('Cluster', 'Local')

function anyService(number: number): fc.Arbitrary<readonly [Service, readonly EndpointSlice[]]> {
  const name = `svc-${number}`
  return fc
    .record({
      type: fc.constantFrom('ClusterIP', 'NodePort', 'LoadBalancer'),
      ports: fc.subarray(PORTS, { minLength: 1 }),
      external: fc.subarray([...PLACES.IPv4.external, ...PLACES.IPv6.external]),
      balancers: fc.subarray([...PLACES.IPv4.balancers, ...PLACES.IPv6.balancers]),
      ipMode: fc.constantFrom(undefined, 'VIP', 'Proxy'),
      ranges: fc.oneof(fc.constant([]), fc.subarray(RANGES)),
      outside: policy,
      internal: policy,
      affinity: fc.constantFrom(null, null, 600),
      age: fc.integer({ min: 0, max: 3 }),
      slices: fc.tuple(anySlice(name, 'IPv4', 'a'), anySlice(name, 'IPv4', 'b'), anySlice(name, 'IPv6', 'c')),
    })
    .map((draw) => {
      const nodePorts = draw.type !== 'ClusterIP'
      const isOutside = nodePorts || draw.external.length > 0
      const balancer = draw.type === 'LoadBalancer'
      const service: Service = {
        kind: 'Service',
        metadata: {
          namespace: 'ns',
          name,
          uid: name,
          creationTimestamp: `2026-01-0${1 + draw.age}T00:00:00Z`,
        },
        spec: {
          type: draw.type,
          clusterIP: PLACES.IPv4.clusterIps[number]!,
          clusterIPs: [PLACES.IPv4.clusterIps[number]!, PLACES.IPv6.clusterIps[number]!],
          ports: draw.ports.map((port, i) => ({
            ...port,
            ...(nodePorts ? { nodePort: 30_000 + 10 * number + i } : {}),
          })),
          externalIPs: draw.external,
          internalTrafficPolicy: draw.internal,
          ...(isOutside ? { externalTrafficPolicy: draw.outside } : {}),
          ...(balancer ? { loadBalancerSourceRanges: draw.ranges } : {}),
          ...(balancer && draw.outside === 'Local' ? { healthCheckNodePort: 32_000 + number } : {}),
          ...(draw.affinity === null
            ? { sessionAffinity: 'None' }
            : {
                sessionAffinity: 'ClientIP',
                sessionAffinityConfig: { clientIP: { timeoutSeconds: draw.affinity } },
              }),
        },
        status: {
          loadBalancer: {
            ingress: balancer
              ? draw.balancers.map((ip) => (draw.ipMode === undefined ? { ip } : { ip, ipMode: draw.ipMode }))
              : [],
          },
        },
      }
      return [service, draw.slices.filter((slice) => slice !== null)] as const
    })
}

function anySlice(service: string, family: IpFamily, suffix: string): fc.Arbitrary<EndpointSlice | null> {
  const endpoint = fc
    .record({
      place: fc.constantFrom(...PLACES[family].endpoints),
      condition: fc.constantFrom('ready', 'ready', 'not ready', 'terminating', 'gone'),
      hints: fc.constantFrom('none', 'none', 'zone'),
    })
    .map(({ place, condition, hints }): SliceEndpoint => {
      return {
        addresses: [place.ip],
        nodeName: place.node,
        zone: place.zone,
        conditions: {
          ready: condition === 'ready',
          serving: condition === 'ready' || condition === 'terminating',
          terminating: condition === 'terminating' || condition === 'gone',
        },
        ...(hints === 'zone' ? { hints: { forZones: [{ name: place.zone }] } } : {}),
      }
    })
  const slice = fc.array(endpoint, { maxLength: 4 }).map((endpoints): EndpointSlice => ({
    kind: 'EndpointSlice',
    metadata: {
      namespace: 'ns',
      name: `${service}-${suffix}`,
      labels: { 'kubernetes.io/service-name': service },
    },
    addressType: family,
    endpoints,
    ports: PORTS.map(({ name, protocol, port }) => ({ name, protocol, port: port + 8000 })),
  }))
  return fc.option(slice, { nil: null, freq: 5 })
}

/** Up to four Services with their EndpointSlices, and the Node. */
export const anyObjects: fc.Arbitrary<readonly unknown[]> = fc
  .tuple(...[0, 1, 2, 3].map((number) => fc.option(anyService(number), { nil: null, freq: 4 })))
  .map((drawn) => [
    NODE,
    ...drawn.filter((entry) => entry !== null).flatMap(([service, slices]) => [service, ...slices]),
  ])

export interface NodeDraw {
  readonly config: NodeViewConfig
  readonly masquerade: { readonly masqueradeAll: boolean; readonly masqueradeBit: number }
}

/** How the node is configured. */
export const anyNode: fc.Arbitrary<NodeDraw> = fc.record({
  config: fc.record({
    detectLocalMode: fc.constantFrom(
      'ClusterCIDR',
      'ClusterCIDR',
      'NodeCIDR',
      'BridgeInterface',
      'InterfaceNamePrefix',
    ),
    detectLocal: fc.constant({ bridgeInterface: 'cni0', interfaceNamePrefix: 'cni' }),
    clusterCidrs: fc.constantFrom([], ['10.128.0.0/9', 'fd00:128::/32']),
    nodePortAddresses: fc.constantFrom(
      [],
      'primary',
      ['192.0.2.0/24'],
      ['198.51.100.0/24', '127.0.0.0/8'],
      ['0.0.0.0/0', '::/0'],
    ),
    bindAddress: fc.constant('0.0.0.0'),
  }) as fc.Arbitrary<NodeViewConfig>,
  masquerade: fc.record({ masqueradeAll: fc.boolean(), masqueradeBit: fc.constantFrom(14, 0, 31) }),
})

/** A packet from one of the usual clients to an address and a port that Services may have. */
export function anyPacket(family: IpFamily): fc.Arbitrary<Packet> {
  const places = PLACES[family]
  return fc
    .record({
      source: fc.constantFrom(...places.sources),
      destination: fc.constantFrom(
        ...places.clusterIps,
        ...places.clusterIps,
        ...places.external,
        ...places.balancers,
        ...places.others,
      ),
      port: fc.constantFrom(80, 80, 53, 30_000, 30_001, 30_010, 30_011, 30_020, 32_000, 32_001, 1234),
      protocol: fc.constantFrom<Protocol>('TCP', 'TCP', 'UDP', 'SCTP'),
    })
    .map(({ source, destination, port, protocol }): Packet => {
      const origin = LOCAL_ADDRESSES.includes(source as Ip) ? 'local' : 'received'
      const isPod = source.startsWith('10.128.0.') || source.startsWith('fd00:128::')
      return {
        source: source as Ip,
        sourcePort: 40_000,
        destination: destination as Ip,
        port: port as Port,
        protocol,
        origin,
        inputInterface: origin === 'local' ? null : isPod ? 'cni0' : 'eth0',
      }
    })
}
