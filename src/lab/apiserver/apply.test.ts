import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Dict } from './json.ts'
import { dictOf, listOf } from './json.ts'
import type { ManagedEntry } from './managed-fields.ts'
import type { ApiServer } from './server.ts'
import { startApiServer } from './server.ts'
import type { Answer } from './testing/client.ts'
import { TestClient, configMap, service } from './testing/client.ts'

const MAPS = '/api/v1/namespaces/default/configmaps'
const SERVICES = '/api/v1/namespaces/default/services'

let server: ApiServer
let client: TestClient

beforeEach(async () => {
  server = await startApiServer({ firstRevision: 1000 })
  client = new TestClient(server.url)
})
afterEach(async () => await server.close())

function apply(path: string, body: Dict, manager: string, more = ''): Promise<Answer> {
  const full = { apiVersion: 'v1', ...body }
  return client.patch(`${path}?fieldManager=${manager}${more}`, 'apply-patch+yaml', full)
}

const owners = ({ body }: Answer): string[] =>
  listOf<ManagedEntry>(body.metadata?.['managedFields']).map(
    ({ manager, operation }) => `${manager} ${operation}`,
  )

test('applying creates, and applying the same again changes nothing', async () => {
  const first = await apply(`${MAPS}/a`, configMap('a', { x: '1' }), 'me')
  expect([first.code, owners(first)]).toEqual([201, ['me Apply']])
  const second = await apply(`${MAPS}/a`, configMap('a', { x: '1' }), 'me')
  expect(second.code).toBe(200)
  expect(second.body.metadata).toEqual(first.body.metadata)
})

test('what a manager no longer applies goes, unless another one owns it too', async () => {
  await apply(`${MAPS}/a`, configMap('a', { x: '1', y: '1', z: '1' }), 'me')
  await apply(`${MAPS}/a`, configMap('a', { y: '1' }), 'you')
  const { body } = await apply(`${MAPS}/a`, configMap('a', { z: '2' }), 'me')
  expect(body['data']).toEqual({ y: '1', z: '2' })
})

test('a field that another manager owns is a conflict until it is forced', async () => {
  await apply(`${SERVICES}/s`, service('s', { ports: [{ port: 80, targetPort: 8080 }] }), 'me')
  const other = service('s', { ports: [{ port: 80, targetPort: 9090 }] })
  const refused = await apply(`${SERVICES}/s`, other, 'you')
  expect([refused.code, refused.body.reason, refused.body.message]).toEqual([
    409,
    'Conflict',
    'Apply failed with 1 conflict: conflict with "me": .spec.ports[port=80,protocol="TCP"].targetPort',
  ])
  const forced = await apply(`${SERVICES}/s`, other, 'you', '&force=true')
  expect(dictOf(forced.body['spec'])['ports']).toMatchObject([{ port: 80, targetPort: 9090 }])
  const back = await apply(`${SERVICES}/s`, service('s', { ports: [{ port: 80 }] }), 'me')
  expect(back.code).toBe(200)
  expect(dictOf(back.body['spec'])['ports']).toMatchObject([{ port: 80, targetPort: 9090 }])
})

test('lists with keys are joined by them', async () => {
  await apply(`${SERVICES}/s`, service('s', { ports: [{ name: 'a', port: 80 }] }), 'me')
  const { body } = await apply(
    `${SERVICES}/s`,
    { kind: 'Service', metadata: { name: 's' }, spec: { ports: [{ name: 'b', port: 81 }] } },
    'you',
  )
  expect(listOf<Dict>(dictOf(body['spec'])['ports']).map(({ port }) => port)).toEqual([80, 81])
  const { body: less } = await apply(
    `${SERVICES}/s`,
    { kind: 'Service', metadata: { name: 's' }, spec: {} },
    'you',
  )
  expect(listOf<Dict>(dictOf(less['spec'])['ports']).map(({ port }) => port)).toEqual([80])
})

test('a plain write takes the fields that it changes', async () => {
  await apply(`${MAPS}/a`, configMap('a', { x: '1' }), 'me')
  await client.patch(`${MAPS}/a?fieldManager=editor`, 'merge-patch+json', { data: { x: '2' } })
  const current = await client.get(`${MAPS}/a`)
  expect(owners(current)).toEqual(['me Apply', 'editor Update'])
  const refused = await apply(`${MAPS}/a`, configMap('a', { x: '1' }), 'me')
  expect(refused.body.message).toContain('conflict with "editor": .data.x')
})

test('applying needs a manager and the name in the path', async () => {
  expect((await client.patch(`${MAPS}/a`, 'apply-patch+yaml', configMap('a'))).code).toBe(400)
  expect((await apply(`${MAPS}/a`, configMap('b'), 'me')).code).toBe(400)
})

test('a rehearsed apply stores nothing', async () => {
  await apply(`${MAPS}/a`, configMap('a', { x: '1' }), 'me')
  const { body } = await apply(`${MAPS}/a`, configMap('a', { x: '2' }), 'me', '&dryRun=All')
  expect(body['data']).toEqual({ x: '2' })
  expect((await client.get(`${MAPS}/a`)).body['data']).toEqual({ x: '1' })
})
