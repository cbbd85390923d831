import fc from 'fast-check'
import { expect, test, vi } from 'vitest'
import { createDecoders } from '../cluster/objects.ts'
import type { ServiceRecord, SliceRecord } from '../cluster/state.ts'
import { ClusterStore } from '../cluster/store.ts'
import type { Ip } from '../net/ip.ts'
import { buildServiceMap, noLocalEndpoints } from './build-service-map.ts'
import { nodeView } from './node-view.ts'
import type { NodeView, ServiceMap, ServicePortId } from './service-map.ts'

// Properties take long on a busy machine; a limit of time says nothing about them.
vi.setConfig({ testTimeout: 60_000 })

const decoders = createDecoders()

function view(overrides: Partial<NodeView> = {}): NodeView {
  const made = nodeView({
    name: 'n1',
    family: 'IPv4',
    node: null,
    addresses: ['192.0.2.1' as Ip],
    serviceCidrs: [],
    config: {
      detectLocalMode: 'InterfaceNamePrefix',
      detectLocal: { bridgeInterface: '', interfaceNamePrefix: 'veth' },
      clusterCidrs: [],
      nodePortAddresses: [],
      bindAddress: '',
    },
    masquerade: { masqueradeAll: false, masqueradeBit: 14 },
    emptyNodePortAddresses: 'any-local',
  })
  return { ...made, ...overrides }
}

function service(name: string, spec: object = {}, created = ''): ServiceRecord {
  return decoders.services({
    metadata: { namespace: 'a', name, creationTimestamp: created },
    spec: { clusterIP: '10.0.0.1', ports: [{ name: 'web', port: 80 }], ...spec },
  }).record!
}

interface EndpointShape {
  readonly ip: string
  readonly node: string
  readonly ready: boolean
  readonly serving: boolean
  readonly terminating: boolean
  readonly zone: string | null
}

function slice(name: string, of: string, endpoints: readonly EndpointShape[]): SliceRecord {
  return decoders.endpointslices({
    metadata: { namespace: 'a', name, labels: { 'kubernetes.io/service-name': of } },
    addressType: 'IPv4',
    ports: [{ name: 'web', port: 8080 }],
    endpoints: endpoints.map(({ ip, node, zone, ...conditions }) => ({
      addresses: [ip],
      nodeName: node,
      conditions,
      ...(zone === null ? {} : { hints: { forZones: [{ name: zone }] } }),
    })),
  }).record!
}

const READY = { node: 'n2', ready: true, serving: true, terminating: false, zone: null }

/** Everything in a map that has meaning. */
const plain = (map: ServiceMap): unknown => ({
  json: JSON.parse(JSON.stringify(map)),
  local: noLocalEndpoints(map),
})

test('a changed slice among 2000 Services costs one Service and one port', () => {
  const store = new ClusterStore('n1')
  const address = (i: number): string => `10.${i >> 8}.${i & 255}.1`
  store.replace(
    'services',
    Array.from({ length: 2000 }, (_, i) => service(`s${i}`, { clusterIP: address(i) })),
  )
  const slices = (i: number) => slice(`s${i}-x`, `s${i}`, [{ ...READY, ip: address(i + 4000) }])
  store.replace(
    'endpointslices',
    Array.from({ length: 2000 }, (_, i) => slices(i)),
  )
  const first = buildServiceMap(store.snapshot(), view())
  expect(first.ports.size).toBe(2000)

  store.upsert('endpointslices', slice('s7-x', 's7', [{ ...READY, ip: '10.9.9.9' }]))
  const work = { services: 0, ports: 0 }
  const second = buildServiceMap(store.snapshot(), view(), first, work)
  expect(work).toEqual({ services: 1, ports: 1 })
  expect([...second.ports.changesSince(first.ports)].map(({ key }) => key)).toEqual(['a/s7:web'])
})

test('a change of the node that no port depends on rebuilds nothing, and one that does keeps what is equal', () => {
  const store = new ClusterStore('n1')
  store.upsert('services', service('plain'))
  store.upsert('services', service('zoned', { clusterIP: '10.0.0.2' }))
  store.upsert('endpointslices', slice('p', 'plain', [{ ...READY, ip: '10.1.0.1' }]))
  store.upsert(
    'endpointslices',
    slice('z', 'zoned', [
      { ...READY, ip: '10.1.0.2', zone: 'z1' },
      { ...READY, ip: '10.1.0.3', zone: 'z2' },
    ]),
  )
  const state = store.snapshot()
  const first = buildServiceMap(state, view({ zone: 'z1' }))

  const work = { services: 0, ports: 0 }
  const moved = buildServiceMap(state, view({ zone: 'z1', localIps: ['192.0.2.2' as Ip] }), first, work)
  expect(work).toEqual({ services: 0, ports: 0 })
  expect(moved.node.localIps).toEqual(['192.0.2.2'])
  expect(moved.ports).toBe(first.ports)

  const rezoned = buildServiceMap(state, view({ zone: 'z2' }), first)
  expect([...rezoned.ports.changesSince(first.ports)].map(({ key }) => key)).toEqual(['a/zoned:web'])
  expect(buildServiceMap(state, view({ zone: 'z2' }), rezoned)).toBe(rezoned)
})

test('a port whose pool did not change keeps the pool when something else of it changes', () => {
  const store = new ClusterStore('n1')
  store.upsert('services', service('web'))
  store.upsert('endpointslices', slice('w', 'web', [{ ...READY, ip: '10.1.0.1' }]))
  const id = 'a/web:web' as ServicePortId
  const first = buildServiceMap(store.snapshot(), view())
  store.upsert('services', service('web', { sessionAffinity: 'ClientIP' }))
  const second = buildServiceMap(store.snapshot(), view(), first)
  expect(second.ports.get(id)!.affinitySeconds).toBe(10_800)
  expect(second.ports.get(id)!.pools.cluster).toBe(first.ports.get(id)!.pools.cluster)
})

test('a conflict over one address rebuilds only the ports that claim it', () => {
  const store = new ClusterStore('n1')
  const claimants = ['one', 'two', 'three'].map((name, i) =>
    service(name, { clusterIP: `10.0.1.${i}`, externalIPs: ['198.18.0.1'] }, `2026-01-0${i + 1}T00:00:00Z`),
  )
  const bystanders = Array.from({ length: 50 }, (_, i) => service(`s${i}`, { clusterIP: `10.0.2.${i}` }))
  store.replace('services', [...claimants, ...bystanders])
  const first = buildServiceMap(store.snapshot(), view())
  store.remove('services', 'a/one')
  const work = { services: 0, ports: 0 }
  const second = buildServiceMap(store.snapshot(), view(), first, work)
  expect(work).toEqual({ services: 0, ports: 2 })
  expect(second.ports.get('a/two:web')!.shadowed).toEqual([])
  expect(second.ports.get('a/three:web')!.shadowed.map(({ owner }) => owner)).toEqual(['a/two:web'])
})

test('a map made by hand or of another family does not disturb the next build', () => {
  const store = new ClusterStore('n1')
  store.upsert('services', service('web', { clusterIPs: ['10.0.0.1', 'fd00::1'] }))
  const first = buildServiceMap(store.snapshot(), view())
  store.remove('services', 'a/web')
  const { index: _, ...byHand } = first
  expect(buildServiceMap(store.snapshot(), view(), byHand).ports.size).toBe(0)
  store.upsert('services', service('web', { clusterIPs: ['10.0.0.1', 'fd00::1'] }))
  const six = buildServiceMap(store.snapshot(), view({ family: 'IPv6' }), first)
  expect(plain(six)).toEqual(plain(buildServiceMap(store.snapshot(), view({ family: 'IPv6' }))))
})

const NAMES = ['a', 'b', 'c'] as const

const anEndpoint = fc.record({
  ip: fc.constantFrom('10.1.0.1', '10.1.0.2', '10.1.0.3'),
  node: fc.constantFrom('n1', 'n2'),
  ready: fc.boolean(),
  serving: fc.boolean(),
  terminating: fc.boolean(),
  zone: fc.constantFrom('z1', 'z2', null),
})

const aService = fc
  .record({
    name: fc.constantFrom(...NAMES),
    clusterIP: fc.constantFrom('10.0.0.1', '10.0.0.2', 'None', 'x'),
    type: fc.constantFrom('ClusterIP', 'NodePort', 'LoadBalancer'),
    external: fc.subarray(['10.0.0.1', '198.18.0.1']),
    nodePort: fc.constantFrom(0, 30_001),
    externalPolicy: fc.constantFrom('Cluster', 'Local'),
    internalPolicy: fc.constantFrom('Cluster', 'Local'),
    created: fc.constantFrom('', '2026-01-01T00:00:00Z', '2026-02-01T00:00:00Z'),
    protocol: fc.constantFrom('TCP', 'UDP'),
  })
  .map((shape) =>
    service(
      shape.name,
      {
        clusterIP: shape.clusterIP,
        type: shape.type,
        externalIPs: shape.external,
        externalTrafficPolicy: shape.externalPolicy,
        internalTrafficPolicy: shape.internalPolicy,
        healthCheckNodePort: 32_001,
        ports: [{ name: 'web', port: 80, nodePort: shape.nodePort, protocol: shape.protocol }],
      },
      shape.created,
    ),
  )

const aSlice = fc
  .record({
    name: fc.constantFrom('x', 'y'),
    of: fc.constantFrom(...NAMES),
    endpoints: fc.array(anEndpoint, { maxLength: 4 }),
  })
  .map(({ name, of, endpoints }) => slice(`${of}-${name}`, of, endpoints))

type Edit = (store: ClusterStore) => void

const anEdit: fc.Arbitrary<Edit> = fc.oneof(
  aService.map(
    (record): Edit =>
      (store) =>
        void store.upsert('services', record),
  ),
  aSlice.map(
    (record): Edit =>
      (store) =>
        void store.upsert('endpointslices', record),
  ),
  fc.constantFrom(...NAMES).map(
    (name): Edit =>
      (store) =>
        void store.remove('services', `a/${name}`),
  ),
  fc.constantFrom('a-x', 'b-y').map(
    (name): Edit =>
      (store) =>
        void store.remove('endpointslices', `a/${name}`),
  ),
)

const aView = fc.record({ zone: fc.constantFrom('z1', 'z2', null), masqueradeAll: fc.boolean() })

test('a map built from the one before equals one built from nothing, and unchanged ports keep their identity', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(anEdit, aView), { maxLength: 12 }), (steps) => {
      const store = new ClusterStore('n1')
      let map: ServiceMap | null = null
      for (const [edit, changes] of steps) {
        edit(store)
        const before: ServiceMap | null = map
        map = buildServiceMap(store.snapshot(), view(changes), before)
        expect(plain(map)).toEqual(plain(buildServiceMap(store.snapshot(), view(changes))))
        for (const [id, port] of map.ports) {
          const known = before?.ports.get(id)
          if (known !== undefined && JSON.stringify(known) === JSON.stringify(port)) expect(port).toBe(known)
        }
      }
    }),
    { numRuns: 150 },
  )
})

test('the order in which objects arrive, and the order of endpoints in a slice, change nothing', () => {
  const services = fc.uniqueArray(aService, { selector: ({ name }) => name })
  const slices = fc.uniqueArray(aSlice, { selector: ({ name }) => name })
  const shuffled = fc
    .tuple(services, slices)
    .chain(([serviceList, sliceList]) =>
      fc.tuple(
        fc.constant({ serviceList, sliceList }),
        fc.shuffledSubarray(serviceList, { minLength: serviceList.length }),
        fc.shuffledSubarray(sliceList, { minLength: sliceList.length }),
      ),
    )
  const built = (
    serviceList: readonly ServiceRecord[],
    sliceList: readonly SliceRecord[],
    first: 'services' | 'slices',
  ) => {
    const store = new ClusterStore('n1')
    if (first === 'services') for (const record of serviceList) store.upsert('services', record)
    for (const record of sliceList) store.upsert('endpointslices', record)
    if (first === 'slices') for (const record of serviceList) store.upsert('services', record)
    return plain(buildServiceMap(store.snapshot(), view({ zone: 'z1' })))
  }
  fc.assert(
    fc.property(shuffled, ([{ serviceList, sliceList }, otherServices, otherSlices]) => {
      const reversed = otherSlices.map((record) => ({ ...record, endpoints: record.endpoints.toReversed() }))
      expect(built(otherServices, reversed, 'slices')).toEqual(built(serviceList, sliceList, 'services'))
    }),
    { numRuns: 150 },
  )
})

test('an address and port has one owner at most, and every loser names it', () => {
  fc.assert(
    fc.property(fc.array(aService, { maxLength: 6 }), (records) => {
      const store = new ClusterStore('n1')
      for (const record of records) store.upsert('services', record)
      const map = buildServiceMap(store.snapshot(), view())
      const owners = new Map<string, string>()
      const keyOf = (frontend: { ip: string; port: number }, protocol: string) =>
        `${frontend.ip} ${frontend.port} ${protocol}`
      for (const { id, protocol, frontends } of map.ports.values()) {
        for (const frontend of frontends) {
          expect(owners.has(keyOf(frontend, protocol))).toBe(false)
          owners.set(keyOf(frontend, protocol), id)
        }
      }
      for (const { protocol, shadowed } of map.ports.values()) {
        for (const { frontend, owner } of shadowed) expect(owners.get(keyOf(frontend, protocol))).toBe(owner)
      }
    }),
  )
})
