import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import type { ApiServer } from '../lab/apiserver/server.ts'
import { startApiServer } from '../lab/apiserver/server.ts'
import { main } from './main.ts'

vi.setConfig({ testTimeout: 30_000 })

const NODE = (name: string, ip: string): object => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name },
  spec: { podCIDRs: ['10.64.0.0/24'] },
  status: { addresses: [{ type: 'InternalIP', address: ip }] },
})
const OBJECTS = [
  NODE('node-a', '192.0.2.10'),
  NODE('node-b', '192.0.2.11'),
  {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { namespace: 'shop', name: 'web' },
    spec: { clusterIP: '10.96.0.7', clusterIPs: ['10.96.0.7'], ports: [{ name: 'http', port: 80 }] },
  },
  {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { namespace: 'shop', name: 'web-1', labels: { 'kubernetes.io/service-name': 'web' } },
    addressType: 'IPv4',
    ports: [{ name: 'http', port: 8080 }],
    endpoints: [{ addresses: ['10.64.0.5'], nodeName: 'node-a' }],
  },
  {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { namespace: 'shop', name: 'client' },
    spec: { nodeName: 'node-a', containers: [] },
    status: { podIP: '10.64.0.9', podIPs: [{ ip: '10.64.0.9' }] },
  },
]

let server: ApiServer
let directory = ''
beforeAll(async () => {
  server = await startApiServer()
  server.store.putRaw(OBJECTS as never)
  directory = await mkdtemp(join(tmpdir(), 'switchback-cluster-'))
  const kubeconfig = {
    clusters: [{ name: 'c', cluster: { server: server.url } }],
    users: [{ name: 'u', user: {} }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  }
  await writeFile(
    join(directory, 'kubeconfig'),
    JSON.stringify({ apiVersion: 'v1', kind: 'Config', ...kubeconfig }),
  )
})
afterAll(async () => {
  await server.close()
  await rm(directory, { recursive: true })
})

async function traceCluster(...argv: string[]): Promise<{ status: number; out: string; err: string }> {
  const texts = ['', '']
  const stream = (i: number): Writable =>
    new Writable({
      write(chunk: Buffer, _encoding, done) {
        texts[i] += chunk.toString()
        done()
      },
    })
  const all = ['trace', '--cluster', '--to', '10.96.0.7:80', ...argv]
  const status = await main(all, {
    stdout: stream(0),
    stderr: stream(1),
    env: { KUBECONFIG: join(directory, 'kubeconfig') },
  })
  return { status, out: texts[0]!, err: texts[1]! }
}

test('trace --cluster explains a packet from what the API server has', async () => {
  const { status, out, err } = await traceCluster('--node', 'node-a', '--from', 'pod:shop/client')
  expect([status, err]).toEqual([0, ''])
  expect(out).toContain('A new flow from 10.64.0.9:49152 to 10.96.0.7:80/tcp:')
  expect(out).toContain('ClusterIP 10.96.0.7:80/TCP of shop/web:http')
  expect(out).toContain('10.64.0.5:8080')
})

test('trace --cluster asks for the node where there are several, and names them', async () => {
  const { status, err } = await traceCluster()
  expect(status).toBe(2)
  expect(err).toMatch(/--node NAME is needed.*node-a, node-b/)
})

test('trace --cluster says what to do when the API server cannot be reached', async () => {
  await writeFile(
    join(directory, 'dead'),
    `clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]\nusers: []\ncontexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n`,
  )
  const { status, err } = await traceCluster('--kubeconfig', join(directory, 'dead'), '--node', 'node-a')
  expect(status).toBe(1)
  expect(err).toContain('127.0.0.1:1')
})

test('an API server that nobody listens for is complained of once', async () => {
  const file = join(directory, 'nobody')
  const text = {
    clusters: [{ name: 'c', cluster: { server: 'http://127.0.0.1:9' } }],
    users: [{ name: 'u', user: {} }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  }
  await writeFile(file, JSON.stringify({ apiVersion: 'v1', kind: 'Config', ...text }))
  const said: string[][] = [[], []]
  const [stdout, stderr] = said.map(
    (lines) =>
      new Writable({ write: (chunk: Buffer, _encoding, done) => (lines.push(chunk.toString()), done()) }),
  )
  const argv = [
    'trace',
    '--cluster',
    '--kubeconfig',
    file,
    '--node',
    'node-a',
    '--to',
    '10.96.0.7:80',
    '-o',
    'json',
  ]
  expect(await main(argv, { stdout: stdout!, stderr: stderr!, env: {} })).toBe(1)
  expect(said[0]).toEqual([])
  expect(said[1]!.join('').match(/connection refused/g)).toHaveLength(1)
})
