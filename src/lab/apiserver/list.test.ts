import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { ApiServer } from './server.ts'
import { startApiServer } from './server.ts'
import type { Answer } from './testing/client.ts'
import { TestClient, configMap, node, pod } from './testing/client.ts'

const MAPS = '/api/v1/namespaces/default/configmaps'

let server: ApiServer
let client: TestClient

beforeEach(async () => {
  server = await startApiServer({ firstRevision: 1000 })
  client = new TestClient(server.url)
})
afterEach(async () => await server.close())

const names = ({ body }: Answer): string[] => (body.items ?? []).map(({ metadata }) => metadata.name)

describe('lists', () => {
  beforeEach(() => {
    for (const [name, tier] of ['a', 'b', 'c', 'd', 'e'].map((each, i) => [each, `t${i % 2}`] as const)) {
      server.store.putRaw([configMap(name, {}, { tier, [name]: '' })])
    }
  })

  test('are in order, at one version, and their items name no kind', async () => {
    server.store.putRaw([configMap('0')])
    const answer = await client.get(MAPS)
    expect(names(answer)).toEqual(['0', 'a', 'b', 'c', 'd', 'e'])
    expect(answer.body).toMatchObject({
      kind: 'ConfigMapList',
      apiVersion: 'v1',
      metadata: { resourceVersion: String(server.store.revision) },
    })
    expect(answer.body.items?.[0]).not.toHaveProperty('kind')
  })

  test('may span namespaces', async () => {
    server.store.putRaw([{ ...configMap('z'), metadata: { name: 'z', namespace: 'kube-system' } }])
    expect(names(await client.get('/api/v1/configmaps'))).toEqual(['a', 'b', 'c', 'd', 'e', 'z'])
    expect(names(await client.get('/api/v1/namespaces/kube-system/configmaps'))).toEqual(['z'])
  })

  test.each([
    ['tier=t1', ['b', 'd']],
    ['tier==t1', ['b', 'd']],
    ['tier!=t1', ['a', 'c', 'e']],
    ['tier in (t1, t7),!b', ['d']],
    ['tier notin (t1)', ['a', 'c', 'e']],
    ['a', ['a']],
    ['!a,tier=t0', ['c', 'e']],
    ['missing!=x,a', ['a']],
  ])('of labels %s select %j', async (selector, wanted) => {
    expect(names(await client.get(`${MAPS}?labelSelector=${encodeURIComponent(selector)}`))).toEqual(wanted)
  })

  test('of a malformed selector or an unknown field are refused', async () => {
    for (const query of ['labelSelector=a%20b%20c', 'fieldSelector=data.x%3Dy', 'fieldSelector=nonsense']) {
      expect((await client.get(`${MAPS}?${query}`)).code).toBe(400)
    }
  })

  test('come in pages of one version, whatever happens meanwhile', async () => {
    const first = await client.get(`${MAPS}?limit=2`)
    expect(names(first)).toEqual(['a', 'b'])
    expect(first.body.metadata).toMatchObject({ remainingItemCount: 3 })
    server.store.putRaw([configMap('bb'), configMap('c', { changed: 'yes' })])
    server.store.deleteRaw([configMap('d')])
    const token = String(first.body.metadata?.['continue'])
    const second = await client.get(`${MAPS}?limit=2&continue=${token}`)
    expect(names(second)).toEqual(['c', 'd'])
    expect(second.body.items?.[0]?.['data']).toEqual({})
    expect(second.body.metadata?.['resourceVersion']).toBe(first.body.metadata?.['resourceVersion'])
    const last = await client.get(`${MAPS}?limit=2&continue=${String(second.body.metadata?.['continue'])}`)
    expect(names(last)).toEqual(['e'])
    expect(last.body.metadata).not.toHaveProperty('continue')
  })

  test('whose page token is compacted answer 410', async () => {
    const first = await client.get(`${MAPS}?limit=2`)
    server.store.putRaw([configMap('x')])
    server.store.compact()
    const answer = await client.get(`${MAPS}?limit=2&continue=${String(first.body.metadata?.['continue'])}`)
    expect([answer.code, answer.body.reason]).toEqual([410, 'Expired'])
  })

  test('of an exact version show that version', async () => {
    const at = server.store.revision
    server.store.deleteRaw([configMap('a')])
    const exact = `${MAPS}?resourceVersion=${at}&resourceVersionMatch=Exact`
    expect(names(await client.get(exact))).toEqual(['a', 'b', 'c', 'd', 'e'])
    server.store.compact()
    expect((await client.get(exact)).code).toBe(410)
  })

  test('of a version to come answer 504', async () => {
    const answer = await client.get(`${MAPS}?resourceVersion=${server.store.revision + 5}`)
    expect([answer.code, answer.body.message]).toEqual([
      504,
      expect.stringContaining('Too large resource version'),
    ])
  })

  test('can be of metadata only', async () => {
    const accept = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1'
    const { body } = await client.get(MAPS, { accept })
    expect(body.items?.[0]).toMatchObject({ kind: 'PartialObjectMetadata', metadata: { name: 'a' } })
    expect(body.items?.[0]).not.toHaveProperty('data')
  })
})

test('pods and services are found by the fields that the control plane uses', async () => {
  server.store.putRaw([
    pod('p1', 'web', 'n1', ['10.1.0.1']),
    pod('p2', 'web', 'n2', ['10.2.0.1']),
    { ...pod('p3', 'web', 'n1', []), status: { phase: 'Failed' } },
  ])
  const select = async (path: string, fields: string): Promise<string[]> =>
    names(await client.get(`${path}?fieldSelector=${encodeURIComponent(fields)}`))
  expect(await select('/api/v1/pods', 'spec.nodeName=n1')).toEqual(['p1', 'p3'])
  expect(await select('/api/v1/pods', 'spec.nodeName=n1,status.phase!=Failed')).toEqual(['p1'])
  expect(await select('/api/v1/pods', 'metadata.name=p2,metadata.namespace=default')).toEqual(['p2'])
  expect(await select('/api/v1/services', 'spec.clusterIP=10.96.0.1')).toEqual(['kubernetes'])
})

describe('tables', () => {
  const accept = 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json'

  test('have the columns people know', async () => {
    server.store.putRaw([pod('p1', 'web', 'n1', ['10.1.0.1'])])
    const { body } = await client.get('/api/v1/namespaces/default/pods', { accept })
    const table = body as unknown as {
      columnDefinitions: { name: string; priority: number }[]
      rows: { cells: unknown[]; object: object }[]
    }
    expect(
      table.columnDefinitions.map(({ name, priority }) => `${name}${priority === 0 ? '' : '*'}`),
    ).toEqual([
      'Name',
      'Ready',
      'Status',
      'Restarts',
      'Age',
      'IP*',
      'Node*',
      'Nominated Node*',
      'Readiness Gates*',
    ])
    expect(table.rows[0]?.cells.slice(0, 4)).toEqual(['p1', '0/1', 'Running', 0])
    expect(table.rows[0]?.cells.slice(5, 7)).toEqual(['10.1.0.1', 'n1'])
    expect(table.rows[0]?.object).toMatchObject({ kind: 'PartialObjectMetadata', metadata: { name: 'p1' } })
  })

  test('show raw objects that lack what a column reads', async () => {
    server.store.putRaw([
      { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'odd' } },
      pod('p1', 'web', 'n1', []),
    ])
    const { code, body } = await client.get('/api/v1/namespaces/default/pods', { accept })
    expect([code, body['rows']]).toMatchObject([
      200,
      [
        { cells: expect.arrayContaining(['odd', '<malformed>']) },
        { cells: expect.arrayContaining(['p1', '0/1']) },
      ],
    ])
  })

  test('are watched as tables', async () => {
    await using watch = await client.watch('/api/v1/nodes?watch=true', { accept })
    server.store.putRaw([node('n1')])
    expect(await watch.next()).toMatchObject({
      type: 'ADDED',
      object: {
        kind: 'Table',
        rows: [
          {
            cells: [
              'n1',
              'Unknown',
              '<none>',
              expect.any(String),
              '<unknown>',
              '<none>',
              '<none>',
              '<unknown>',
              '<unknown>',
              '<unknown>',
            ],
          },
        ],
      },
    })
  })
})

test('discovery lists every resource, aggregated for those who ask', async () => {
  const plain = await client.get('/apis/discovery.k8s.io/v1')
  expect(plain.body).toMatchObject({
    kind: 'APIResourceList',
    groupVersion: 'discovery.k8s.io/v1',
    resources: [{ name: 'endpointslices', kind: 'EndpointSlice', namespaced: true }],
  })
  const accept = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList'
  const all = await client.get('/apis', { accept })
  expect(all.headers.get('content-type')).toContain('as=APIGroupDiscoveryList')
  expect(all.body.items?.map(({ metadata }) => metadata.name)).toEqual([
    'apps',
    'coordination.k8s.io',
    'discovery.k8s.io',
    'events.k8s.io',
    'networking.k8s.io',
  ])
  expect((await client.get('/version')).body).toMatchObject({ major: '1' })
  expect((await client.get('/apis/nothing.example.com')).code).toBe(404)
})

test('health paths answer ok', async () => {
  for (const path of ['/healthz', '/livez', '/readyz', '/readyz/ping']) {
    expect(await (await fetch(server.url + path)).text()).toBe('ok')
  }
})
