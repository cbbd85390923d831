import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Inside, Running } from '../../test/support/inside.ts'
import { goInside, spawnInside } from '../../test/support/inside.ts'
import type { TestNamespace } from '../kernel/test-namespace.ts'
import { makeNamespace } from '../kernel/test-namespace.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const API = 'http://127.0.0.1:18080'
const NODE = 'worker-a'
const AGENT = [
  process.execPath,
  join(ROOT, 'bin/switchback'),
  'run',
  `--hostname-override=${NODE}`,
  '--proxy-mode=nftables',
]
const CLUSTER = [
  '--cluster-cidr=10.64.0.0/16',
  '--iptables-min-sync-period=50ms',
  '--iptables-sync-period=2s',
]

let namespace: TestNamespace
let inside: Inside
let directory: string
const running: Running[] = []
let count = 0

beforeEach(() => {
  expect(existsSync(join(ROOT, 'dist/cli/main.js')), 'run "npm run build" first').toBe(true)
  namespace = makeNamespace(`agent${++count}`)
  for (const address of ['192.0.2.10/32', '198.51.100.10/32', '10.64.0.5/32', '10.64.0.6/32']) {
    namespace.run(['ip', 'address', 'add', address, 'dev', 'lo'])
  }
  inside = goInside(namespace)
  directory = mkdtempSync(join(tmpdir(), 'switchback-agent-'))
})

afterEach(async () => {
  await Promise.all(running.splice(0).map((each) => each.stop('SIGKILL')))
  inside[Symbol.dispose]()
  namespace.close()
  rmSync(directory, { recursive: true })
})

function start(argv: readonly string[]): Running {
  const program = spawnInside(namespace, argv)
  running.push(program)
  return program
}

const agent = (...flags: string[]): Running => start([...AGENT, `--master=${API}`, ...CLUSTER, ...flags])

async function apiServer(): Promise<Running> {
  const server = start([
    process.execPath,
    join(ROOT, 'dist/lab/apiserver/main.js'),
    '--listen',
    '127.0.0.1:18080',
  ])
  await eventually(async () => expect((await inside.request(`${API}/api/v1/nodes`))?.status).toBe(200))
  return server
}

const eventually = (check: () => unknown): Promise<void> =>
  vi.waitFor(async () => void (await check()), { timeout: 30_000, interval: 50 })

const PATHS = {
  Node: '/api/v1/nodes',
  Service: '/api/v1/namespaces/b/services',
  EndpointSlice: '/apis/discovery.k8s.io/v1/namespaces/b/endpointslices',
  Namespace: '/api/v1/namespaces',
} as const

async function create(kind: keyof typeof PATHS, object: object): Promise<void> {
  const apiVersion = kind === 'EndpointSlice' ? 'discovery.k8s.io/v1' : 'v1'
  const answer = await inside.request(`${API}${PATHS[kind]}`, 'POST', { apiVersion, kind, ...object })
  expect(answer, answer?.text).toMatchObject({ status: 201 })
}

async function remove(kind: keyof typeof PATHS, name: string): Promise<void> {
  expect((await inside.request(`${API}${PATHS[kind]}/${name}`, 'DELETE'))?.status).toBe(200)
}

async function patch(kind: keyof typeof PATHS, name: string, change: object): Promise<void> {
  const answer = await inside.request(
    `${API}${PATHS[kind]}/${name}`,
    'PATCH',
    change,
    'application/merge-patch+json',
  )
  expect(answer, answer?.text).toMatchObject({ status: 200 })
}

const endpoints = (...ips: string[]) =>
  ips.map((ip) => ({ addresses: [ip], conditions: { ready: true }, nodeName: NODE }))

async function createService(
  name: string,
  protocol: string,
  ips: readonly string[],
  spec: object = {},
): Promise<void> {
  await create('Service', {
    metadata: { name, namespace: 'b' },
    spec: { clusterIP: '10.96.7.7', ports: [{ name: 'p', port: 80, protocol, targetPort: 8080 }], ...spec },
  })
  await create('EndpointSlice', {
    metadata: { name: `${name}-1`, namespace: 'b', labels: { 'kubernetes.io/service-name': name } },
    addressType: 'IPv4',
    ports: [{ name: 'p', port: 8080, protocol }],
    endpoints: endpoints(...ips),
  })
}

async function cluster(): Promise<void> {
  await apiServer()
  await create('Namespace', { metadata: { name: 'b' } })
  await create('Node', {
    metadata: { name: NODE },
    spec: { podCIDRs: ['10.64.0.0/24'] },
    status: { addresses: [{ type: 'InternalIP', address: '192.0.2.10' }] },
  })
}

/** The table as `nft` shows it; empty if there is none. */
const table = (): string => namespace.run(['sh', '-c', 'nft list table ip kube-proxy 2>/dev/null || true'])

test('the rules follow the API server, and stay when the agent is told to stop', async () => {
  await cluster()
  await createService('web', 'TCP', ['10.64.0.5'])
  const program = agent()
  await eventually(() => expect(table()).toContain('10.96.7.7 . tcp . 80 . 0 : 10.64.0.5 . 8080'))
  await patch('EndpointSlice', 'web-1', { endpoints: endpoints('10.64.0.6') })
  await eventually(() => expect(table()).toContain('10.96.7.7 . tcp . 80 . 0 : 10.64.0.6 . 8080'))

  expect((await inside.request('http://127.0.0.1:10249/proxyMode'))?.text).toBe('nftables')
  expect((await inside.request('http://192.0.2.10:10256/healthz'))?.status).toBe(200)
  expect((await inside.request('http://192.0.2.10:10256/livez'))?.status).toBe(200)
  const metrics = (await inside.request('http://127.0.0.1:10249/metrics'))?.text ?? ''
  expect(metrics).toMatch(/kubeproxy_sync_proxy_rules_duration_seconds_count\{ip_family="IPv4"\} [1-9]/)
  expect(metrics).toContain('switchback_effective_mode{mode="nftables"} 1')
  const events = await inside.request(`${API}/api/v1/namespaces/default/events`)
  expect(events?.text).toContain('"reason":"Starting"')

  expect(await program.stop()).toBe(0)
  expect(table()).toContain('10.96.7.7 . tcp . 80 . 0 : 10.64.0.6 . 8080')
  expect(program.output()).toContain('"Using nftables Proxier"')
})

test('a second agent in the namespace ends at once, names the first, and changes nothing', async () => {
  await cluster()
  await createService('web', 'TCP', ['10.64.0.5'])
  const first = agent()
  await eventually(() => expect(table()).toContain('10.64.0.5 . 8080'))
  const before = table()
  const second = agent()
  expect(await second.ended).toBe(1)
  expect(second.output()).toMatch(/another Switchback agent \(process \d+\) already runs/)
  expect(table()).toBe(before)
  expect(first.process.exitCode).toBeNull()
})

test('an API server that is down at start is waited for, and nothing is written meanwhile', async () => {
  const program = agent()
  await eventually(() => expect(program.output()).toContain('Waiting for the API server'))
  expect(program.output()).toMatch(/connection refused/i)
  expect(table()).toBe('')
  expect((await inside.request('http://127.0.0.1:10256/livez'))?.status).toBe(200)
  await cluster()
  await createService('web', 'TCP', ['10.64.0.5'])
  await eventually(() => expect(table()).toContain('10.64.0.5 . 8080'))
})

test('what another program does to the rules is undone', async () => {
  await cluster()
  await createService('web', 'TCP', ['10.64.0.5'])
  const program = agent()
  await eventually(() => expect(program.output()).toMatch(/complete" ipFamily="IPv6"/))
  const before = table()
  // Where the kernel protects the table, the first passes over it and the second is refused.
  namespace.run(['sh', '-c', 'nft flush ruleset; nft delete table ip kube-proxy 2>/dev/null || true'])
  await eventually(() => expect(table()).toBe(before))
})

test('a node that is to be scaled away fails /healthz and passes /livez', async () => {
  await cluster()
  agent()
  await eventually(() => expect(table()).not.toBe(''))
  await patch('Node', NODE, {
    spec: { taints: [{ key: 'ToBeDeletedByClusterAutoscaler', effect: 'NoSchedule' }] },
  })
  await eventually(async () =>
    expect((await inside.request('http://127.0.0.1:10256/healthz'))?.status).toBe(503),
  )
  expect((await inside.request('http://127.0.0.1:10256/livez'))?.status).toBe(200)
})

test('health check ports answer on node-port addresses only and close with their Service', async () => {
  await cluster()
  agent('--nodeport-addresses=192.0.2.0/24')
  const port = 32_541
  await createService('lb', 'TCP', ['10.64.0.5'], {
    type: 'LoadBalancer',
    externalTrafficPolicy: 'Local',
    healthCheckNodePort: port,
  })
  const health = (address: string) => inside.request(`http://${address}:${port}/`)
  await eventually(async () => expect(await health('192.0.2.10')).toMatchObject({ status: 200 }))
  expect((await health('192.0.2.10'))?.headers['x-load-balancing-endpoint-weight']).toBe('1')
  expect(await health('198.51.100.10')).toBeNull()
  expect(await health('127.0.0.1')).toBeNull()
  await remove('EndpointSlice', 'lb-1')
  await eventually(async () => expect(await health('192.0.2.10')).toMatchObject({ status: 503 }))
  await remove('Service', 'lb')
  await eventually(async () => expect(await health('192.0.2.10')).toBeNull())
})

test('without CAP_NET_ADMIN the agent ends with status 3 and says what to do', async () => {
  await cluster()
  const program = start([
    'setpriv',
    '--bounding-set=-net_admin',
    '--inh-caps=-net_admin',
    ...AGENT,
    `--master=${API}`,
  ])
  expect(await program.ended).toBe(3)
  expect(program.output()).toMatch(/CAP_NET_ADMIN/)
  expect(
    program
      .output()
      .split('\n')
      .filter((line) => line.startsWith('switchback: ')),
  ).toHaveLength(1)
  expect(table()).toBe('')
})

test('a kubeconfig that is missing, malformed or refused is one message, a status, and no change', async () => {
  const bad = join(directory, 'bad.conf')
  writeFileSync(bad, 'apiVersion: v1\nkind: Config\n\tclusters: []\n')
  const missing = start([...AGENT, `--kubeconfig=${join(directory, 'none.conf')}`])
  const malformed = start([...AGENT, `--kubeconfig=${bad}`])
  expect(await missing.ended).toBe(2)
  expect(missing.output()).toMatch(/none\.conf/)
  expect(await malformed.ended).toBe(2)
  expect(malformed.output()).toMatch(/bad\.conf:3:\d+/)

  start([
    process.execPath,
    '-e',
    `require('node:http').createServer((_, r) => { r.writeHead(401, {'content-type': 'application/json'});
     r.end(JSON.stringify({kind: 'Status', status: 'Failure', message: 'Unauthorized', reason: 'Unauthorized', code: 401})) }).listen(18080)`,
  ])
  await eventually(async () => expect((await inside.request(API))?.status).toBe(401))
  const refused = agent()
  expect(await refused.ended).toBe(1)
  expect(refused.output()).toMatch(/^switchback: .*does not accept the credentials.*401/m)
  expect(refused.output()).not.toMatch(/^E/m)
  expect(table()).toBe('')
})

/** UDP flows of the namespace as `destination:port endpoint:port`, by conntrack. */
const udpFlows = (): string[] =>
  namespace
    .run(['sh', '-c', 'conntrack -L -p udp 2>/dev/null || true'])
    .split('\n')
    .flatMap((line) => {
      const parts = [...line.matchAll(/(src|dst|sport|dport)=(\S+)/g)].map(([, , value]) => value!)
      return parts.length < 8 ? [] : [`${parts[1]}:${parts[3]} ${parts[4]}:${parts[6]}`]
    })

const VIP = '10.96.7.7'

async function udpBackends(): Promise<void> {
  namespace.run(['ip', 'route', 'add', '10.96.0.0/16', 'dev', 'lo'])
  await inside.serveUdp('10.64.0.5', 8080)
  await inside.serveUdp('10.64.0.6', 8080)
}

test('a UDP sender that keeps its port follows its Service from endpoint to endpoint, to none and back', async () => {
  await cluster()
  await udpBackends()
  await createService('log', 'UDP', ['10.64.0.5'])
  agent()
  await eventually(async () => expect(await inside.sendUdp(4000, VIP, 80)).toBe('10.64.0.5:8080'))

  await patch('EndpointSlice', 'log-1', { endpoints: endpoints('10.64.0.6') })
  await eventually(async () => expect(await inside.sendUdp(4000, VIP, 80)).toBe('10.64.0.6:8080'))

  await patch('EndpointSlice', 'log-1', { endpoints: [] })
  await eventually(() => expect(udpFlows().filter((flow) => flow.includes('10.64.0.6:8080'))).toEqual([]))
  expect(await inside.sendUdp(4000, VIP, 80)).toBeNull()

  await patch('EndpointSlice', 'log-1', { endpoints: endpoints('10.64.0.5') })
  await eventually(async () => expect(await inside.sendUdp(4000, VIP, 80)).toBe('10.64.0.5:8080'))

  await remove('Service', 'log')
  await eventually(() => expect(udpFlows().filter((flow) => flow.startsWith(`${VIP}:80 10.64`))).toEqual([]))
  const metrics = (await inside.request('http://127.0.0.1:10249/metrics'))?.text ?? ''
  expect(metrics).toMatch(/kubeproxy_conntrack_reconciler_deleted_entries_total\{ip_family="IPv4"\} [3-9]/)
})

test('a restart forgets the flows whose endpoint left meanwhile and no others', async () => {
  await cluster()
  await udpBackends()
  await createService('log', 'UDP', ['10.64.0.5', '10.64.0.6'])
  const first = agent()
  const reached = new Set<string | null>()
  let port = 4000
  await eventually(async () => {
    reached.add(await inside.sendUdp(port++, VIP, 80))
    expect(reached).toContain('10.64.0.5:8080')
    expect(reached).toContain('10.64.0.6:8080')
  })
  expect(await first.stop()).toBe(0)
  const before = udpFlows()
    .filter((flow) => flow.startsWith(VIP))
    .toSorted()
  await patch('EndpointSlice', 'log-1', { endpoints: endpoints('10.64.0.6') })
  const second = agent()
  await eventually(() => expect(second.output()).toMatch(/complete" ipFamily="IPv4"/))
  const kept = before.filter((flow) => !flow.includes('10.64.0.5:8080'))
  expect(kept.length).toBeGreaterThan(0)
  expect(
    udpFlows()
      .filter((flow) => flow.startsWith(VIP) && !flow.startsWith(`${VIP}:80 ${VIP}`))
      .toSorted(),
  ).toEqual(kept)
})
