import { expect, test } from 'vitest'
import { clusterStateFromObjects } from '../cluster/objects.ts'
import type { Cidr } from '../net/cidr.ts'
import type { Ip } from '../net/ip.ts'
import type { Packet } from '../net/packet.ts'
import type { Port } from '../net/port.ts'
import { buildServiceMap } from './build-service-map.ts'
import { decide, IPTABLES_TRAITS, NFTABLES_TRAITS } from './decide.ts'
import type { NodeViewConfig } from './node-view.ts'
import { nodeView } from './node-view.ts'
import type { ServiceMap } from './service-map.ts'

const OBJECTS = [
  {
    kind: 'Service',
    metadata: { name: 'web' },
    spec: {
      type: 'LoadBalancer',
      clusterIP: '10.96.0.1',
      externalTrafficPolicy: 'Local',
      healthCheckNodePort: 32_000,
      ports: [{ port: 80, nodePort: 30_080 }],
    },
    status: { loadBalancer: { ingress: [{ ip: '198.18.0.1' }] } },
  },
  {
    kind: 'EndpointSlice',
    metadata: { name: 'web-1', labels: { 'kubernetes.io/service-name': 'web' } },
    addressType: 'IPv4',
    ports: [{ port: 8080 }],
    endpoints: [{ addresses: ['10.64.1.1'], nodeName: 'n2' }],
  },
]

function map(config: Partial<NodeViewConfig> = {}): ServiceMap {
  const { state } = clusterStateFromObjects(OBJECTS, 'n1')
  return buildServiceMap(
    state,
    nodeView({
      name: 'n1',
      family: 'IPv4',
      node: null,
      addresses: ['192.0.2.10', '127.0.0.1'] as Ip[],
      serviceCidrs: ['10.96.0.0/16' as Cidr],
      config: {
        detectLocalMode: 'InterfaceNamePrefix',
        detectLocal: { bridgeInterface: 'cbr0', interfaceNamePrefix: 'veth' },
        clusterCidrs: [],
        nodePortAddresses: [],
        bindAddress: '',
        ...config,
      },
      masquerade: { masqueradeAll: false, masqueradeBit: 14 },
      emptyNodePortAddresses: 'any-local',
    }),
  )
}

function packet(destination: string, port: number, from: Partial<Packet> = {}): Packet {
  return {
    source: '203.0.113.7' as Ip,
    sourcePort: 0,
    destination: destination as Ip,
    port: port as Port,
    protocol: 'TCP',
    origin: 'received',
    inputInterface: 'eth1',
    ...from,
  }
}

const sources = (decision: ReturnType<typeof decide>): readonly boolean[] =>
  decision.destinations.map(({ masquerade }) => masquerade)

test.each([
  ['a name prefix', {}, 'veth7'],
  ['a bridge', { detectLocalMode: 'BridgeInterface' }, 'cbr0'],
] as const)('pods are told by %s of the interface, whether it exists or not', (_, config, inputInterface) => {
  const from = { source: '10.64.0.20' as Ip, inputInterface }
  expect(sources(decide(map(config), packet('10.96.0.1', 80, from)))).toEqual([false])
  expect(sources(decide(map(config), packet('198.18.0.1', 80, from)))).toEqual([false])
  expect(sources(decide(map(config), packet('10.96.0.1', 80)))).toEqual([true])
  expect(decide(map(config), packet('198.18.0.1', 80)).verdict).toBe('DROP')
})

test('where pods cannot be told, only processes of the node are short-circuited, and nothing is off-cluster', () => {
  const blind = map({ detectLocalMode: 'ClusterCIDR' })
  const pod = { source: '10.64.0.20' as Ip, inputInterface: 'veth7' }
  const host = { source: '192.0.2.10' as Ip, origin: 'local', inputInterface: null } as const
  expect(decide(blind, packet('198.18.0.1', 80, pod)).verdict).toBe('DROP')
  expect(sources(decide(blind, packet('198.18.0.1', 80, host)))).toEqual([true])
  expect(sources(decide(blind, packet('10.96.0.1', 80, host)))).toEqual([false])
})

test('an endpoint of another node that calls itself through the Service is masqueraded', () => {
  const from = { source: '10.64.1.1' as Ip, inputInterface: 'veth7' }
  expect(sources(decide(map(), packet('10.96.0.1', 80, from)))).toEqual([true])
})

test('the health check port is answered on the addresses that serve node ports, over TCP', () => {
  expect(decide(map(), packet('192.0.2.10', 32_000)).verdict).toBe('ACCEPT_LOCAL')
  expect(decide(map(), packet('192.0.2.10', 32_000, { protocol: 'UDP' })).verdict).toBe('NONE')
  expect(decide(map(), packet('10.64.1.1', 32_000)).verdict).toBe('NONE')
  const elsewhere = map({ nodePortAddresses: ['198.51.100.0/24' as Cidr] })
  expect(decide(elsewhere, packet('192.0.2.10', 32_000)).verdict).toBe('NONE')
  expect(decide(elsewhere, packet('192.0.2.10', 30_080)).verdict).toBe('NONE')
})

test('loopback node ports need a mode that can, and a configuration that selects loopback', () => {
  const from = { source: '127.0.0.1' as Ip, origin: 'local', inputInterface: null } as const
  const to = packet('127.0.0.1', 30_080, from)
  expect(decide(map(), to, IPTABLES_TRAITS).verdict).toBe('FORWARD')
  expect(decide(map(), to, NFTABLES_TRAITS).verdict).toBe('NONE')
  expect(decide(map({ nodePortAddresses: ['127.0.0.0/8' as Cidr] }), to).verdict).toBe('FORWARD')
  expect(decide(map({ nodePortAddresses: ['192.0.2.0/24' as Cidr] }), to).verdict).toBe('NONE')
  expect(decide(map({ nodePortAddresses: 'primary' }), to).verdict).toBe('NONE')
})

test('unknown addresses and unused ports of the Service range differ by mode', () => {
  expect(decide(map(), packet('10.96.0.1', 81), NFTABLES_TRAITS).verdict).toBe('REJECT')
  expect(decide(map(), packet('10.96.0.2', 80), NFTABLES_TRAITS).verdict).toBe('DROP')
  expect(decide(map(), packet('198.18.0.1', 81), NFTABLES_TRAITS).verdict).toBe('NONE')
  expect(decide(map(), packet('10.96.0.1', 81)).verdict).toBe('NONE')
})

test('a map without an index gives the same answers', () => {
  const { index: _, ...byHand } = map()
  for (const [ip, port] of [
    ['10.96.0.1', 80],
    ['198.18.0.1', 80],
    ['192.0.2.10', 30_080],
    ['10.96.0.9', 1],
  ] as const) {
    expect(decide(byHand, packet(ip, port))).toEqual(decide(map(), packet(ip, port)))
  }
})

test('the reasons tell the story of the packet', () => {
  const from = { source: '10.64.0.20' as Ip, inputInterface: 'veth7' }
  expect(decide(map(), packet('198.18.0.1', 80, from)).reasons).toEqual([
    '198.18.0.1:80 TCP is a load-balancer IP of default/web.',
    '10.64.0.20 counts as a pod of this node (it came in on veth*).',
    'The external traffic policy Local does not bind clients on this node.',
    'Any endpoint of the cluster may be chosen.',
    'The source is kept, because the external traffic policy is Local.',
  ])
})
