import { expect, test } from 'vitest'
import type { Ip } from '../../net/ip.ts'
import { looksEven, observe } from './observe.ts'
import type { NetworkPlan } from './plan.ts'
import { placeOfClient, placeOfDestination, planNetwork } from './plan.ts'
import type { FlowResult } from './protocol.ts'

const OBJECTS = [
  {
    kind: 'Node',
    metadata: { name: 'a' },
    spec: { podCIDRs: ['10.64.0.0/24'] },
    status: { addresses: [{ type: 'InternalIP', address: '192.0.2.10' }] },
  },
  {
    kind: 'Node',
    metadata: { name: 'b' },
    status: { addresses: [{ type: 'InternalIP', address: '192.0.2.11' }] },
  },
  {
    kind: 'EndpointSlice',
    metadata: { name: 's', labels: { 'kubernetes.io/service-name': 'web' } },
    ports: [{ port: 8080 }, { port: 53, protocol: 'UDP' }],
    endpoints: [{ addresses: ['10.064.0.5'] }, { addresses: ['10.64.1.5'] }, { addresses: ['backend.test'] }],
  },
]
const plan: NetworkPlan = planNetwork(OBJECTS, 'a', ['192.0.2.10', '127.0.0.1'] as Ip[])
const CLIENT = '10.64.0.20' as Ip

const answered = (at: string, seen: string, samePort = true): FlowResult => ({
  result: 'answered',
  at,
  seen,
  samePort,
})

test('every endpoint gets a listener for every port of its Service, at its place', () => {
  expect(plan.listeners.map(({ ip, protocol, port, place }) => `${place} ${ip} ${protocol} ${port}`)).toEqual(
    [
      'pods 10.64.0.5 TCP 8080',
      'remote 10.64.1.5 TCP 8080',
      'pods 10.64.0.5 UDP 53',
      'remote 10.64.1.5 UDP 53',
    ],
  )
  expect(plan.addresses.remote).toEqual(['192.0.2.11', '10.64.1.5'])
})

test.each([
  ['local-pod', '10.64.0.20', 'client'],
  ['endpoint-pod', '10.64.0.5', 'pods'],
  ['remote-pod', '10.64.1.20', 'visitor'],
  ['remote-pod', '10.64.1.5', 'remote'],
  ['host', '192.0.2.10', 'node'],
  ['loopback', '127.0.0.1', 'node'],
  ['external', '203.0.113.7', 'outside'],
])('a packet of a %s at %s starts at the place "%s"', (client, source, place) => {
  const packet = {
    client,
    source: source as Ip,
    destination: '10.96.0.1' as Ip,
    port: 80,
    protocol: 'TCP' as const,
    others: [],
    answeredByAgent: false,
  }
  expect(placeOfClient(packet, plan)).toBe(place)
  expect(placeOfDestination(packet, plan)).toBe('beyond')
})

test('an answer from the address that was dialled means that the proxy left the packet alone', () => {
  expect(observe([answered('10.96.0.1:80', CLIENT)], CLIENT, '10.96.0.1:80', plan).verdict).toBe('NONE')
})

test('masquerading shows in the source, or for the node itself in the port', () => {
  const by = (source: string, flow: FlowResult): unknown =>
    observe([flow], source as Ip, '10.96.0.1:80', plan).destinations.get('10.64.0.5:8080')?.masquerade
  expect(by(CLIENT, answered('10.64.0.5:8080', CLIENT))).toBe(false)
  expect(by(CLIENT, answered('10.64.0.5:8080', '192.0.2.10'))).toBe(true)
  expect(by('192.0.2.10', answered('10.64.0.5:8080', '192.0.2.10'))).toBe(false)
  expect(by('192.0.2.10', answered('10.64.0.5:8080', '192.0.2.10', false))).toBe(true)
})

test('flows that end differently, or with a source that is nobody, are no outcome', () => {
  const mixed = observe([{ result: 'refused' }, { result: 'silent' }], CLIENT, '10.96.0.1:80', plan)
  expect(mixed).toMatchObject({ verdict: 'MIXED', notes: ['1 flows: REJECT', '1 flows: DROP'] })
  const strange = observe([answered('10.64.0.5:8080', '198.18.0.1')], CLIENT, '10.96.0.1:80', plan)
  expect(strange.verdict).toBe('MIXED')
  expect(strange.notes[0]).toContain('neither the client nor the node')
})

test('shares are even within chance and uneven beyond it', () => {
  expect(looksEven([150, 160, 140])).toBe(true)
  expect(looksEven([210, 190])).toBe(true)
  expect(looksEven([267, 133])).toBe(false)
  expect(looksEven([300, 0])).toBe(false)
  expect(looksEven([5])).toBe(true)
})
