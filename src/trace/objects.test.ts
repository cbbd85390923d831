import { expect, test } from 'vitest'
import { ConfigError } from '../shared/errors.ts'
import { loadObjects } from './objects.ts'

const SERVICE = `apiVersion: v1
kind: Service
metadata: {namespace: shop, name: web}
spec:
  clusterIP: 10.96.0.7
  ports:
  - {name: http, port: 80}
`

async function problemsOf(text: string): Promise<readonly string[]> {
  try {
    await loadObjects([{ file: 'web.yaml', text }], 'node-a')
  } catch (error) {
    if (error instanceof ConfigError) return error.message.split('\n')
    throw error
  }
  return []
}

test('several documents, lists and JSON make one state', async () => {
  const slice = { kind: 'EndpointSlice', metadata: { namespace: 'shop', name: 'web-1' }, addressType: 'IPv4' }
  const labelled = {
    ...slice,
    metadata: { ...slice.metadata, labels: { 'kubernetes.io/service-name': 'web' } },
    endpoints: [],
    ports: [],
  }
  const { state } = await loadObjects(
    [
      { file: 'web.yaml', text: `${SERVICE}---\nkind: Deployment\nmetadata: {name: any}\n---\n` },
      { file: 'slices.json', text: JSON.stringify({ kind: 'List', items: [labelled] }) },
    ],
    'node-a',
  )
  const bundle = state.services.get('shop/web')
  expect(bundle?.service?.clusterIps).toEqual(['10.96.0.7'])
  expect(bundle?.slices.map(({ name }) => name)).toEqual(['web-1'])
})

test('a field of the wrong type is reported with the place of its list', async () => {
  const [problem] = await problemsOf(`# a comment\n${SERVICE.replace('port: 80', 'port: eighty')}`)
  expect(problem).toMatch(/^web\.yaml:8:3: spec\.ports\[\]\.port: Service shop\/web: must be /)
})

test('text that is not YAML is reported where it goes wrong, and all problems come at once', async () => {
  const problems = await problemsOf(`kind: Service\nmetadata: {name: a\n---\nno: kind\n`)
  expect(problems[0]).toMatch(/^web\.yaml:\d+:\d+: not YAML: /)
  expect(problems.at(-1)).toBe('web.yaml:4:1: not a Kubernetes object: there is no "kind"')
})
