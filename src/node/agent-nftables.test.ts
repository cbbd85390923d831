import { afterEach, expect, test, vi } from 'vitest'
import { TestFeed, noEvents } from '../../test/support/table-agent.ts'
import { assemble } from '../config/assemble.ts'
import type { Kernel } from '../kernel/kernel.ts'
import type { MemoryKernel } from '../kernel/memory.ts'
import { openMemoryKernel } from '../kernel/memory.ts'
import type { NftTableContents } from '../kernel/nft/ruleset.ts'
import { modeByName } from '../modes/registry.ts'
import type { Ip } from '../net/ip.ts'
import { createProxyMetrics } from '../observe/proxy-metrics.ts'
import { createLogger } from '../shared/logger.ts'
import { ManualClock } from '../shared/manual-clock.ts'
import { Agent } from './agent.ts'

const NODE = 'worker-a'
const VIP = '10.111.20.3'

const stops: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop()
})

/** The kernel, its next writes of the IPv4 table refused as often as `failures` says. */
function failing(kernel: MemoryKernel, failures: { left: number }): Kernel {
  const { nft } = kernel
  const transaction: typeof nft.transaction = (family, ...rest) => {
    if (family === 'ip' && failures.left > 0) {
      failures.left--
      return Promise.reject(new Error('ENOMEM'))
    }
    return nft.transaction(family, ...rest)
  }
  return {
    ...kernel,
    nft: {
      features: () => nft.features(),
      transaction,
      read: (...args) => nft.read(...args),
      tables: () => nft.tables(),
      generation: () => nft.generation(),
      watch: (...args) => nft.watch(...args),
      [Symbol.asyncDispose]: () => nft[Symbol.asyncDispose](),
    },
  }
}

async function bench() {
  const lines: string[] = []
  const clock = new ManualClock(Date.parse('2026-11-30T12:00:00Z'))
  const kernel = openMemoryKernel()
  const failures = { left: 0 }
  const feed = new TestFeed(NODE)
  const metrics = await createProxyMetrics({ version: 'test' })
  const origin = { file: 'test', line: null, column: null }
  const agent = new Agent({
    configuration: assemble(
      new Map(['healthzBindAddress', 'metricsBindAddress'].map((path) => [path, { value: '', origin }])),
    ),
    nodeName: NODE,
    mode: modeByName('nftables'),
    kernel: failing(kernel, failures),
    feed,
    events: noEvents,
    metrics,
    releaseMemory: () => {},
    clock,
    log: createLogger({ sink: (line) => lines.push(line), clock, verbosity: 2 }),
  })
  const controller = new AbortController()
  const done = agent.run(controller.signal)
  stops.push(async () => {
    controller.abort()
    await done
  })
  feed.apply('nodes', {
    metadata: { name: NODE },
    status: { addresses: [{ type: 'InternalIP', address: '192.0.2.10' }] },
  })
  feed.synced('services', 'endpointslices', 'nodes', 'servicecidrs')
  await vi.waitFor(() => expect(lines.join('')).toMatch(/complete" ipFamily="IPv4"/))
  return { lines, clock, kernel, failures, feed, metrics }
}

type Bench = Awaited<ReturnType<typeof bench>>

const read = (b: Bench): Promise<NftTableContents | null> =>
  b.kernel.nftNamespace.open().read('ip', 'kube-proxy')

/** The addresses that the endpoints map leads to. */
async function targets(b: Bench): Promise<string[]> {
  const elements = (await read(b))?.elements.get('endpoints') ?? []
  return elements.map(({ data }) => (data ?? []).join(':')).toSorted()
}

function udpService(b: Bench, ips: readonly string[]): void {
  b.feed.apply('services', {
    metadata: { namespace: 'b', name: 'log', uid: 'log' },
    spec: { type: 'ClusterIP', clusterIP: VIP, ports: [{ name: 'p', port: 514, protocol: 'UDP' }] },
  })
  b.feed.apply('endpointslices', {
    metadata: { namespace: 'b', name: 'log-1', labels: { 'kubernetes.io/service-name': 'log' } },
    addressType: 'IPv4',
    ports: [{ name: 'p', port: 5514, protocol: 'UDP' }],
    endpoints: ips.map((ip) => ({ addresses: [ip], conditions: { ready: true }, nodeName: NODE })),
  })
}

const eventually = (check: () => Promise<void> | void): Promise<void> =>
  vi.waitFor(check, { timeout: 3000, interval: 5 })

function track(b: Bench, endpoint: string): void {
  b.kernel.conntrack.add({
    family: 'IPv4',
    protocol: 'UDP',
    original: { source: '10.64.0.20' as Ip, destination: VIP as Ip, sourcePort: 4000, destinationPort: 514 },
    reply: {
      source: endpoint as Ip,
      destination: '10.64.0.20' as Ip,
      sourcePort: 5514,
      destinationPort: 4000,
    },
    status: 0,
    mark: 0,
    zone: 0,
  })
}

test('a write that the kernel refuses is made up for, with the UDP flows that belonged to it', async () => {
  const b = await bench()
  udpService(b, ['10.64.0.21', '10.64.1.21'])
  await b.clock.advance(1000)
  await eventually(async () => expect(await targets(b)).toEqual(['10.64.0.21:5514', '10.64.1.21:5514']))
  track(b, '10.64.0.21')
  track(b, '10.64.1.21')

  b.failures.left = 1
  udpService(b, ['10.64.1.21'])
  await b.clock.advance(1000)
  await eventually(() => expect(b.lines.join('')).toContain('err="ENOMEM"'))
  expect(await targets(b)).toEqual(['10.64.0.21:5514', '10.64.1.21:5514'])
  expect(await b.kernel.conntrack.list('IPv4', 'UDP')).toHaveLength(2)

  await b.clock.advance(30_000)
  await eventually(async () => expect(await targets(b)).toEqual(['10.64.1.21:5514']))
  await eventually(async () =>
    expect((await b.kernel.conntrack.list('IPv4', 'UDP')).map(({ reply }) => reply.source)).toEqual([
      '10.64.1.21',
    ]),
  )
})

test('two hundred updates in a row, one of them of another Service, all arrive', async () => {
  const b = await bench()
  for (let round = 0; round < 20; round++) {
    for (let i = 0; i < 200; i++) {
      const last = i % 2 === 0 ? '10.64.0.19' : '10.64.1.19'
      b.feed.apply('endpointslices', {
        metadata: { namespace: 'b', name: 'noise-1', labels: { 'kubernetes.io/service-name': 'noise' } },
        addressType: 'IPv4',
        ports: [{ name: 'p', port: 80, protocol: 'TCP' }],
        endpoints: [{ addresses: [last], conditions: { ready: true } }],
      })
      if (i === 100) udpService(b, [`10.64.0.${round + 20}`])
    }
    await b.clock.advance(1000)
    await eventually(async () => expect(await targets(b)).toEqual([`10.64.0.${round + 20}:5514`]))
  }
})
