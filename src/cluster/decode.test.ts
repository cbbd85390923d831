import { describe, expect, test } from 'vitest'
import { decodeEndpointSlice } from './decode-slice.ts'
import { decodeNode, decodeServiceCidr } from './decode-node.ts'
import { decodeService } from './decode-service.ts'
import { createInterner, UndecodableObjectError } from './fields.ts'

const slice = (extra: object, labels: object = {}): unknown => ({
  metadata: { namespace: 'a', name: 's1', labels: { 'kubernetes.io/service-name': 'web', ...labels } },
  addressType: 'IPv4',
  ...extra,
})

describe('decodeService', () => {
  test('fills in the defaults of the API', () => {
    const { record } = decodeService({
      metadata: { name: 'web' },
      spec: { clusterIP: '10.0.0.1', ports: [{ port: 80 }] },
    })
    expect(record).toMatchObject({
      namespace: 'default',
      type: 'ClusterIP',
      clusterIps: ['10.0.0.1'],
      ports: [{ name: '', protocol: 'TCP', port: 80, nodePort: 0 }],
      externalTrafficPolicy: 'Cluster',
      internalTrafficPolicy: 'Cluster',
      sessionAffinity: 'None',
      affinitySeconds: null,
      proxyName: null,
    })
  })

  test('keeps an empty proxy name, which is a label all the same', () => {
    const labels = { 'service.kubernetes.io/service-proxy-name': '' }
    expect(decodeService({ metadata: { name: 'web', labels } }).record.proxyName).toBe('')
  })

  test('leaves out load balancers without an address', () => {
    const ingress = [{ hostname: 'lb.example.test' }, { ip: '192.0.2.1', ipMode: 'Proxy' }]
    expect(
      decodeService({ metadata: { name: 'web' }, status: { loadBalancer: { ingress } } }).record
        .loadBalancerIngress,
    ).toEqual([{ ip: '192.0.2.1', ipMode: 'Proxy' }])
  })

  test.each([
    ['no object', 'text'],
    ['no metadata', {}],
    ['no name', { metadata: {} }],
    ['a spec that is a list', { metadata: { name: 'a' }, spec: [] }],
    ['ports that are no list', { metadata: { name: 'a' }, spec: { ports: {} } }],
    ['a port number in text', { metadata: { name: 'a' }, spec: { ports: [{ port: '80' }] } }],
    ['an address that is no text', { metadata: { name: 'a' }, spec: { externalIPs: [7] } }],
  ])('refuses %s', (_, json) => {
    expect(() => decodeService(json)).toThrow(UndecodableObjectError)
  })

  test('names the object and the field that it does not understand', () => {
    expect(() => decodeService({ metadata: { name: 'web', namespace: 'shop' }, spec: { ports: 1 } })).toThrow(
      /Service shop\/web: spec\.ports is not a list/,
    )
  })
})

describe('decodeEndpointSlice', () => {
  test('reads absent and null conditions as ready, serving and not terminating', () => {
    const endpoints = [{ addresses: ['10.0.0.1'] }, { addresses: ['10.0.0.2'], conditions: { ready: null } }]
    const { record } = decodeEndpointSlice(slice({ endpoints }))
    for (const endpoint of record!.endpoints) {
      expect(endpoint).toMatchObject({ ready: true, serving: true, terminating: false })
    }
    expect(record!.endpoints).toHaveLength(2)
  })

  test('reads padded octets as decimal and only the first address', () => {
    const { record } = decodeEndpointSlice(
      slice({ endpoints: [{ addresses: ['10.064.00.124', '10.0.0.9'] }] }),
    )
    expect(record!.endpoints.map(({ ip }) => ip)).toEqual(['10.64.0.124'])
  })

  test('leaves out and reports endpoints without an address of the family', () => {
    const endpoints = [
      { addresses: [] },
      { addresses: ['x'] },
      { addresses: ['fd00::1'] },
      { addresses: ['10.0.0.1'] },
    ]
    const { record, problems } = decodeEndpointSlice(slice({ endpoints }))
    expect(record!.endpoints).toHaveLength(1)
    expect(problems.map(({ field }) => field)).toEqual([
      'endpoints[0].addresses',
      'endpoints[1].addresses[0]',
      'endpoints[2].addresses[0]',
    ])
  })

  test.each([
    ['labelled headless', slice({}, { 'service.kubernetes.io/headless': '' }), 0],
    ['of type FQDN', slice({ addressType: 'FQDN' }), 0],
    ['of an unknown type', slice({ addressType: 'IPX' }), 1],
    ['of no Service', slice({}, { 'kubernetes.io/service-name': '' }), 1],
  ])('has no record for a slice %s', (_, json, problems) => {
    const decoded = decodeEndpointSlice(json)
    expect(decoded.record).toBeNull()
    expect(decoded.problems).toHaveLength(problems)
  })

  test('takes null lists as empty, a port without a number as null and reads hints', () => {
    expect(decodeEndpointSlice(slice({ endpoints: null, ports: null })).record).toMatchObject({
      endpoints: [],
      ports: [],
    })
    const { record } = decodeEndpointSlice(
      slice({
        ports: [
          { name: null, protocol: null },
          { name: 'dns', protocol: 'UDP', port: 53 },
        ],
        endpoints: [
          {
            addresses: ['10.0.0.1'],
            hints: { forZones: [{ name: 'z1' }, { name: 'z2' }], forNodes: [{ name: 'n1' }] },
          },
        ],
      }),
    )
    expect(record!.ports).toEqual([
      { name: '', protocol: 'TCP', port: null },
      { name: 'dns', protocol: 'UDP', port: 53 },
    ])
    expect(record!.endpoints[0]).toMatchObject({ forZones: ['z1', 'z2'], forNodes: ['n1'] })
  })

  test('reads the time of the last change', () => {
    const json = {
      metadata: {
        name: 's',
        labels: { 'kubernetes.io/service-name': 'web' },
        annotations: { 'endpoints.kubernetes.io/last-change-trigger-time': '2026-01-02T03:04:05Z' },
      },
      addressType: 'IPv6',
    }
    expect(decodeEndpointSlice(json).record?.triggeredAt).toBe(Date.UTC(2026, 0, 2, 3, 4, 5))
  })
})

test('decodeNode puts InternalIPs first, falls back to podCIDR and keeps only labels that place the node', () => {
  const { record, problems } = decodeNode({
    metadata: {
      name: 'n1',
      deletionTimestamp: '2026-01-01T00:00:00Z',
      labels: { 'topology.kubernetes.io/zone': 'z1', 'example.test/load': '7' },
    },
    spec: {
      podCIDR: '10.64.0.0/24',
      taints: [{ key: 'ToBeDeletedByClusterAutoscaler', effect: 'NoSchedule' }],
    },
    status: {
      addresses: [
        { type: 'Hostname', address: 'n1' },
        { type: 'ExternalIP', address: '203.0.113.9' },
        { type: 'InternalIP', address: 'no-address' },
        { type: 'InternalIP', address: '192.0.2.10' },
      ],
    },
  })
  expect(record).toEqual({
    name: 'n1',
    uid: '',
    labels: { 'topology.kubernetes.io/zone': 'z1' },
    podCidrs: ['10.64.0.0/24'],
    addresses: ['192.0.2.10', '203.0.113.9'],
    taints: ['ToBeDeletedByClusterAutoscaler'],
    deleting: true,
  })
  expect(problems.map(({ field }) => field)).toEqual(['status.addresses[2].address'])
})

test('decodeServiceCidr leaves out and reports what is no CIDR', () => {
  const decoded = decodeServiceCidr({
    metadata: { name: 'kubernetes' },
    spec: { cidrs: ['10.96.0.0/12', 'x'] },
  })
  expect(decoded.record.cidrs).toEqual(['10.96.0.0/12'])
  expect(decoded.problems).toHaveLength(1)
})

test('an interner starts anew instead of growing without end', () => {
  const intern = createInterner(2)
  expect(['a', 'b', 'c', 'a'].map(intern)).toEqual(['a', 'b', 'c', 'a'])
})
