import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { EndpointRecord, SliceRecord } from '../cluster/state.ts'
import type { Ip } from '../net/ip.ts'
import { categorise, mergeEndpoints } from './endpoints.ts'

const NODE = { name: 'n1', family: 'IPv4', zone: 'z1' } as const
const PORT = { name: 'web', protocol: 'TCP' } as const

function endpoint(ip: string, fields: Partial<EndpointRecord> = {}): EndpointRecord {
  return {
    ip: ip as Ip,
    ready: true,
    serving: true,
    terminating: false,
    nodeName: 'n2',
    zone: null,
    forZones: [],
    forNodes: [],
    ...fields,
  }
}

const DRAINING = { ready: false, serving: true, terminating: true }
const GONE = { ready: false, serving: false, terminating: true }

function slice(
  endpoints: readonly EndpointRecord[],
  port: number | null = 8080,
  fields: Partial<SliceRecord> = {},
): SliceRecord {
  return {
    namespace: 'a',
    name: `s${port}`,
    service: 'web',
    family: 'IPv4',
    ports: [{ name: 'web', protocol: 'TCP', port }],
    endpoints,
    triggeredAt: null,
    ...fields,
  }
}

/** `ip:port`, with `+` for endpoints of this node and `~` for terminating ones. */
function used(slices: readonly SliceRecord[], policy: 'cluster' | 'local' = 'cluster'): string[] {
  return categorise(mergeEndpoints(slices, PORT, NODE), NODE)[policy].endpoints.map(
    ({ ip, port, isLocal, state }) =>
      `${ip}:${port}${isLocal ? '+' : ''}${state === 'terminating' ? '~' : ''}`,
  )
}

test('slices of the other family, of other ports and without a port number give nothing', () => {
  const list = [endpoint('10.0.0.1')]
  const other = (port: SliceRecord['ports'][number]): SliceRecord => slice(list, 1, { ports: [port] })
  expect(used([slice(list, null), slice(list, 8080, { family: 'IPv6' })])).toEqual([])
  expect(
    used([other({ name: '', protocol: 'TCP', port: 1 }), other({ name: 'web', protocol: 'UDP', port: 1 })]),
  ).toEqual([])
})

test('endpoints are sorted by address bytes, then port, each once', () => {
  const slices = [
    slice([endpoint('10.0.0.10'), endpoint('10.0.0.9')], 9090),
    slice([endpoint('10.0.0.10'), endpoint('10.0.0.10')]),
  ]
  expect(used(slices)).toEqual(['10.0.0.9:9090', '10.0.0.10:8080', '10.0.0.10:9090'])
})

test.each([
  ['ready before draining', {}, DRAINING],
  ['draining before gone', DRAINING, GONE],
  ['on this node before elsewhere', { nodeName: 'n1' }, { nodeName: 'n2' }],
  ['hinted before not hinted', { forZones: ['z1'] }, {}],
])('of two entries for one address the better wins: %s', (_, better, worse) => {
  const alone = categorise(mergeEndpoints([slice([endpoint('10.0.0.1', better)])], PORT, NODE), NODE)
  for (const order of [
    [better, worse],
    [worse, better],
  ]) {
    const slices = order.map((fields) => slice([endpoint('10.0.0.1', fields)]))
    const merged = mergeEndpoints(slices, PORT, NODE)
    expect(categorise(merged, NODE)).toEqual(alone)
    expect(merged.map(({ record }) => record)).toEqual([endpoint('10.0.0.1', better)])
  }
})

test('draining endpoints serve only where none is ready, judged apart for Cluster and Local', () => {
  const slices = [
    slice([
      endpoint('10.0.0.1'),
      endpoint('10.0.0.2', { ...DRAINING, nodeName: 'n1' }),
      endpoint('10.0.0.3', GONE),
    ]),
  ]
  expect(used(slices)).toEqual(['10.0.0.1:8080'])
  expect(used(slices, 'local')).toEqual(['10.0.0.2:8080+~'])
})

test('publishing addresses that are not ready makes them ready, also while terminating', () => {
  expect(used([slice([endpoint('10.0.0.1', { serving: false, terminating: true })])])).toEqual([
    '10.0.0.1:8080',
  ])
})

test('hints for nodes go before hints for zones, and each needs all ready endpoints to have one', () => {
  const zones = [endpoint('10.0.0.1', { forZones: ['z1'] }), endpoint('10.0.0.2', { forZones: ['z2'] })]
  const both = [
    endpoint('10.0.0.1', { forZones: ['z1'], forNodes: ['n2'] }),
    endpoint('10.0.0.2', { forZones: ['z2'], forNodes: ['n1'] }),
  ]
  expect(used([slice(zones)])).toEqual(['10.0.0.1:8080'])
  expect(used([slice(both)])).toEqual(['10.0.0.2:8080'])
  expect(used([slice([...both, zones[0]!])])).toEqual(['10.0.0.2:8080'])
  expect(used([slice([...zones, endpoint('10.0.0.3')])])).toHaveLength(3)
  expect(used([slice([...zones, endpoint('10.0.0.3', GONE)])])).toEqual(['10.0.0.1:8080'])
  expect(used([slice(zones.map((record) => ({ ...record, forZones: ['z9'] })))])).toHaveLength(2)
})

test('every usable address is served under some policy, and none that is not', () => {
  const anyEndpoint = fc
    .record({
      ip: fc.constantFrom('10.0.0.1', '10.0.0.2', '10.0.0.3', '10.0.0.4'),
      nodeName: fc.constantFrom('n1', 'n2', null),
      ready: fc.boolean(),
      serving: fc.boolean(),
      terminating: fc.boolean(),
      forZones: fc.subarray(['z1', 'z2']),
    })
    .map(({ ip, ...fields }) => endpoint(ip, fields))
  fc.assert(
    fc.property(fc.array(anyEndpoint, { maxLength: 8 }), (records) => {
      const { cluster, local } = categorise(mergeEndpoints([slice(records)], PORT, NODE), NODE)
      const usable = records.some(({ ready, serving, terminating }) => ready || (serving && terminating))
      expect(cluster.endpoints.length > 0).toBe(usable)
      expect(local.endpoints.every(({ isLocal }) => isLocal)).toBe(true)
      expect(new Set(cluster.endpoints.map(({ state }) => state)).size).toBeLessThanOrEqual(1)
      for (const { ip, state } of [...cluster.endpoints, ...local.endpoints]) {
        const ready = records.some((record) => record.ip === ip && record.ready)
        expect(ready).toBe(state === 'ready')
      }
    }),
  )
})
