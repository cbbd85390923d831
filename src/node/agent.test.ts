import { afterEach, expect, test, vi } from 'vitest'
import { assemble } from '../config/assemble.ts'
import type { FieldValue } from '../config/values.ts'
import type { Flow } from '../kernel/conntrack/port.ts'
import type { LinkAddress } from '../kernel/link/port.ts'
import type { Ip } from '../net/ip.ts'
import { createProxyMetrics } from '../observe/proxy-metrics.ts'
import { createLogger } from '../shared/logger.ts'
import { ManualClock } from '../shared/manual-clock.ts'
import { Agent } from './agent.ts'
import { FlowTable, TableMode, TestFeed, noEvents, testKernel } from '../../test/support/table-agent.ts'

const NODE = 'worker-a'

function configurationOf(fields: Readonly<Record<string, FieldValue>> = {}) {
  const origin = { file: 'test', line: null, column: null }
  const off = { healthzBindAddress: '', metricsBindAddress: '' }
  return assemble(
    new Map(Object.entries({ ...off, ...fields }).map(([path, value]) => [path, { value, origin }])),
  )
}

const running: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const stop of running.splice(0)) await stop()
})

async function bench(fields: Readonly<Record<string, FieldValue>> = {}) {
  const lines: string[] = []
  const clock = new ManualClock(Date.parse('2026-11-30T12:00:00Z'))
  const mode = new TableMode()
  const flows = new FlowTable()
  const addresses: LinkAddress[] = [{ link: 'eth0', ip: '192.0.2.10' as Ip, prefixBits: 24, scope: 'global' }]
  const kernel = testKernel(flows, addresses)
  const feed = new TestFeed(NODE)
  const metrics = await createProxyMetrics({ version: 'test' })
  const agent = new Agent({
    configuration: configurationOf(fields),
    nodeName: NODE,
    mode,
    kernel,
    feed,
    events: noEvents,
    metrics,
    releaseMemory: () => {},
    clock,
    log: createLogger({ sink: (line) => lines.push(line), clock, verbosity: 2 }),
  })
  const controller = new AbortController()
  const done = agent.run(controller.signal)
  done.catch(() => {})
  const stop = async (): Promise<void> => {
    controller.abort()
    await done
  }
  running.push(() => stop().catch(() => {}))
  /** The sum of all samples of a series. */
  const figure = async (name: string): Promise<number> => {
    const metric = await metrics.registry.getSingleMetric(name)!.get()
    return metric.values.reduce((sum, { value }) => sum + value, 0)
  }
  return { lines, clock, mode, flows, addresses, kernel, feed, metrics, stop, done, figure }
}

type Bench = Awaited<ReturnType<typeof bench>>

const nodeObject = (extra: object = {}, zone = 'zone-1') => ({
  metadata: { name: NODE, labels: { 'topology.kubernetes.io/zone': zone } },
  spec: { podCIDRs: ['10.64.0.0/24'] },
  status: { addresses: [{ type: 'InternalIP', address: '192.0.2.10' }] },
  ...extra,
})

const service = (name: string, clusterIP: string, protocol = 'TCP', spec: object = {}) => ({
  metadata: { namespace: 'b', name, uid: name },
  spec: { type: 'ClusterIP', clusterIP, ports: [{ name: 'p', port: 80, protocol }], ...spec },
})

interface EndpointSpec {
  readonly ip: string
  readonly zone?: string
}

const slice = (
  name: string,
  endpoints: readonly (string | EndpointSpec)[],
  protocol = 'TCP',
  annotations = {},
) => ({
  metadata: {
    namespace: 'b',
    name: `${name}-1`,
    labels: { 'kubernetes.io/service-name': name },
    annotations,
  },
  addressType: 'IPv4',
  ports: [{ name: 'p', port: 8080, protocol }],
  endpoints: endpoints.map((each) => {
    const { ip, zone } = typeof each === 'string' ? { ip: each, zone: undefined } : each
    return {
      addresses: [ip],
      conditions: { ready: true },
      nodeName: NODE,
      ...(zone === undefined ? {} : { hints: { forZones: [{ name: zone }] } }),
    }
  }),
})

/** Brings the agent to its first sync. */
async function started(b: Bench): Promise<void> {
  b.feed.apply('nodes', nodeObject())
  b.feed.synced('services', 'endpointslices', 'nodes', 'servicecidrs')
  await vi.waitFor(() => expect(b.mode.installed.size).toBe(2))
}

const arrives = (check: () => void): Promise<void> => vi.waitFor(check, { timeout: 3000, interval: 5 })

test('nothing is written before Services and EndpointSlices are both listed', async () => {
  const b = await bench()
  b.feed.apply('nodes', nodeObject())
  b.feed.apply('services', service('api', '10.111.0.1'))
  b.feed.synced('services', 'nodes', 'servicecidrs')
  await b.clock.advance(60_000)
  expect(b.mode.writes).toEqual([])
  b.feed.apply('endpointslices', slice('api', ['10.64.0.11']))
  b.feed.synced('endpointslices')
  await arrives(() => expect(b.mode.endpoints('TCP 10.111.0.1:80')).toEqual(['10.64.0.11:8080']))
  expect(b.lines.join('')).toContain('"Using nftables Proxier"')
})

test('an API server that is away is waited for and named once; one that refuses the agent ends it', async () => {
  const away = await bench()
  away.feed.failing = new Error('connect ECONNREFUSED 192.0.2.1:6443')
  await vi.waitFor(async () => {
    await away.clock.advance(5000)
    expect(away.lines.filter((line) => line.includes('Waiting for the API server'))).toHaveLength(1)
  })
  expect(away.mode.writes).toEqual([])

  const refused = await bench()
  refused.feed.failing = Object.assign(new Error('Unauthorized'), { status: 401 })
  await vi.waitFor(() => refused.clock.advance(300).then(() => expect(refused.clock.pending).toBe(0)))
  await expect(refused.done).rejects.toThrow('Unauthorized')
})

test('an endpoint that arrives while the rules are being written is in the next write', async () => {
  const b = await bench({ 'nftables.syncPeriod': 3_600_000 })
  await started(b)
  b.feed.apply('services', service('api', '10.111.20.1'))
  b.feed.apply('services', service('noise', '10.111.20.2'))
  b.feed.apply('endpointslices', slice('api', ['10.64.0.11']))
  await b.clock.advance(1000)
  await arrives(() => expect(b.mode.endpoints('TCP 10.111.20.1:80')).toEqual(['10.64.0.11:8080']))

  const release = b.mode.hold()
  for (let i = 0; i < 200; i++) {
    b.feed.apply('endpointslices', slice('noise', [i % 2 === 0 ? '10.64.0.19' : '10.64.1.19']))
    if (i === 100) b.feed.apply('endpointslices', slice('api', ['10.64.0.11', '10.64.1.12']))
  }
  await b.clock.advance(1000)
  b.feed.apply('endpointslices', slice('api', ['10.64.1.12'])) // the write of the burst is held
  release()
  await b.clock.advance(1000)
  await arrives(() => expect(b.mode.endpoints('TCP 10.111.20.1:80')).toEqual(['10.64.1.12:8080']))
})

const udpFlow = (endpoint: string, id: number): Flow => ({
  family: 'IPv4',
  protocol: 'UDP',
  original: {
    source: '10.64.0.20' as Ip,
    destination: '10.111.20.3' as Ip,
    sourcePort: 4000,
    destinationPort: 80,
  },
  reply: { source: endpoint as Ip, destination: '10.64.0.20' as Ip, sourcePort: 8080, destinationPort: 4000 },
  id,
  status: 0,
  mark: 0,
  zone: 0,
})

test.each(['write', 'flow list'] as const)(
  'a failed %s repeats everything that belonged to the change',
  async (what) => {
    const b = await bench()
    await started(b)
    b.feed.apply('services', service('log', '10.111.20.3', 'UDP'))
    b.feed.apply('endpointslices', slice('log', ['10.64.0.21', '10.64.1.21'], 'UDP'))
    await b.clock.advance(1000)
    await arrives(() => expect(b.mode.endpoints('UDP 10.111.20.3:80')).toHaveLength(2))
    b.flows.flows = [udpFlow('10.64.0.21', 1), udpFlow('10.64.1.21', 2)]

    if (what === 'write') b.mode.failNext = 1
    else b.flows.failNext = 1
    b.feed.apply('endpointslices', slice('log', ['10.64.1.21'], 'UDP'))
    await b.clock.advance(1000)
    await arrives(() => expect(b.lines.join('')).toContain('Sync failed'))
    expect(b.flows.flows).toHaveLength(2)
    expect(await b.figure('kubeproxy_sync_proxy_rules_nftables_sync_failures_total')).toBe(
      what === 'write' ? 1 : 0,
    )

    await b.clock.advance(30_000)
    await arrives(() => expect(b.flows.flows.map(({ id }) => id)).toEqual([2]))
    expect(b.mode.endpoints('UDP 10.111.20.3:80')).toEqual(['10.64.1.21:8080'])
    expect(await b.figure('kubeproxy_conntrack_reconciler_deleted_entries_total')).toBe(1)
  },
)

test('after a failed write the kernel is read again rather than trusted', async () => {
  const b = await bench()
  await started(b)
  b.mode.failNext = 1
  b.feed.apply('services', service('api', '10.111.0.1'))
  await b.clock.advance(1000)
  await b.clock.advance(30_000)
  await arrives(() => expect(b.mode.endpoints('TCP 10.111.0.1:80')).toEqual(['reject']))
  const first = b.mode.writes.filter(({ family }) => family === 'IPv4').slice(-2)
  expect(first.map(({ trusted }) => trusted)).toEqual([true, false])
})

test('what somebody else changed is mended at once, counted and named', async () => {
  const b = await bench({ 'nftables.minSyncPeriod': 10_000 })
  b.feed.apply('services', service('api', '10.111.0.1'))
  await started(b)
  b.mode.disturb('IPv4', (table) => table.delete('TCP 10.111.0.1:80'))
  await arrives(() => expect(b.mode.endpoints('TCP 10.111.0.1:80')).toEqual(['reject']))
  await arrives(() => expect(b.lines.join('')).toContain('changed=["missing: TCP 10.111.0.1:80"]'))
  expect(await b.figure('switchback_drift_repairs_total')).toBe(1)

  b.mode.disturb('IPv4', () => {}) // a change that leaves our rules as they are
  await b.clock.advance(500)
  await arrives(() => expect(b.mode.writes.filter(({ family }) => family === 'IPv4')).toHaveLength(3))
  expect(await b.figure('switchback_drift_repairs_total')).toBe(1)
})

test('the zone label of the node alone leads to a sync', async () => {
  const b = await bench()
  await started(b)
  b.feed.apply('services', service('z', '10.111.20.36'))
  b.feed.apply(
    'endpointslices',
    slice('z', [
      { ip: '10.64.0.211', zone: 'zone-1' },
      { ip: '10.64.1.211', zone: 'zone-2' },
    ]),
  )
  await b.clock.advance(1000)
  await arrives(() => expect(b.mode.endpoints('TCP 10.111.20.36:80')).toEqual(['10.64.0.211:8080']))
  b.feed.apply('nodes', nodeObject({}, 'zone-2'))
  await b.clock.advance(1000)
  await arrives(() => expect(b.mode.endpoints('TCP 10.111.20.36:80')).toEqual(['10.64.1.211:8080']))
})

test('without a Node object the agent serves after half a minute and says which node is missing', async () => {
  const b = await bench()
  b.feed.apply('services', service('api', '10.111.0.1'))
  b.feed.synced('services', 'endpointslices', 'nodes', 'servicecidrs')
  await vi.waitFor(() => expect(b.lines.join('')).toContain('Waiting for the node'))
  await b.clock.advance(29_000)
  expect(b.mode.writes).toEqual([])
  await b.clock.advance(1000)
  await arrives(() => expect(b.mode.endpoints('TCP 10.111.0.1:80')).toEqual(['reject']))
  expect(b.lines.filter((line) => line.startsWith('E')).join('')).toContain(
    `There is no Node object of this name`,
  )
  expect(b.lines.join('')).toContain(`node="${NODE}"`)
})

test.each([
  ['no Node object', null, 'NODE_NOT_FOUND'],
  ['a Node without pod CIDRs', nodeObject({ spec: {} }), 'NODE_WITHOUT_POD_CIDR'],
])(
  'detectLocalMode NodeCIDR with %s ends after five minutes with nothing written',
  async (_name, node, code) => {
    const b = await bench({ detectLocalMode: 'NodeCIDR' })
    if (node !== null) b.feed.apply('nodes', node)
    b.feed.synced('services', 'endpointslices', 'nodes', 'servicecidrs')
    await vi.waitFor(() => expect(b.lines.join('')).toContain('Waiting for the pod CIDR'))
    await b.clock.advance(300_000)
    await expect(b.done).rejects.toMatchObject({ code })
    expect(b.mode.writes).toEqual([])
  },
)

test('a Node object that is deleted changes nothing', async () => {
  const b = await bench()
  b.feed.apply(
    'services',
    service('np', '10.111.0.1', 'TCP', {
      type: 'NodePort',
      ports: [{ name: 'p', port: 80, nodePort: 30_080 }],
    }),
  )
  b.feed.apply('endpointslices', slice('np', ['10.64.0.11']))
  await started(b)
  const before = new Map(b.mode.installed.get('IPv4'))
  expect(before.size).toBe(2)
  b.feed.remove('nodes', NODE)
  await b.clock.advance(1000)
  await arrives(() => expect(b.mode.writes.length).toBeGreaterThan(2))
  expect(b.mode.installed.get('IPv4')).toEqual(before)
})

test('a new address of the node leads to a sync; link-local ones do not', async () => {
  const b = await bench({ nodePortAddresses: ['192.0.2.0/24'] })
  await started(b)
  const writes = b.mode.writes.length
  b.addresses.push({ link: 'veth1', ip: 'fe80::1' as Ip, prefixBits: 64, scope: 'link' })
  b.kernel.linkChanged()
  await b.clock.advance(2000)
  expect(b.mode.writes.length).toBe(writes)
  b.addresses.push({ link: 'eth1', ip: '192.0.2.77' as Ip, prefixBits: 24, scope: 'global' })
  b.kernel.linkChanged()
  await b.clock.advance(1000)
  await arrives(() => expect(b.mode.writes.length).toBeGreaterThan(writes))
})

test('everything is read back and compared every hour, though nothing changed', async () => {
  const b = await bench()
  await started(b)
  expect(b.mode.writes.filter(({ family }) => family === 'IPv4').map(({ trusted }) => trusted)).toEqual([
    false,
  ])
  await b.clock.advance(3_600_000)
  await arrives(() =>
    expect(b.mode.writes.filter(({ family }) => family === 'IPv4').map(({ trusted }) => trusted)).toEqual([
      false,
      false,
    ]),
  )
})

test('stopping finishes the write in progress and allows no other', async () => {
  const b = await bench()
  await started(b)
  const release = b.mode.hold()
  b.feed.apply('services', service('api', '10.111.0.1'))
  await b.clock.advance(1000)
  const writes = b.mode.writes.length
  const stopped = b.stop()
  release()
  await stopped
  expect(b.mode.endpoints('TCP 10.111.0.1:80')).toEqual(['reject'])
  expect(b.mode.writes.length).toBeLessThanOrEqual(writes + 2)
  const after = b.mode.writes.length
  b.feed.apply('services', service('late', '10.111.0.2'))
  await b.clock.advance(60_000)
  expect(b.mode.writes.length).toBe(after)
  expect(b.lines.join('')).toContain('traffic goes on')
})

test('the latency of an endpoint change is measured from its trigger, those from before the start are left out', async () => {
  const b = await bench()
  b.feed.apply('services', service('api', '10.111.0.1'))
  await started(b)
  const trigger = (at: number) => ({
    'endpoints.kubernetes.io/last-change-trigger-time': new Date(at).toISOString(),
  })
  b.feed.apply('endpointslices', slice('api', ['10.64.0.1'], 'TCP', trigger(b.clock.now() - 60_000)))
  await b.clock.advance(2000)
  await arrives(() => expect(b.mode.endpoints('TCP 10.111.0.1:80')).toEqual(['10.64.0.1:8080']))
  b.feed.apply('endpointslices', slice('api', ['10.64.0.2'], 'TCP', trigger(b.clock.now() - 500)))
  await b.clock.advance(1000)
  await arrives(() => expect(b.mode.endpoints('TCP 10.111.0.1:80')).toEqual(['10.64.0.2:8080']))
  await vi.waitFor(async () => {
    const text = await b.metrics.registry.getSingleMetricAsString(
      'kubeproxy_network_programming_duration_seconds',
    )
    expect(text).toContain('_count{ip_family="IPv4"} 1')
    expect(text).toMatch(/_sum\{ip_family="IPv4"\} (0\.5|1\.5|1)/)
  })
})
