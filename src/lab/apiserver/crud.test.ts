import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { ApiServer } from './server.ts'
import { startApiServer } from './server.ts'
import { TestClient, configMap, pod, service } from './testing/client.ts'

const MAPS = '/api/v1/namespaces/default/configmaps'
const PODS = '/api/v1/namespaces/default/pods'
const SERVICES = '/api/v1/namespaces/default/services'

let server: ApiServer
let client: TestClient

beforeEach(async () => {
  server = await startApiServer({ firstRevision: 1000 })
  client = new TestClient(server.url)
})
afterEach(async () => await server.close())

describe('create', () => {
  test('fills in what the server knows and answers 201', async () => {
    const { code, body } = await client.post(MAPS, configMap('a', { x: '1' }))
    expect(code).toBe(201)
    expect(body).toMatchObject({ kind: 'ConfigMap', apiVersion: 'v1', data: { x: '1' } })
    expect(body.metadata).toMatchObject({
      name: 'a',
      namespace: 'default',
      resourceVersion: String(server.store.revision),
      uid: expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
      creationTimestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/) as string,
    })
  })

  test('a name that is taken is a conflict', async () => {
    await client.post(MAPS, configMap('a'))
    const { code, body } = await client.post(MAPS, configMap('a'))
    expect([code, body.reason, body.message]).toEqual([409, 'AlreadyExists', 'configmaps "a" already exists'])
  })

  test('generateName makes names', async () => {
    const { body } = await client.post(MAPS, { metadata: { generateName: 'run-' } })
    expect(body.metadata?.['name']).toMatch(/^run-[a-z0-9]{5}$/)
  })

  test('takes YAML', async () => {
    const yaml = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\ndata: {a: b}\n'
    const answer = await client.send('POST', MAPS, yaml, { 'content-type': 'application/yaml' })
    expect(answer).toMatchObject({ code: 201, body: { data: { a: 'b' } } })
  })

  test.each([
    ['an unknown namespace', '/api/v1/namespaces/nowhere/configmaps', configMap('a'), 404, 'NotFound'],
    ['another kind', MAPS, service('a'), 400, 'BadRequest'],
    ['another namespace', MAPS, { metadata: { name: 'a', namespace: 'kube-system' } }, 400, 'BadRequest'],
    ['a resourceVersion', MAPS, { metadata: { name: 'a', resourceVersion: '1' } }, 400, 'BadRequest'],
    ['a bad name', MAPS, configMap('A_b'), 422, 'Invalid'],
    ['no name', MAPS, { metadata: {} }, 422, 'Invalid'],
    ['no JSON', MAPS, '{', 400, 'BadRequest'],
    ['a wrong type', MAPS, { metadata: { name: 'a' }, data: { x: 1 } }, 400, 'BadRequest'],
    ['an unknown resource', '/api/v1/namespaces/default/secrets', {}, 404, 'NotFound'],
  ])('is refused with %s', async (_what, path, body, code, reason) => {
    const answer = await client.post(path, body)
    expect([answer.code, answer.body.reason]).toEqual([code, reason])
    expect(answer.body).toMatchObject({ kind: 'Status', status: 'Failure', code })
  })

  test('a body of an unknown type is answered with 415', async () => {
    const answer = await client.send('POST', MAPS, 'x', { 'content-type': 'text/plain' })
    expect([answer.code, answer.body.reason]).toEqual([415, 'UnsupportedMediaType'])
  })

  test('a rehearsal stores nothing', async () => {
    const answer = await client.post(`${MAPS}?dryRun=All`, configMap('a'))
    expect(answer.code).toBe(201)
    expect((await client.get(`${MAPS}/a`)).code).toBe(404)
  })

  test('unknown fields are refused, warned of or ignored as the client wishes', async () => {
    const body = { ...configMap('a'), extra: 1 }
    const strict = await client.post(`${MAPS}?fieldValidation=Strict`, body)
    expect([strict.code, strict.body.message]).toEqual([
      400,
      expect.stringContaining('strict decoding error: unknown field "extra"'),
    ])
    const warned = await client.post(`${MAPS}?fieldValidation=Warn&dryRun=All`, body)
    expect(warned.headers.get('warning')).toContain('unknown field')
    const ignored = await client.post(`${MAPS}?fieldValidation=Ignore`, body)
    expect([ignored.code, ignored.headers.get('warning')]).toEqual([201, null])
  })
})

describe('update', () => {
  test('of a stale version is a conflict', async () => {
    const { body } = await client.post(MAPS, configMap('a'))
    await client.send('PUT', `${MAPS}/a`, { ...configMap('a'), data: { x: '1' } })
    const answer = await client.send('PUT', `${MAPS}/a`, body)
    expect([answer.code, answer.body.reason]).toEqual([409, 'Conflict'])
  })

  test('that changes nothing gives no new version', async () => {
    const first = await client.post(MAPS, configMap('a', { x: '1' }))
    const second = await client.send('PUT', `${MAPS}/a`, first.body)
    expect(second.body.metadata?.['resourceVersion']).toBe(first.body.metadata?.['resourceVersion'])
  })

  test('keeps uid and creation time, and refuses another uid', async () => {
    const first = await client.post(MAPS, configMap('a'))
    const second = await client.send('PUT', `${MAPS}/a`, configMap('a', { x: '1' }))
    expect(second.body.metadata?.['uid']).toBe(first.body.metadata?.['uid'])
    const other = { metadata: { name: 'a', uid: 'other' } }
    expect((await client.send('PUT', `${MAPS}/a`, other)).code).toBe(409)
  })

  test('of what is not there is 404', async () => {
    expect((await client.send('PUT', `${MAPS}/a`, configMap('a'))).code).toBe(404)
  })

  test('of a lease needs a version', async () => {
    const leases = '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases'
    await client.post(leases, { metadata: { name: 'l' }, spec: { holderIdentity: 'a' } })
    const answer = await client.send('PUT', `${leases}/l`, {
      metadata: { name: 'l' },
      spec: { holderIdentity: 'b' },
    })
    expect([answer.code, answer.body.message]).toEqual([
      422,
      expect.stringContaining('must be specified for an update'),
    ])
  })
})

describe('status', () => {
  test('is changed only through its own path, which changes nothing else', async () => {
    const { body } = await client.post(SERVICES, {
      ...service('s'),
      status: { loadBalancer: { ingress: [{ ip: '1.2.3.4' }] } },
    })
    expect(body['status']).toEqual({ loadBalancer: {} })
    const ingress = [{ ip: '192.0.2.1' }]
    const status = await client.send('PUT', `${SERVICES}/s/status`, {
      ...body,
      spec: { ports: [{ port: 99 }] },
      status: { loadBalancer: { ingress } },
    })
    expect(status.body).toMatchObject({
      spec: { ports: [{ port: 80 }] },
      status: { loadBalancer: { ingress } },
    })
    const main = await client.patch(`${SERVICES}/s`, 'merge-patch+json', {
      metadata: { labels: { a: 'b' } },
      status: { loadBalancer: { ingress: null } },
    })
    expect(main.body).toMatchObject({
      metadata: { labels: { a: 'b' } },
      status: { loadBalancer: { ingress } },
    })
  })
})

describe('delete', () => {
  test('removes and says which object it was', async () => {
    const { body } = await client.post(MAPS, configMap('a'))
    const answer = await client.send('DELETE', `${MAPS}/a`)
    expect(answer.body).toMatchObject({
      kind: 'Status',
      status: 'Success',
      details: { name: 'a', kind: 'configmaps', uid: body.metadata?.['uid'] },
    })
    expect((await client.send('DELETE', `${MAPS}/a`)).code).toBe(404)
  })

  test('with another uid or version as precondition is a conflict', async () => {
    await client.post(MAPS, configMap('a'))
    const wrong = { preconditions: { uid: 'other' } }
    expect((await client.send('DELETE', `${MAPS}/a`, wrong)).code).toBe(409)
    expect((await client.get(`${MAPS}/a`)).code).toBe(200)
  })

  test('of a pod on a node waits for its grace period to be ended by the node', async () => {
    server.store.putRaw([pod('p', 'web', 'n1', ['10.1.0.1'])])
    const first = await client.send('DELETE', `${PODS}/p`)
    expect(first.body.metadata).toMatchObject({ deletionGracePeriodSeconds: 30 })
    expect(first.body.metadata?.['deletionTimestamp']).toBeDefined()
    expect((await client.get(`${PODS}/p`)).code).toBe(200)
    await client.send('DELETE', `${PODS}/p`, { gracePeriodSeconds: 0 })
    expect((await client.get(`${PODS}/p`)).code).toBe(404)
  })

  test('of a pod without a node takes effect at once', async () => {
    const created = await client.post(PODS, {
      metadata: { name: 'p' },
      spec: { containers: [{ name: 'c', image: 'i' }] },
    })
    expect(created.body).toMatchObject({ status: { phase: 'Pending' } })
    await client.send('DELETE', `${PODS}/p`)
    expect((await client.get(`${PODS}/p`)).code).toBe(404)
  })

  test('waits for finalizers', async () => {
    await client.post(MAPS, { metadata: { name: 'a', finalizers: ['example.com/hold'] } })
    await client.send('DELETE', `${MAPS}/a`)
    expect((await client.get(`${MAPS}/a`)).body.metadata?.['deletionTimestamp']).toBeDefined()
    await client.patch(`${MAPS}/a`, 'merge-patch+json', { metadata: { finalizers: null } })
    expect((await client.get(`${MAPS}/a`)).code).toBe(404)
  })

  test('of a selection removes just that', async () => {
    await client.post(MAPS, configMap('a', {}, { x: '1' }))
    await client.post(MAPS, configMap('b', {}, { x: '2' }))
    await client.send('DELETE', `${MAPS}?labelSelector=x%3D1`)
    expect((await client.get(MAPS)).body.items?.map(({ metadata }) => metadata.name)).toEqual(['b'])
    expect((await client.send('DELETE', SERVICES)).code).toBe(405)
  })

  test('takes what belongs to the object along, unless it is to be orphaned', async () => {
    for (const [owner, child, policy] of [
      ['a', 'a-child', 'Background'],
      ['b', 'b-child', 'Orphan'],
    ] as const) {
      const { body } = await client.post(MAPS, configMap(owner))
      const ownerReferences = [
        { apiVersion: 'v1', kind: 'ConfigMap', name: owner, uid: body.metadata?.['uid'] },
      ]
      await client.post(MAPS, { metadata: { name: child, ownerReferences } })
      await client.send('DELETE', `${MAPS}/${owner}`, { propagationPolicy: policy })
    }
    await expect.poll(async () => (await client.get(`${MAPS}/a-child`)).code).toBe(404)
    expect((await client.get(`${MAPS}/b-child`)).body.metadata?.['ownerReferences']).toBeUndefined()
  })

  test('of a namespace empties it first', async () => {
    await client.post('/api/v1/namespaces', { metadata: { name: 'team' } })
    await client.post('/api/v1/namespaces/team/configmaps', configMap('a'))
    server.store.putRaw([
      { ...pod('p', 'web', 'n1', ['10.1.0.1']), metadata: { name: 'p', namespace: 'team' } },
    ])
    const answer = await client.send('DELETE', '/api/v1/namespaces/team')
    expect(answer.body).toMatchObject({ status: { phase: 'Terminating' } })
    expect((await client.post('/api/v1/namespaces/team/configmaps', configMap('b'))).code).toBe(403)
    await expect
      .poll(
        async () => (await client.get('/api/v1/namespaces/team/pods/p')).body.metadata?.['deletionTimestamp'],
      )
      .toBeDefined()
    await client.send('DELETE', '/api/v1/namespaces/team/pods/p?gracePeriodSeconds=0')
    await expect.poll(async () => (await client.get('/api/v1/namespaces/team')).code).toBe(404)
  })
})

describe('patch', () => {
  const PATH = `${SERVICES}/s`
  beforeEach(async () => {
    await client.post(
      SERVICES,
      service('s', {
        ports: [
          { name: 'a', port: 80 },
          { name: 'b', port: 81 },
        ],
      }),
    )
  })

  test('a merge patch replaces lists and removes by null', async () => {
    const { body } = await client.patch(PATH, 'merge-patch+json', {
      spec: { ports: [{ port: 90 }], selector: null },
    })
    expect(body['spec']).toMatchObject({ ports: [{ port: 90, targetPort: 90 }] })
    expect(body['spec']).not.toHaveProperty('selector')
  })

  test('a strategic patch joins ports by number', async () => {
    const patch = {
      spec: {
        $setElementOrder: [],
        ports: [
          { port: 81, targetPort: 9000 },
          { port: 80, $patch: 'delete' },
          { name: 'c', port: 82 },
        ],
        '$setElementOrder/ports': [{ port: 82 }, { port: 81 }],
      },
    }
    const { body } = await client.patch(PATH, 'strategic-merge-patch+json', patch)
    expect(body['spec']).toMatchObject({
      ports: [
        { name: 'c', port: 82, targetPort: 82 },
        { name: 'b', port: 81, targetPort: 9000 },
      ],
    })
  })

  test('a JSON patch edits by path and tests first', async () => {
    const good = [
      { op: 'test', path: '/spec/ports/0/port', value: 80 },
      { op: 'replace', path: '/spec/ports/0/port', value: 8080 },
      { op: 'add', path: '/metadata/labels', value: { 'a~b': 'c' } },
      { op: 'remove', path: '/spec/ports/1' },
    ]
    const { code, body } = await client.patch(PATH, 'json-patch+json', good)
    expect([code, body['spec']]).toMatchObject([422, undefined])
    const { body: fixed } = await client.patch(
      PATH,
      'json-patch+json',
      good.filter(({ op }) => op !== 'add'),
    )
    expect(fixed['spec']).toMatchObject({ ports: [{ port: 8080 }] })
    const failing = await client.patch(PATH, 'json-patch+json', [
      { op: 'test', path: '/spec/type', value: 'X' },
    ])
    expect(failing.code).toBe(422)
  })

  test('of an unknown type is answered with 415, of a stale version with 409', async () => {
    expect((await client.patch(PATH, 'json', {})).code).toBe(415)
    const stale = { metadata: { resourceVersion: '1' }, spec: { type: 'NodePort' } }
    expect((await client.patch(PATH, 'merge-patch+json', stale)).code).toBe(409)
  })
})

test('methods that a path does not have are answered with 405', async () => {
  for (const [method, path] of [
    ['PUT', MAPS],
    ['POST', `${MAPS}/a`],
    ['PATCH', MAPS],
  ] as const) {
    expect((await client.send(method, path, {})).code).toBe(405)
  }
})

test('raw objects are kept as they are', async () => {
  const odd = { ...service('old', { clusterIP: '010.096.000.007', ports: [] }), extra: { kept: true } }
  server.store.putRaw([{ kind: 'List', apiVersion: 'v1', items: [odd] }])
  const { body } = await client.get(`${SERVICES}/old`)
  expect(body).toMatchObject({ spec: { clusterIP: '010.096.000.007', ports: [] }, extra: { kept: true } })
  expect(() => server.store.putRaw([{ kind: 'Secret', apiVersion: 'v1', metadata: { name: 'x' } }])).toThrow(
    /cannot keep this object: apiVersion "v1", kind "Secret"/,
  )
})
