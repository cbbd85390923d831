import { expect, test } from 'vitest'
import type { ConntrackPort, Flow } from '../kernel/conntrack/port.ts'
import type { Cidr } from '../net/cidr.ts'
import type { Ip } from '../net/ip.ts'
import type { Port } from '../net/port.ts'
import type { Protocol } from '../net/protocol.ts'
import type { Frontend, NodeView, ServiceMap, ServicePort, ServicePortId } from '../services/service-map.ts'
import { ShardedMap } from '../shared/sharded-map.ts'
import { flowTargets, forgetStaleFlows, staleFlows } from './conntrack-hygiene.ts'

const VIP = '10.111.20.5' as Ip
const NODE_IP = '192.0.2.10' as Ip
const CLIENT = '203.0.113.7'
const [EP_A, EP_B] = ['10.64.0.41', '10.64.1.41']

const node = (nodePortIps: readonly Ip[] = [NODE_IP]): NodeView => ({
  name: 'worker-a',
  family: 'IPv4',
  zone: null,
  detectLocal: { by: 'none' },
  primaryIp: NODE_IP,
  nodePortAddresses: ['192.0.2.0/24' as Cidr],
  nodePortIps,
  localIps: [...nodePortIps, '198.51.100.10' as Ip],
  masqueradeAll: false,
  masqueradeBit: 14,
  serviceCidrs: [],
})

interface Spec {
  readonly id?: string
  readonly protocol?: Protocol
  readonly endpoints: readonly string[]
  readonly nodePort?: number
  readonly vip?: Ip
  readonly drop?: boolean
}

/** A service port on VIP:8125, its endpoints on 8125. */
function port({
  id = 'b04/statsd:in',
  protocol = 'UDP',
  endpoints,
  nodePort,
  vip = VIP,
  drop,
}: Spec): ServicePort {
  const reachable = endpoints.length > 0
  const destination = drop
    ? { kind: 'drop' as const }
    : reachable
      ? { kind: 'endpoints' as const, pool: 'cluster' as const }
      : { kind: 'reject' as const }
  const frontend = (kind: Frontend['kind'], ip: Frontend['ip'], number: number): Frontend => ({
    kind,
    ip,
    port: number as Port,
    fromAnywhere: destination,
    fromThisNode: destination,
    masquerade: 'never',
    sourceRanges: null,
  })
  return {
    id: id as ServicePortId,
    namespace: 'b04',
    name: 'statsd',
    portName: 'in',
    protocol,
    frontends: [
      frontend('ClusterIP', vip, 8125),
      ...(nodePort === undefined ? [] : [frontend('NodePort', 'any-node-port-address', nodePort)]),
    ],
    shadowed: [],
    pools: {
      cluster: reachable
        ? {
            endpoints: endpoints.map((ip) => ({
              ip: ip as Ip,
              port: 8125 as Port,
              isLocal: false,
              state: 'ready',
            })),
          }
        : null,
      local: null,
    },
    affinitySeconds: null,
    healthCheckNodePort: null,
    internalPolicyLocal: false,
    externalPolicyLocal: false,
  }
}

const mapOf = (ports: readonly ServicePort[], view = node()): ServiceMap => ({
  family: 'IPv4',
  node: view,
  ports: ShardedMap.from(ports.map((each) => [each.id, each] as const)),
  health: ShardedMap.empty(),
  problems: ShardedMap.empty(),
})

/** The same ports in another map that shares what is the same. */
const next = (before: ServiceMap, ports: readonly ServicePort[], view = before.node): ServiceMap => ({
  ...before,
  node: view,
  ports: before.ports.edit((draft) => {
    for (const key of before.ports.keys()) if (!ports.some(({ id }) => id === key)) draft.delete(key)
    for (const each of ports) draft.set(each.id, each)
  }),
})

let flowId = 1
function flow(
  to: string,
  toPort: number,
  endpoint: string,
  endpointPort = 8125,
  protocol: Protocol = 'UDP',
): Flow {
  return {
    family: 'IPv4',
    protocol,
    original: { source: CLIENT as Ip, destination: to as Ip, sourcePort: 40_000, destinationPort: toPort },
    reply: {
      source: endpoint as Ip,
      destination: CLIENT as Ip,
      sourcePort: endpointPort,
      destinationPort: 40_000,
    },
    id: flowId++,
    status: 0,
    mark: 0,
    zone: 0,
  }
}

test('an endpoint that left takes its flows along, and only those', () => {
  const before = mapOf([port({ endpoints: [EP_A, EP_B] })])
  const after = next(before, [port({ endpoints: [EP_B] })])
  const stale = flow(VIP, 8125, EP_A)
  expect(staleFlows([stale, flow(VIP, 8125, EP_B)], before, after)).toEqual([stale])
})

test('a service that lost all endpoints takes its flows along, on every frontend', () => {
  const before = mapOf([port({ endpoints: [EP_A], nodePort: 30_425 })])
  const stale = [flow(VIP, 8125, EP_A), flow(NODE_IP, 30_425, EP_A)]
  for (const drop of [false, true]) {
    const after = next(before, [port({ endpoints: [], nodePort: 30_425, drop })])
    expect(staleFlows([...stale, flow(VIP, 8125, EP_A, 8125, 'TCP')], before, after)).toEqual(stale)
  }
})

test('a deleted service takes its translated flows along; what was never translated is not ours', () => {
  const before = mapOf([port({ endpoints: [EP_A], nodePort: 30_425 })])
  const after = next(before, [])
  const stale = flow(NODE_IP, 30_425, EP_A)
  const ownServer = flow(NODE_IP, 30_425, NODE_IP, 30_425)
  expect(staleFlows([stale, ownServer], before, after)).toEqual([stale])
})

test('an untranslated flow to a service goes when the service gets its first endpoint', () => {
  const before = mapOf([port({ endpoints: [] })])
  const untranslated = flow(VIP, 8125, VIP)
  expect(staleFlows([untranslated], before, next(before, [port({ endpoints: [EP_A] })]))).toEqual([
    untranslated,
  ])
  expect(staleFlows([untranslated], null, before)).toEqual([])
})

test('flows that only share the port number stay', () => {
  const plain = port({ id: 'b06/plain:in', vip: '10.111.20.8' as Ip, endpoints: [EP_B] })
  const before = mapOf([port({ endpoints: [EP_A, EP_B], nodePort: 8125 }), plain])
  const after = next(before, [port({ endpoints: [EP_B], nodePort: 8125 }), plain])
  const stale = flow(NODE_IP, 8125, EP_A)
  const others = [
    flow(NODE_IP, 8125, EP_B),
    flow('10.111.20.8', 8125, EP_B),
    flow('203.0.113.50', 8125, '203.0.113.50'),
    flow('198.51.100.10', 8125, EP_A), // an address of the node that serves no node ports
  ]
  expect(staleFlows([stale, ...others], before, after)).toEqual([stale])
})

test('the same endpoint address on another port is another endpoint', () => {
  const before = mapOf([port({ endpoints: [EP_A] })])
  const stale = flow(VIP, 8125, EP_A, 9999)
  expect(staleFlows([stale], null, before)).toEqual([stale])
})

test('at start all UDP frontends are checked and flows that are right stay', () => {
  const after = mapOf([port({ endpoints: [EP_A], nodePort: 30_425 })])
  const stale = flow(VIP, 8125, '10.64.9.9')
  expect(staleFlows([flow(VIP, 8125, EP_A), flow(NODE_IP, 30_425, EP_A), stale], null, after)).toEqual([
    stale,
  ])
})

test('the table is not read unless a UDP frontend could have stale flows', () => {
  const before = mapOf([
    port({ endpoints: [EP_A] }),
    port({ id: 'a/tcp', protocol: 'TCP', endpoints: [EP_A, EP_B] }),
  ])
  const udp = before.ports.get('b04/statsd:in')!
  expect(flowTargets(before, before)).toBeNull()
  expect(
    flowTargets(before, next(before, [udp, port({ id: 'a/tcp', protocol: 'TCP', endpoints: [] })])),
  ).toBeNull()
  expect(
    flowTargets(before, next(before, [port({ endpoints: [EP_A, EP_B] }), before.ports.get('a/tcp')!])),
  ).toBeNull()
  expect(flowTargets(null, mapOf([port({ protocol: 'TCP', endpoints: [EP_A] })]))).toBeNull()
})

test('a protocol that changes from UDP to TCP counts as the end of the UDP frontends', () => {
  const before = mapOf([port({ endpoints: [EP_A] })])
  const stale = flow(VIP, 8125, EP_A)
  expect(staleFlows([stale], before, next(before, [port({ protocol: 'TCP', endpoints: [EP_A] })]))).toEqual([
    stale,
  ])
})

test('a node address that is a node-port address no more takes its flows along', () => {
  const before = mapOf([port({ endpoints: [EP_A], nodePort: 30_425 })])
  const moved = '192.0.2.77' as Ip
  const after = next(before, [...before.ports.values()], node([moved]))
  const stale = flow(NODE_IP, 30_425, EP_A)
  expect(staleFlows([stale, flow(moved, 30_425, EP_A)], before, after)).toEqual([stale])
})

test('deletions are counted by what was really there, and a failure to list is not swallowed', async () => {
  const before = mapOf([port({ endpoints: [EP_A] })])
  const after = next(before, [])
  const table = [flow(VIP, 8125, EP_A), flow(VIP, 8125, EP_B)]
  const lists: string[] = []
  const conntrack: ConntrackPort = {
    list: (family, protocol) => {
      lists.push(`${family} ${protocol}`)
      return Promise.resolve(table)
    },
    delete: (gone) => Promise.resolve(gone !== table[1]),
    usage: () => Promise.resolve({ count: 0, max: 0 }),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }
  expect(await forgetStaleFlows(conntrack, before, after)).toBe(1)
  expect(await forgetStaleFlows(conntrack, after, after)).toBeNull()
  expect(lists).toEqual(['IPv4 UDP'])
  const broken = { ...conntrack, list: () => Promise.reject(new Error('ENOBUFS')) }
  await expect(forgetStaleFlows(broken, before, after)).rejects.toThrow('ENOBUFS')
})
