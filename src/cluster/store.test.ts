import fc from 'fast-check'
import { expect, test } from 'vitest'
import { clusterStateFromObjects, createDecoders } from './objects.ts'
import type { ServiceRecord, SliceRecord } from './state.ts'
import { ClusterStore } from './store.ts'

const decoders = createDecoders()

function service(name: string, clusterIP = '10.0.0.1', annotations: object = {}): ServiceRecord {
  return decoders.services({
    metadata: { namespace: 'a', name, resourceVersion: String(Math.random()), annotations },
    spec: { clusterIP, ports: [{ port: 80 }] },
  }).record!
}

function slice(name: string, of: string, ip = '10.0.1.1', annotations: object = {}): SliceRecord {
  return decoders.endpointslices({
    metadata: { namespace: 'a', name, annotations, labels: { 'kubernetes.io/service-name': of } },
    addressType: 'IPv4',
    ports: [{ port: 8080 }],
    endpoints: [{ addresses: [ip] }],
  }).record!
}

test('a Service and its slices meet in one bundle, whichever comes first', () => {
  const store = new ClusterStore('n1')
  store.upsert('endpointslices', slice('web-2', 'web'))
  expect(store.snapshot().services.get('a/web')?.service).toBeNull()
  store.upsert('services', service('web'))
  store.upsert('endpointslices', slice('web-1', 'web'))
  const bundle = store.snapshot().services.get('a/web')
  expect(bundle?.service?.name).toBe('web')
  expect(bundle?.slices.map(({ name }) => name)).toEqual(['web-1', 'web-2'])
})

test('an update of what is not used keeps the snapshot, and a deletion of nothing too', () => {
  const store = new ClusterStore('n1')
  store.upsert('services', service('web'))
  store.upsert('endpointslices', slice('web-1', 'web'))
  const before = store.snapshot()
  expect(store.upsert('services', service('web', '10.0.0.1', { touched: 'yes' }))).toBe(false)
  const dated = { 'endpoints.kubernetes.io/last-change-trigger-time': '2026-01-02T03:04:05Z' }
  expect(store.upsert('endpointslices', slice('web-1', 'web', '10.0.1.1', dated))).toBe(false)
  expect(store.remove('services', 'a/other')).toBe(false)
  expect(store.snapshot()).toBe(before)
})

test('a relist that equals what is there keeps every identity, one that differs drops what is gone', () => {
  const store = new ClusterStore('n1')
  store.replace('services', [service('web'), service('db')])
  store.replace('endpointslices', [slice('web-1', 'web'), slice('db-1', 'db')])
  const before = store.snapshot()
  expect(store.replace('services', [service('db'), service('web')])).toBe(false)
  expect(store.replace('endpointslices', [slice('db-1', 'db'), slice('web-1', 'web')])).toBe(false)
  expect(store.snapshot()).toBe(before)

  store.replace('services', [service('web')])
  store.replace('endpointslices', [slice('web-1', 'web', '10.0.1.2')])
  const after = store.snapshot()
  expect([...after.services.keys()]).toEqual(['a/web'])
  expect(after.services.get('a/web')!.service).toBe(before.services.get('a/web')!.service)
})

test('an event leaves the bundles of other Services untouched', () => {
  const store = new ClusterStore('n1')
  store.replace(
    'services',
    Array.from({ length: 500 }, (_, i) => service(`s${i}`)),
  )
  const before = store.snapshot()
  store.upsert('endpointslices', slice('s7-1', 's7'))
  expect([...store.snapshot().services.changesSince(before.services)].map(({ key }) => key)).toEqual(['a/s7'])
})

test('a slice that is given to another Service leaves the first', () => {
  const store = new ClusterStore('n1')
  store.upsert('endpointslices', slice('x', 'one'))
  store.upsert('endpointslices', slice('x', 'two'))
  expect([...store.snapshot().services.keys()]).toEqual(['a/two'])
  store.remove('endpointslices', 'a/x')
  expect(store.snapshot().services.size).toBe(0)
})

test('only the Node of this name counts, and all ServiceCIDRs do', () => {
  const store = new ClusterStore('n1')
  const node = (name: string) => decoders.nodes({ metadata: { name } }).record!
  store.replace('nodes', [node('n2'), node('n1')])
  expect(store.snapshot().node?.name).toBe('n1')
  const before = store.snapshot()
  store.upsert('nodes', node('n1'))
  store.remove('nodes', 'n2')
  expect(store.snapshot()).toBe(before)
  store.remove('nodes', 'n1')
  expect(store.snapshot().node).toBeNull()

  const cidr = (name: string, cidrs: string[]) =>
    decoders.servicecidrs({ metadata: { name }, spec: { cidrs } }).record!
  store.upsert('servicecidrs', cidr('b', ['10.97.0.0/16']))
  store.upsert('servicecidrs', cidr('a', ['10.96.0.0/16', 'fd00::/112']))
  expect(store.snapshot().serviceCidrs).toEqual(['10.96.0.0/16', '10.97.0.0/16', 'fd00::/112'])
  store.remove('servicecidrs', 'a')
  expect(store.snapshot().serviceCidrs).toEqual(['10.97.0.0/16'])
})

test('any sequence of events ends in the state that a list of the outcome gives', () => {
  const event = fc.record({
    slice: fc.integer({ min: 0, max: 3 }),
    of: fc.constantFrom('web', 'db'),
    ip: fc.constantFrom('10.0.1.1', '10.0.1.2', null),
  })
  fc.assert(
    fc.property(fc.array(event, { maxLength: 20 }), (events) => {
      const store = new ClusterStore('n1')
      const left = new Map<string, SliceRecord>()
      for (const { slice: i, of, ip } of events) {
        const name = `s${i}`
        if (ip === null) {
          store.remove('endpointslices', `a/${name}`)
          left.delete(name)
        } else {
          store.upsert('endpointslices', slice(name, of, ip))
          left.set(name, slice(name, of, ip))
        }
      }
      const listed = new ClusterStore('n1')
      listed.replace('endpointslices', left.values())
      expect(store.snapshot().services.toJSON()).toEqual(listed.snapshot().services.toJSON())
    }),
  )
})

test('objects from files may come in lists and among kinds of no use', () => {
  const { state, problems } = clusterStateFromObjects(
    [
      { kind: 'Pod', metadata: { name: 'p' } },
      {
        kind: 'List',
        items: [{ kind: 'Service', metadata: { name: 'web' }, spec: { clusterIP: '10.0.0.1' } }],
      },
      { kind: 'NodeList', items: [{ metadata: { name: 'n1' } }] },
      { kind: 'EndpointSlice', metadata: { name: 'x' }, addressType: 'IPv4' },
    ],
    'n1',
  )
  expect([...state.services.keys()]).toEqual(['default/web'])
  expect(state.node?.name).toBe('n1')
  expect(problems.map(({ object }) => object)).toEqual(['EndpointSlice default/x'])
})
