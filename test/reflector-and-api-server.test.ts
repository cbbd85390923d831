import { afterEach, beforeEach, expect, test } from 'vitest'
import { anonymousAccess } from '../src/kubernetes/access.ts'
import { ApiClient } from '../src/kubernetes/client.ts'
import { postEvent } from '../src/kubernetes/events.ts'
import type { Service } from '../src/kubernetes/objects.ts'
import { Reflector } from '../src/kubernetes/reflector.ts'
import { startApiServer } from '../src/lab/apiserver/server.ts'
import type { ApiServer } from '../src/lab/apiserver/server.ts'
import { silentLog } from '../src/kubernetes/log.ts'
import { FAST } from './support/reflected.ts'
import { relayTo } from './support/relay.ts'
import { waitUntil } from './support/wait-until.ts'

/*
 * The reflector and the lab's API server were written against the Kubernetes API, not against each other; here they
 * meet for the first time.
 */

const SERVICES = '/api/v1/namespaces/default/services'

let server: ApiServer
let client: ApiClient
let stop: AbortController
let names: Map<string, string>

beforeEach(() => {
  stop = new AbortController()
  names = new Map()
})

afterEach(async () => {
  stop.abort()
  client.close()
  await server.close()
})

function clientOf(url: string): ApiClient {
  return new ApiClient({ access: anonymousAccess(url, 'test'), userAgent: 'test', qps: -1 })
}

async function start(streamingList = true): Promise<Reflector<readonly [string, string]>> {
  server = await startApiServer()
  client = clientOf(server.url)
  return follow(server.url, streamingList)
}

function follow(url: string, streamingList: boolean): Reflector<readonly [string, string]> {
  const own = clientOf(url)
  const reflector = new Reflector<readonly [string, string]>({
    client: own,
    path: '/api/v1/services',
    decode: (object) => {
      const { metadata, spec } = object as Service
      return [`${metadata.namespace}/${metadata.name}`, spec.clusterIP ?? '']
    },
    sink: {
      replace: (items) => {
        names.clear()
        for (const [key, ip] of items) names.set(key, ip)
      },
      upsert: ([key, ip]) => void names.set(key, ip),
      remove: (key) => void names.delete(key),
    },
    log: silentLog,
    signal: stop.signal,
    streamingList,
    timing: { ...FAST, initialIdleMs: 5000, pageSize: 3 },
  })
  void reflector.run().finally(() => own.close())
  return reflector
}

function create(name: string): Promise<unknown> {
  const spec = { ports: [{ port: 80, protocol: 'TCP' }] }
  return client.send({ method: 'POST', path: SERVICES, body: { metadata: { name }, spec } })
}

function remove(name: string): Promise<unknown> {
  return client.send({ method: 'DELETE', path: `${SERVICES}/${name}` })
}

/** What the server has, by a plain list. */
async function inStep(): Promise<void> {
  const { items } = await client.get<{ items: readonly Service[] }>('/api/v1/services')
  const want = items.map(({ metadata, spec }) => [`${metadata.namespace}/${metadata.name}`, spec.clusterIP])
  const sorted = (pairs: unknown[]): string => JSON.stringify(pairs.sort())
  await waitUntil('the same services', () => sorted([...names]) === sorted(want))
}

test.each([true, false])(
  'with streaming lists %s the reflector follows the server',
  async (streamingList) => {
    const reflector = await start(streamingList)
    for (let i = 0; i < 8; i++) await create(`s${i}`)
    await inStep()
    await remove('s1')
    await client.send({
      method: 'PATCH',
      path: `${SERVICES}/s2`,
      contentType: 'application/merge-patch+json',
      body: { metadata: { labels: { a: 'b' } } },
    })
    await create('s9')
    await inStep()
    expect(reflector.stats).toMatchObject({ relists: 0, undecodable: 0, watchFailures: 0, listFailures: 0 })
  },
)

test('a list in pages is complete', async () => {
  server = await startApiServer()
  client = clientOf(server.url)
  for (let i = 0; i < 10; i++) await create(`s${i}`)
  const reflector = follow(server.url, false)
  await waitUntil('the list', () => reflector.stats.synced)
  expect(names.size).toBe(11)
  await inStep()
})

test.each(['stream', 'status'] as const)(
  'when the history is gone (410 by %s) and much changed meanwhile, the reflector lists again',
  async (expiredWatch) => {
    server = await startApiServer({ historyLimit: 4, watch: { expiredWatch } })
    client = clientOf(server.url)
    await using relay = await relayTo(() => server.port)
    await create('kept')
    await create('gone')
    const reflector = follow(`http://127.0.0.1:${relay.port}`, true)
    await inStep()
    relay.newConnections = 'broken'
    relay.cut()
    await waitUntil('the failure', () => reflector.stats.failure !== null)
    await remove('gone')
    for (let i = 0; i < 6; i++) await create(`born${i}`)
    expect(names.size).toBe(3)
    relay.newConnections = 'passed'
    await inStep()
    expect(reflector.stats.relists).toBe(1)
    expect(names.has('default/gone')).toBe(false)
    stop.abort()
  },
)

test('when another server takes its place, the reflector follows that one', async () => {
  const reflector = await start()
  await create('old')
  await inStep()
  const { port } = server
  await server.close()
  await waitUntil('the failure', () => reflector.stats.failure !== null)
  expect(names.has('default/old')).toBe(true)
  server = await startApiServer({ port })
  await create('new')
  await inStep()
  expect([...names.keys()].sort()).toEqual(['default/kubernetes', 'default/new'])
})

test('an Event is taken', async () => {
  await start()
  const error = await postEvent(
    client,
    {
      regarding: { apiVersion: 'v1', kind: 'Node', name: 'worker-a' },
      type: 'Normal',
      reason: 'Starting',
      action: 'StartKubeProxy',
      note: '',
      reportingController: 'kube-proxy',
      reportingInstance: 'kube-proxy-worker-a',
    },
    stop.signal,
  )
  expect(error).toBeNull()
  const { items } = await client.get<{ items: readonly { reason: string }[] }>(
    '/apis/events.k8s.io/v1/events',
  )
  expect(items).toMatchObject([{ reason: 'Starting', regarding: { name: 'worker-a' } }])
})
