import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { Writable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { main } from './main.ts'

const FLOWS = resolve(import.meta.dirname, '../../test/cases/flows.json')
const JSON_PAGE = resolve(import.meta.dirname, '../../docs/json.md')

const OBJECTS = `
apiVersion: v1
kind: List
items:
- kind: Node
  metadata: {name: node-a}
  spec: {podCIDRs: [10.64.0.0/24]}
  status: {addresses: [{type: InternalIP, address: 192.0.2.10}]}
- kind: Service
  metadata: {namespace: shop, name: web}
  spec: {type: NodePort, clusterIP: 10.96.0.7, clusterIPs: [10.96.0.7], ports: [{name: http, port: 80, nodePort: 30080}]}
- kind: EndpointSlice
  metadata: {namespace: shop, name: web-1, labels: {kubernetes.io/service-name: web}}
  addressType: IPv4
  ports: [{name: http, port: 8080}]
  endpoints:
  - {addresses: [10.64.0.5], nodeName: node-a, targetRef: {kind: Pod, namespace: shop, name: web-x}}
  - {addresses: [10.64.1.5], nodeName: node-b}
`
const CONFIG = `
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clusterCIDR: 10.64.0.0/16
`

vi.setConfig({ testTimeout: 30_000 })

let directory = ''
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'switchback-trace-'))
  await writeFile(join(directory, 'objects.yaml'), OBJECTS)
  await writeFile(join(directory, 'config.yaml'), CONFIG)
})
afterAll(() => rm(directory, { recursive: true }))

async function switchback(...argv: string[]): Promise<{ status: number; out: string; err: string }> {
  const texts = ['', '']
  const stream = (i: number): Writable =>
    new Writable({
      write(chunk: Buffer, _encoding, done) {
        texts[i] += chunk.toString()
        done()
      },
    })
  const status = await main(argv, { stdout: stream(0), stderr: stream(1), env: {} })
  return { status, out: texts[0]!, err: texts[1]! }
}

const trace = (...argv: string[]): ReturnType<typeof switchback> =>
  switchback(
    'trace',
    '--objects',
    join(directory, 'objects.yaml'),
    '--config',
    join(directory, 'config.yaml'),
    ...argv,
  )

describe('switchback trace', () => {
  test('explains a packet in words, with addresses before and after, and the way back', async () => {
    const { out, status } = await trace('--to', '10.96.0.7:80', '--from', 'pod:shop/web-x')
    expect(status).toBe(0)
    expect(out).toContain('FORWARD to one of 2 endpoints with even shares.')
    expect(out).toContain('10.64.0.5:8080  sees an address of this node as client')
    expect(out).toContain('ClusterIP 10.96.0.7:80/TCP of shop/web:http')
    expect(out).toMatch(
      /was {3}10\.64\.0\.5:\d+ → 10\.96\.0\.7:80\n +now {3}10\.64\.0\.5:\d+ → 10\.64\.0\.5:8080/,
    )
    expect(out).toContain('The answer of 10.64.0.5:8080:')
    expect(out).not.toContain('undefined')
  })

  test('tells programs the same in the documented fields', async () => {
    const { out } = await trace('--to', '192.0.2.10:30080', '--from', '203.0.113.7', '-o', 'json')
    const report = JSON.parse(out) as Record<string, unknown> & { hops: Record<string, unknown>[] }
    expect(report).toMatchObject({
      verdict: 'FORWARD',
      destinations: ['10.64.0.5:8080', '10.64.1.5:8080'],
      masquerade: true,
      sticky: false,
      notUnderstood: [],
    })
    const { out: hairpin } = await trace('--to', '10.96.0.7:80', '--from', '10.64.0.5', '-o', 'json')
    const all = JSON.parse(hairpin) as typeof report
    expect(all['masqueradePerDestination']).toEqual({ '10.64.0.5:8080': true, '10.64.1.5:8080': false })
    const page = await fieldsOf('switchback trace -o json')
    expect(page[0]).toEqual(Object.keys(all))
    for (const hop of report.hops) expect(Object.keys(hop)).toEqual(page[1])
  })

  test.each([
    [['--to', 'nonsense'], /--to: "nonsense" is no address/],
    [['--to', '10.96.0.7:80', '--from', 'pod:shop/nobody'], /no pod shop\/nobody/],
    [['--to', '10.96.0.7:80', '--from', 'fd00::1'], /different IP families/],
    [['--to', '10.96.0.7:80', '--kernel'], /Say once where the rules come from/],
    [['--to', '10.96.0.7:80', '--mode', 'nftable'], /no proxy mode/],
    [['--wrong'], /unknown option '--wrong'/],
  ])('refuses %j with the way out and exit status 2', async (argv, message) => {
    const { status, out, err } = await trace(...argv)
    expect([status, out]).toEqual([2, ''])
    expect(err).toMatch(message)
  })
})

test('switchback compile prints both families, and as JSON the documented fields', async () => {
  const argv = ['compile', '--objects', join(directory, 'objects.yaml')]
  const text = await switchback(...argv)
  expect(text.out).toContain('table ip kube-proxy')
  expect(text.out).toContain('table ip6 kube-proxy')
  const { out } = await switchback(...argv, '-o', 'json')
  expect((await fieldsOf('switchback compile -o json'))[0]).toEqual(Object.keys(JSON.parse(out) as object))
})

test('switchback expect passes the open cases on the model and on the rules', async () => {
  const { status, out } = await switchback(
    'expect',
    FLOWS,
    '--mode',
    'nftables',
    '--level',
    'decide,trace',
    '-o',
    'json',
  )
  const report = JSON.parse(out) as { total: number; passed: number; results: object[] }
  expect([status, report.total, report.passed]).toEqual([0, 218, 218])
  const page = await fieldsOf('switchback expect -o json')
  expect(page[0]).toEqual(Object.keys(report))
  expect(page[1]).toEqual(Object.keys(report.results[0]!))
})

test('switchback expect fails with exit status 1 when an expectation is not met, and says what differs', async () => {
  const flows = JSON.parse(await readFile(FLOWS, 'utf8')) as {
    cases: { id: string; expect: { verdict: string } }[]
  }
  flows.cases = flows.cases.filter(({ id }) => id === 'F001' || id === 'F035')
  flows.cases[1]!.expect.verdict = 'DROP'
  const file = join(directory, 'flows.json')
  await writeFile(file, JSON.stringify(flows))
  const { status, out } = await switchback('expect', file, '--level', 'trace')
  expect(status).toBe(1)
  expect(out).toContain('nftables trace: 1 of 2 passed')
  expect(out).toContain('F035 FAILED: expected DROP, got REJECT')
})

/** The field names of each table in a section of docs/json.md. */
async function fieldsOf(section: string): Promise<readonly (readonly string[])[]> {
  const page = await readFile(JSON_PAGE, 'utf8')
  const text = page.split(/^## /m).find((part) => part.startsWith(section))!
  const tables = text.split(/^\| Field.*$/m).slice(1)
  return tables.map((table) => [...table.matchAll(/^\| `(\w+)`/gm)].map(([, name]) => name!))
}
