import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { ApiServer } from './server.ts'
import { startApiServer } from './server.ts'
import { TestClient, configMap } from './testing/client.ts'

const MAPS = '/api/v1/namespaces/default/configmaps'

let server: ApiServer
let client: TestClient

beforeEach(async () => {
  server = await startApiServer({ firstRevision: 1000 })
  client = new TestClient(server.url)
})
afterEach(async () => await server.close())

const revision = (): number => server.store.revision
const put = (name: string, data = {}, labels = {}): void =>
  server.store.putRaw([configMap(name, data, labels)])

test('a watch without a version begins with everything there is, then follows', async () => {
  put('a')
  put('b')
  await using watch = await client.watch(`${MAPS}?watch=true`)
  expect(await watch.take(2)).toEqual(['ADDED a', 'ADDED b'])
  put('a', { x: '1' })
  server.store.deleteRaw([configMap('b')])
  expect(await watch.take(2)).toEqual(['MODIFIED a', 'DELETED b'])
})

test('a watch from a version repeats what happened since, in order', async () => {
  put('a')
  const since = revision()
  put('b')
  put('a', { x: '1' })
  server.store.deleteRaw([configMap('a')])
  await using watch = await client.watch(`${MAPS}?watch=true&resourceVersion=${since}`)
  expect(await watch.take(3)).toEqual(['ADDED b', 'MODIFIED a', 'DELETED a'])
})

test('a deleted object carries the version of its deletion', async () => {
  put('a')
  await using watch = await client.watch(`${MAPS}?watch=true&resourceVersion=${revision()}`)
  server.store.deleteRaw([configMap('a')])
  const event = await watch.next()
  expect(event?.object.metadata.resourceVersion).toBe(String(revision()))
})

test('an object that enters or leaves the selection is ADDED or DELETED', async () => {
  put('a', {}, { tier: 'x' })
  await using watch = await client.watch(
    `${MAPS}?watch=true&labelSelector=tier%3Dy&resourceVersion=${revision()}`,
  )
  put('a', {}, { tier: 'y' })
  put('a', { n: '1' }, { tier: 'y' })
  put('a', {}, { tier: 'z' })
  put('a', {}, { tier: 'w' })
  put('b', {}, { tier: 'y' })
  expect(await watch.take(4)).toEqual(['ADDED a', 'MODIFIED a', 'DELETED a', 'ADDED b'])
})

test('a watch of one namespace or one name sees nothing else', async () => {
  await using watch = await client.watch(
    `${MAPS}?watch=true&fieldSelector=metadata.name%3Db&resourceVersion=${revision()}`,
  )
  put('a')
  server.store.putRaw([{ ...configMap('b'), metadata: { name: 'b', namespace: 'kube-system' } }])
  put('b')
  expect((await watch.next())?.object.metadata).toMatchObject({ name: 'b', namespace: 'default' })
})

describe('streaming lists', () => {
  const query = 'watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan'

  test('end with an annotated bookmark at the version of the list', async () => {
    put('a')
    put('b')
    await using watch = await client.watch(`${MAPS}?${query}`)
    expect(await watch.take(2)).toEqual(['ADDED a', 'ADDED b'])
    const end = await watch.next()
    expect(end).toMatchObject({
      type: 'BOOKMARK',
      object: {
        kind: 'ConfigMap',
        metadata: {
          resourceVersion: String(revision()),
          annotations: { 'k8s.io/initial-events-end': 'true' },
        },
      },
    })
    put('c')
    expect(await watch.take(1)).toEqual(['ADDED c'])
  })

  test('are refused without resourceVersionMatch', async () => {
    const answer = await client.get(`${MAPS}?watch=true&sendInitialEvents=true`)
    expect([answer.code, answer.body.reason]).toEqual([422, 'Invalid'])
  })
})

test('bookmarks come regularly to those who ask, and carry the current version', async () => {
  server.watch.bookmarkIntervalMs = 20
  await using watch = await client.watch(
    `${MAPS}?watch=true&allowWatchBookmarks=true&resourceVersion=${revision()}`,
  )
  server.store.putRaw([{ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'elsewhere' } }])
  const at = String(revision())
  let event = await watch.next()
  while (event?.object.metadata.resourceVersion !== at) event = await watch.next()
  expect(event).toMatchObject({ type: 'BOOKMARK' })
})

test('a watch ends after timeoutSeconds', async () => {
  await using watch = await client.watch(`${MAPS}?watch=true&timeoutSeconds=1&resourceVersion=${revision()}`)
  expect(await watch.next()).toBeNull()
})

describe('after compaction', () => {
  test('an old watch is told in the stream', async () => {
    const since = revision()
    put('a')
    server.store.compact()
    await using watch = await client.watch(`${MAPS}?watch=true&resourceVersion=${since}`)
    expect(watch.code).toBe(200)
    expect(await watch.next()).toMatchObject({ type: 'ERROR', object: { code: 410, reason: 'Expired' } })
    expect(await watch.next()).toBeNull()
  })

  test('an old watch is told by status where the server does so', async () => {
    server.watch.expiredWatch = 'status'
    const since = revision()
    put('a')
    server.store.compact()
    const answer = await client.get(`${MAPS}?watch=true&resourceVersion=${since}`)
    expect([answer.code, answer.body.reason]).toEqual([410, 'Expired'])
  })

  test('a watch from the compacted version itself goes on', async () => {
    put('a')
    server.store.compact()
    await using watch = await client.watch(`${MAPS}?watch=true&resourceVersion=${revision()}`)
    put('b')
    expect(await watch.take(1)).toEqual(['ADDED b'])
  })

  test('a watch from before the server started is told that it is too old', async () => {
    await using watch = await client.watch(`${MAPS}?watch=true&resourceVersion=5`)
    expect(await watch.next()).toMatchObject({ type: 'ERROR', object: { code: 410 } })
  })

  test('history is bounded by itself', async () => {
    await using small = await startApiServer({ firstRevision: 1000, historyLimit: 5 })
    for (let i = 0; i < 20; i++) small.store.putRaw([configMap('a', { i: String(i) })])
    await using watch = await new TestClient(small.url).watch(`${MAPS}?watch=true&resourceVersion=1007`)
    expect(await watch.next()).toMatchObject({ type: 'ERROR', object: { code: 410 } })
  })
})

test('open watches can be expired', async () => {
  await using watch = await client.watch(`${MAPS}?watch=true&resourceVersion=${revision()}`)
  server.store.expireWatches()
  expect(await watch.next()).toMatchObject({ type: 'ERROR', object: { code: 410 } })
  expect(await watch.next()).toBeNull()
})

test('events are seen in both of their versions', async () => {
  await using watch = await client.watch(
    `/apis/events.k8s.io/v1/events?watch=true&resourceVersion=${revision()}`,
  )
  await client.post('/api/v1/namespaces/default/events', {
    metadata: { name: 'e' },
    involvedObject: { kind: 'Node', name: 'n1' },
    message: 'hello',
    reason: 'Testing',
    type: 'Normal',
  })
  expect((await watch.next())?.object).toMatchObject({
    apiVersion: 'events.k8s.io/v1',
    regarding: { kind: 'Node', name: 'n1' },
    note: 'hello',
  })
})

test('many watchers get one change within milliseconds among ten thousand objects', async () => {
  const bulk = Array.from({ length: 10_000 }, (_, i) => configMap(`m${i}`, { n: String(i) }))
  server.store.putRaw(bulk)
  const watches = await Promise.all(
    Array.from({ length: 5 }, () => client.watch(`${MAPS}?watch=true&resourceVersion=${revision()}`)),
  )
  const merge = 'merge-patch+json'
  await client.patch(`${MAPS}/m1`, merge, { data: { warm: 'up' } })
  await Promise.all(watches.map((watch) => watch.next()))
  const times: number[] = []
  for (let i = 0; i < 21; i++) {
    const start = performance.now()
    void client.patch(`${MAPS}/m${i}`, merge, { data: { n: `x${i}` } })
    await Promise.all(watches.map((watch) => watch.next()))
    times.push(performance.now() - start)
  }
  for (const watch of watches) await watch[Symbol.asyncDispose]()
  const median = times.sort((a, b) => a - b)[10]!
  expect(median).toBeLessThan(50)
})
