import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Cidr } from '../../net/cidr.ts'
import type { Dict } from './json.ts'
import { dictOf, listOf } from './json.ts'
import type { ApiServer } from './server.ts'
import { startApiServer } from './server.ts'
import { TestClient, service } from './testing/client.ts'

const SERVICES = '/api/v1/namespaces/default/services'
const DUAL = ['10.96.0.0/16', 'fd00:10:96::/112'] as Cidr[]

let server: ApiServer
let client: TestClient

beforeEach(async () => {
  server = await startApiServer({ firstRevision: 1000, serviceCidrs: DUAL })
  client = new TestClient(server.url)
})
afterEach(async () => await server.close())

async function create(name: string, spec: Dict): Promise<Dict> {
  const { code, body } = await client.post(SERVICES, service(name, spec))
  if (code !== 201) throw new Error(String(body.message))
  return dictOf(body['spec'])
}

async function refusal(spec: Dict, name = 'bad'): Promise<string> {
  const { code, body } = await client.post(SERVICES, service(name, spec))
  expect([code, body.reason]).toEqual([422, 'Invalid'])
  return String(body.message)
}

async function update(name: string, spec: Dict): Promise<Dict> {
  const { code, body } = await client.patch(`${SERVICES}/${name}`, 'merge-patch+json', { spec })
  if (code !== 200) throw new Error(String(body.message))
  return dictOf(body['spec'])
}

test('default/kubernetes has the first address and leads to the server', async () => {
  const { body } = await client.get(`${SERVICES}/kubernetes`)
  expect(body['spec']).toMatchObject({ clusterIP: '10.96.0.1', ports: [{ port: 443 }] })
  const slice = await client.get('/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes')
  expect(slice.body).toMatchObject({
    endpoints: [{ addresses: ['127.0.0.1'] }],
    ports: [{ port: server.port }],
  })
})

test('a plain Service gets every default', async () => {
  expect(await create('s', {})).toEqual({
    selector: { app: 's' },
    ports: [{ port: 80, protocol: 'TCP', targetPort: 80 }],
    type: 'ClusterIP',
    sessionAffinity: 'None',
    internalTrafficPolicy: 'Cluster',
    ipFamilyPolicy: 'SingleStack',
    ipFamilies: ['IPv4'],
    clusterIP: expect.stringMatching(/^10\.96\.\d+\.\d+$/) as string,
    clusterIPs: [expect.stringMatching(/^10\.96\.\d+\.\d+$/)],
  })
})

describe('families', () => {
  test.each([
    ['PreferDualStack', {}, ['IPv4', 'IPv6']],
    ['RequireDualStack', { ipFamilies: ['IPv6'] }, ['IPv6', 'IPv4']],
    ['SingleStack', { ipFamilies: ['IPv6'] }, ['IPv6']],
  ])('%s with %j gives %j', async (ipFamilyPolicy, more, families) => {
    const spec = await create('s', { ipFamilyPolicy, ...more })
    expect(spec['ipFamilies']).toEqual(families)
    const ips = listOf<string>(spec['clusterIPs'])
    expect(ips.map((ip) => (ip.includes(':') ? 'IPv6' : 'IPv4'))).toEqual(families)
    expect(spec['clusterIP']).toBe(ips[0])
  })

  test('a headless Service has none, one without a selector has both families', async () => {
    expect(await create('h', { clusterIP: 'None' })).toMatchObject({
      clusterIPs: ['None'],
      ipFamilies: ['IPv4'],
    })
    const free = await create('free', { clusterIP: 'None', selector: {} })
    expect(free).toMatchObject({ ipFamilyPolicy: 'RequireDualStack', ipFamilies: ['IPv4', 'IPv6'] })
  })

  test('a Service can become dual stack and single stack again, keeping its primary address', async () => {
    const { clusterIP } = await create('s', {})
    const dual = await update('s', { ipFamilyPolicy: 'PreferDualStack', ipFamilies: null })
    expect([dual['clusterIP'], listOf(dual['clusterIPs']).length]).toEqual([clusterIP, 2])
    const single = await update('s', { ipFamilyPolicy: 'SingleStack' })
    expect(single).toMatchObject({ clusterIPs: [clusterIP], ipFamilies: ['IPv4'] })
  })

  test('a cluster of one family refuses the other and dual stack', async () => {
    await using single = await startApiServer({ serviceCidrs: ['10.96.0.0/16' as Cidr] })
    const other = new TestClient(single.url)
    const wanted = await other.post(SERVICES, service('s', { ipFamilies: ['IPv6'] }))
    expect(wanted.body.message).toContain(
      'spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster',
    )
    const dual = await other.post(SERVICES, service('s', { ipFamilyPolicy: 'RequireDualStack' }))
    expect(dual.body.message).toContain('not configured for dual-stack services')
    const prefer = await other.post(SERVICES, service('s', { ipFamilyPolicy: 'PreferDualStack' }))
    expect(prefer.body['spec']).toMatchObject({ ipFamilies: ['IPv4'] })
  })
})

describe('addresses and ports', () => {
  test('a chosen cluster IP is kept, and given once', async () => {
    expect(await create('dns', { clusterIP: '10.96.0.10' })).toMatchObject({ clusterIPs: ['10.96.0.10'] })
    expect(await refusal({ clusterIP: '10.96.0.10' })).toContain('provided IP is already allocated')
    expect(await refusal({ clusterIP: '10.97.0.10' })).toContain('not in the valid range')
    await client.send('DELETE', `${SERVICES}/dns`)
    expect(await create('again', { clusterIP: '10.96.0.10' })).toMatchObject({ clusterIP: '10.96.0.10' })
  })

  test('a full range is reported', async () => {
    await using tiny = await startApiServer({ serviceCidrs: ['10.96.0.0/30' as Cidr] })
    const other = new TestClient(tiny.url)
    expect((await other.post(SERVICES, service('a'))).code).toBe(201)
    expect((await other.post(SERVICES, service('b'))).body.message).toContain('range is full')
  })

  test('node ports are given, kept, taken back and given once', async () => {
    const ports = [
      { name: 'a', port: 80 },
      { name: 'b', port: 53, protocol: 'UDP' },
      { name: 'c', port: 53 },
    ]
    const spec = await create('np', { type: 'NodePort', ports })
    const [a, b, c] = listOf<{ nodePort: number }>(spec['ports']).map(({ nodePort }) => nodePort)
    expect(a).toBeGreaterThanOrEqual(30_000)
    expect([b !== a, b === c]).toEqual([true, true])
    const taken = { type: 'NodePort', ports: [{ port: 1, nodePort: a }] }
    expect(await refusal(taken)).toContain(
      `spec.ports[0].nodePort: Invalid value: ${a}: provided port is already allocated`,
    )
    expect(await refusal({ type: 'NodePort', ports: [{ port: 1, nodePort: 80 }] })).toContain('30000-32767')
    const applied = await update('np', { ports: ports.toReversed() })
    expect(listOf<{ name: string; nodePort: number }>(applied['ports']).at(-1)).toMatchObject({ nodePort: a })
    const internal = await update('np', { type: 'ClusterIP' })
    expect(JSON.stringify(internal)).not.toContain('nodePort')
    expect(internal).not.toHaveProperty('externalTrafficPolicy')
    expect(await create('other', taken)).toMatchObject({ ports: [{ nodePort: a }] })
  })

  test('a load balancer with local traffic has a health check node port for as long', async () => {
    const spec = await create('lb', { type: 'LoadBalancer', externalTrafficPolicy: 'Local' })
    expect(spec).toMatchObject({ allocateLoadBalancerNodePorts: true })
    expect(spec['healthCheckNodePort']).toBeGreaterThanOrEqual(30_000)
    const cluster = await update('lb', { externalTrafficPolicy: 'Cluster' })
    expect(cluster).not.toHaveProperty('healthCheckNodePort')
    const bare = await create('bare', { type: 'LoadBalancer', allocateLoadBalancerNodePorts: false })
    expect(JSON.stringify(bare)).not.toContain('nodePort')
  })

  test('addresses of raw objects count as taken', async () => {
    server.store.putRaw([
      service('raw', { clusterIP: '10.96.0.77', type: 'NodePort', ports: [{ port: 1, nodePort: 30_500 }] }),
    ])
    expect(await refusal({ clusterIP: '10.96.0.77' })).toContain('already allocated')
    expect(await refusal({ type: 'NodePort', ports: [{ port: 1, nodePort: 30_500 }] })).toContain(
      'already allocated',
    )
  })

  test('a type change to ExternalName gives the cluster IP back', async () => {
    const { clusterIP } = await create('s', {})
    const spec = await update('s', { type: 'ExternalName', externalName: 'example.com' })
    expect(spec).not.toHaveProperty('clusterIP')
    expect(spec).not.toHaveProperty('ipFamilies')
    expect(await create('t', { clusterIP })).toMatchObject({ clusterIP })
  })
})

test('session affinity gets its time and loses it again', async () => {
  const spec = await create('s', { sessionAffinity: 'ClientIP' })
  expect(spec['sessionAffinityConfig']).toEqual({ clientIP: { timeoutSeconds: 10_800 } })
  expect(await update('s', { sessionAffinity: 'None' })).not.toHaveProperty('sessionAffinityConfig')
})

test('the primary cluster IP cannot be changed', async () => {
  await create('s', {})
  const { code, body } = await client.patch(`${SERVICES}/s`, 'merge-patch+json', {
    spec: { clusterIP: '10.96.9.9', clusterIPs: ['10.96.9.9'] },
  })
  expect([code, body.message]).toEqual([
    422,
    expect.stringContaining('spec.clusterIPs[0]: Invalid value: ["10.96.9.9"]: may not change once set'),
  ])
})

test.each<[string, Dict, string]>([
  ['no ports', { ports: [] }, 'spec.ports: Required value'],
  [
    'an unnamed second port',
    { ports: [{ port: 1 }, { port: 2, name: 'b' }] },
    'spec.ports[0].name: Required value',
  ],
  [
    'a duplicate port',
    {
      ports: [
        { port: 1, name: 'a' },
        { port: 1, name: 'b' },
      ],
    },
    'spec.ports[1]: Duplicate value',
  ],
  [
    'a duplicate name',
    {
      ports: [
        { port: 1, name: 'a' },
        { port: 2, name: 'a' },
      ],
    },
    'spec.ports[1].name: Duplicate value: "a"',
  ],
  [
    'port 0',
    { ports: [{ port: 0 }] },
    'spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive',
  ],
  [
    'a long target port name',
    { ports: [{ port: 1, targetPort: 'much-too-long-a-name' }] },
    'spec.ports[0].targetPort',
  ],
  [
    'an unknown protocol',
    { ports: [{ port: 1, protocol: 'ICMP' }] },
    'Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"',
  ],
  ['an unknown type', { type: 'Cluster' }, 'spec.type: Unsupported value: "Cluster"'],
  [
    'a node port of a ClusterIP',
    { ports: [{ port: 1, nodePort: 30_001 }] },
    "may not be used when `type` is 'ClusterIP'",
  ],
  [
    '0 seconds of affinity',
    { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 0 } } },
    'must be greater than 0 and less than 86400',
  ],
  [
    'too long an affinity',
    { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 86_401 } } },
    'timeoutSeconds: Invalid value: 86401',
  ],
  [
    'an unknown policy',
    { type: 'NodePort', externalTrafficPolicy: 'local' },
    'spec.externalTrafficPolicy: Unsupported value: "local"',
  ],
  [
    'an external policy inside',
    { externalTrafficPolicy: 'Local' },
    'may only be set for externally-accessible services',
  ],
  [
    'a malformed source range',
    { type: 'LoadBalancer', loadBalancerSourceRanges: ['10.0.0.1'] },
    'spec.loadBalancerSourceRanges[0]: Invalid value: "10.0.0.1"',
  ],
  [
    'source ranges of a NodePort',
    { type: 'NodePort', loadBalancerSourceRanges: ['10.0.0.0/8'] },
    'spec.loadBalancerSourceRanges: Forbidden',
  ],
  ['a malformed external IP', { externalIPs: ['300.1.1.1'] }, 'spec.externalIPs[0]: Invalid value'],
  ['an external loopback address', { externalIPs: ['127.0.0.1'] }, 'loopback'],
  ['no external name', { type: 'ExternalName' }, 'spec.externalName: Required value'],
  ['an unknown distribution', { trafficDistribution: 'Near' }, 'spec.trafficDistribution: Unsupported value'],
  ['a family twice', { ipFamilies: ['IPv4', 'IPv4'] }, 'spec.ipFamilies[1]: Duplicate value: "IPv4"'],
  [
    'an address of the other family',
    { ipFamilies: ['IPv6'], clusterIP: '10.96.0.9' },
    'expected an IPv6 value',
  ],
  ['a bad selector', { selector: { a: 'b c' } }, 'spec.selector: Invalid value: "b c"'],
])('a Service with %s is refused', async (_what, spec, message) => {
  expect(await refusal(spec)).toContain(message)
})

test('everything wrong is said at once, with its causes', async () => {
  const { body } = await client.post(SERVICES, service('Bad_Name', { type: 'X', ports: [{ port: 0 }] }))
  expect(body.message).toMatch(
    /^Service "Bad_Name" is invalid: \[metadata\.name: .*, spec\.type: .*, spec\.ports\[0\]\.port: /,
  )
  expect(body['details']).toMatchObject({
    name: 'Bad_Name',
    kind: 'Service',
    causes: [
      { field: 'metadata.name' },
      { field: 'spec.type' },
      { field: 'spec.ports[0].port', reason: 'FieldValueInvalid' },
      { field: 'spec.ports[0].targetPort' },
    ],
  })
})

test.each<[string, Dict, string]>([
  ['no address type', { addressType: undefined }, 'addressType: Required value'],
  [
    'an address of the other family',
    { endpoints: [{ addresses: ['fd00::1'] }] },
    'endpoints[0].addresses[0]: Invalid value: "fd00::1"',
  ],
  [
    'an endpoint without address',
    { endpoints: [{ addresses: [] }] },
    'endpoints[0].addresses: Required value',
  ],
  ['a loopback endpoint', { endpoints: [{ addresses: ['127.0.0.1'] }] }, 'loopback range'],
  ['a port out of range', { ports: [{ port: 70_000 }] }, 'ports[0].port: Invalid value: 70000'],
  ['two ports of one name', { ports: [{ port: 1 }, { port: 2 }] }, 'ports[1].name: Duplicate value'],
])('an EndpointSlice with %s is refused', async (_what, more, message) => {
  const slice = { metadata: { name: 'x' }, addressType: 'IPv4', endpoints: [], ports: [], ...more }
  const { code, body } = await client.post(
    '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices',
    slice,
  )
  expect([code, body.message]).toEqual([422, expect.stringContaining(message)])
})
