import { afterEach, expect, test, vi } from 'vitest'
import { ApiClient } from '../kubernetes/client.ts'
import { loadAccess } from '../kubernetes/load-access.ts'
import type { ApiServer } from '../lab/apiserver/server.ts'
import { startApiServer } from '../lab/apiserver/server.ts'
import { createLogger } from '../shared/logger.ts'
import { ReflectorFeed } from './reflector-feed.ts'

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

async function bench(server: ApiServer) {
  const lines: string[] = []
  const access = await loadAccess({ kubeconfig: '', master: server.url })
  const client = new ApiClient({ access, userAgent: 'test', qps: -1 })
  const feed = new ReflectorFeed(client, 'worker-a', createLogger({ sink: (line) => lines.push(line) }))
  const controller = new AbortController()
  closing.push(
    () => client.close(),
    () => controller.abort(),
  )
  const synced: string[] = []
  const changed: string[] = []
  feed.start(controller.signal, {
    changed: (kind) => changed.push(kind),
    synced: (kind) => synced.push(kind),
  })
  return { feed, synced, changed, lines, client }
}

async function server(): Promise<ApiServer> {
  const started = await startApiServer()
  closing.push(() => started.close())
  return started
}

const nodeOf = (name: string) => ({ apiVersion: 'v1', kind: 'Node', metadata: { name } })
const serviceOf = (name: string, labels = {}) => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { namespace: 'default', name, labels },
  spec: { type: 'ClusterIP', clusterIP: '10.96.7.7', ports: [{ port: 80, protocol: 'TCP' }] },
})

test('all four kinds are followed, of nodes only the own one, of Services only those for this proxy', async () => {
  const api = await server()
  api.store.putRaw([
    nodeOf('worker-a'),
    nodeOf('worker-b'),
    serviceOf('mine'),
    serviceOf('others', { 'service.kubernetes.io/service-proxy-name': 'x' }),
  ])
  const b = await bench(api)
  await vi.waitFor(() =>
    expect(b.synced.toSorted()).toEqual(['endpointslices', 'nodes', 'servicecidrs', 'services']),
  )
  const state = b.feed.store.snapshot()
  expect(state.node?.name).toBe('worker-a')
  expect(state.services.has('default/mine')).toBe(true)
  expect(state.services.has('default/others')).toBe(false)
  expect(state.serviceCidrs).toEqual(['10.96.0.0/16'])
  expect(b.feed.failure('services')).toBeNull()

  const before = b.changed.length
  api.store.putRaw([serviceOf('late')])
  await vi.waitFor(() => expect(b.feed.store.snapshot().services.has('default/late')).toBe(true))
  expect(b.changed.slice(before)).toEqual(['services'])
})

test('what had to be left out of an object is said once, however often it is listed', async () => {
  const api = await server()
  api.store.putRaw([
    {
      ...nodeOf('worker-a'),
      status: { addresses: [{ type: 'InternalIP', address: 'nonsense' }] },
    },
  ])
  const b = await bench(api)
  await vi.waitFor(() => expect(b.lines.join('')).toContain('nonsense'))
  api.store.putRaw([
    {
      ...nodeOf('worker-a'),
      status: { addresses: [{ type: 'InternalIP', address: 'nonsense' }], phase: 'x' },
    },
    serviceOf('after'),
  ])
  await vi.waitFor(() => expect(b.feed.store.snapshot().services.has('default/after')).toBe(true))
  expect(b.lines.filter((line) => line.includes('nonsense'))).toHaveLength(1)
})

test('before the first lists a server that is away is no error of each kind, only a failure to ask for', async () => {
  const api = await startApiServer()
  await api.close()
  const b = await bench(api)
  await vi.waitFor(() => expect(b.feed.failure('services')?.message).toMatch(/connection refused/i))
  expect(b.lines.filter((line) => line.startsWith('E'))).toEqual([])
})
