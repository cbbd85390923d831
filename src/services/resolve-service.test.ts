import { expect, test } from 'vitest'
import { decodeService } from '../cluster/decode-service.ts'
import type { ServicePort } from './service-map.ts'
import type { ResolutionView, ResolvedService } from './resolve-service.ts'
import { resolveService } from './resolve-service.ts'

const VIEW: ResolutionView = {
  name: 'n1',
  family: 'IPv4',
  zone: null,
  masqueradeAll: false,
  detectLocal: { by: 'interface', name: 'cbr0' },
  primaryIp: null,
}

function resolve(
  spec: object,
  extra: { labels?: object; status?: object; view?: Partial<ResolutionView> } = {},
): ResolvedService | null {
  const { record } = decodeService({
    metadata: { name: 'web', labels: extra.labels },
    spec: { clusterIP: '10.0.0.1', ports: [{ port: 80 }], ...spec },
    status: extra.status,
  })
  return resolveService({ key: 'default/web', service: record, slices: [] }, { ...VIEW, ...extra.view })
}

const frontends = (resolved: ResolvedService | null): string[] =>
  resolved!.ports.flatMap((port: ServicePort) =>
    port.frontends.map(({ kind, ip, port }) => `${kind} ${ip} ${port}`),
  )

test.each([
  ['headless', { clusterIP: 'None' }, {}],
  ['without a cluster IP', { clusterIP: '' }, {}],
  ['an ExternalName', { type: 'ExternalName' }, {}],
  ['labelled for another proxy', {}, { 'service.kubernetes.io/service-proxy-name': '' }],
  ['of the other family', { clusterIP: 'fd00::1' }, {}],
])('passes over a Service %s', (_, spec, labels) => {
  expect(resolve(spec, { labels })).toBeNull()
})

test('serves a Service that only carries the label of headless slices', () => {
  expect(frontends(resolve({}, { labels: { 'service.kubernetes.io/headless': '' } }))).toEqual([
    'ClusterIP 10.0.0.1 80',
  ])
})

test('lists every address once, of this family, in a fixed order', () => {
  const spec = {
    type: 'LoadBalancer',
    externalIPs: ['198.18.0.9', '198.18.0.10', '198.018.0.9', '10.0.0.1', 'fd00::9', '', '198.18.1.1'],
    ports: [{ port: 80, nodePort: 30_080 }],
  }
  const ingress = [
    { ip: '198.18.1.2', ipMode: 'Proxy' },
    { ip: '198.18.1.1' },
    { ip: '198.18.1.3', ipMode: 'VIP' },
  ]
  expect(frontends(resolve(spec, { status: { loadBalancer: { ingress } } }))).toEqual([
    'ClusterIP 10.0.0.1 80',
    'ExternalIP 198.18.0.9 80',
    'ExternalIP 198.18.0.10 80',
    'LoadBalancer 198.18.1.1 80',
    'LoadBalancer 198.18.1.3 80',
    'NodePort any-node-port-address 30080',
  ])
})

test('an external IP that is also a load-balancer IP stays behind the source ranges', () => {
  const spec = {
    type: 'LoadBalancer',
    externalIPs: ['198.18.0.1'],
    loadBalancerSourceRanges: ['192.0.2.0/24'],
  }
  const status = { loadBalancer: { ingress: [{ ip: '198.18.0.1' }] } }
  const [, external] = resolve(spec, { status })!.ports[0]!.frontends
  expect(external).toMatchObject({ kind: 'LoadBalancer', sourceRanges: ['192.0.2.0/24'] })
})

test('what cannot be used is left out and reported, in the family of the first cluster IP', () => {
  const spec = {
    clusterIPs: ['10.0.0.1', 'fd00::1'],
    type: 'LoadBalancer',
    externalTrafficPolicy: 'Local',
    externalIPs: ['nonsense'],
    loadBalancerSourceRanges: ['x'],
    sessionAffinity: 'ClientIP',
    sessionAffinityConfig: { clientIP: { timeoutSeconds: 100_000 } },
    ports: [
      { name: 'a', port: 80 },
      { name: 'a', port: 81 },
      { name: 'b', port: 0 },
      { name: 'c', port: 1, protocol: 'IGMP' },
      { name: 'd', port: 2, nodePort: 70_000 },
    ],
  }
  const resolved = resolve(spec)!
  expect(resolved.problems.map(({ field }) => field)).toEqual([
    'spec.externalIPs[0]',
    'spec.loadBalancerSourceRanges[0]',
    'spec.healthCheckNodePort',
    'spec.sessionAffinityConfig.clientIP.timeoutSeconds',
    'spec.ports[1].name',
    'spec.ports[2].port',
    'spec.ports[3].protocol',
    'spec.ports[4].nodePort',
  ])
  expect(resolved.problems.every(({ object }) => object === 'Service default/web')).toBe(true)
  expect(resolved.problems[1]!.message).toMatch(/everyone may connect/)
  expect(resolved.ports.map(({ id }) => id)).toEqual(['default/web:a', 'default/web:d'])
  expect(resolved.ports[0]!.affinitySeconds).toBe(86_400)
  expect(resolve(spec, { view: { family: 'IPv6' } })!.problems).toEqual([])
})

test('a cluster IP that is no address is reported and nothing is served', () => {
  const resolved = resolve({ clusterIP: '10.0.0.300' })!
  expect(resolved.ports).toEqual([])
  expect(resolved.problems.map(({ field }) => field)).toEqual(['spec.clusterIPs[0]'])
})

test('external policy Local means nothing for a Service that nothing outside can reach', () => {
  const port = resolve({ externalTrafficPolicy: 'Local' })!.ports[0]!
  expect(port).toMatchObject({ externalPolicyLocal: false, healthCheckNodePort: null })
  expect(port.pools.local).toBeNull()
})

test('only load balancers with external policy Local have a health check port', () => {
  const spec = {
    externalTrafficPolicy: 'Local',
    healthCheckNodePort: 32_000,
    ports: [{ port: 80, nodePort: 30_080 }],
  }
  expect(resolve({ ...spec, type: 'NodePort' })!.health).toBeNull()
  expect(resolve({ ...spec, type: 'LoadBalancer' })!.health).toMatchObject({
    port: 32_000,
    localReadyIps: [],
  })
})

test('cluster IPs are masqueraded always, for other sources than pods, or where pods cannot be told never', () => {
  const masquerade = (view: Partial<ResolutionView>) =>
    resolve({}, { view })!.ports[0]!.frontends[0]!.masquerade
  expect(masquerade({})).toBe('off-cluster-sources')
  expect(masquerade({ detectLocal: { by: 'none' } })).toBe('never')
  expect(masquerade({ detectLocal: { by: 'none' }, masqueradeAll: true })).toBe('always')
})
