import { execFile, spawn } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'
import type { ExpectReport } from '../src/trace/expectations.ts'

const ROOT = resolve(import.meta.dirname, '..')
const FLOWS = join(ROOT, 'test/cases/flows.json')

interface Run {
  readonly status: number
  readonly report: ExpectReport
  readonly err: string
  readonly pid: number
}

/** Runs `switchback expect --level packets -o json` as a process of its own. */
function expectPackets(file: string): Promise<Run> {
  expect(existsSync(join(ROOT, 'dist/cli/expect.js')), 'run "npm run build" first').toBe(true)
  const argv = [
    join(ROOT, 'bin/switchback'),
    'expect',
    file,
    '--mode',
    'nftables',
    '--level',
    'packets',
    '-o',
    'json',
  ]
  return new Promise((done, fail) => {
    const child = execFile(process.execPath, argv, { maxBuffer: 1 << 26 }, (error, stdout, stderr) => {
      const status = error === null ? 0 : Number(error.code)
      if (stdout === '') fail(new Error(`exit status ${status}: ${stderr}`))
      else done({ status, report: JSON.parse(stdout) as ExpectReport, err: stderr, pid: child.pid! })
    })
  })
}

function namespacesOf(pid: number): readonly string[] {
  return existsSync('/run/netns')
    ? readdirSync('/run/netns').filter((name) => name.startsWith(`sb-p${pid}-`))
    : []
}

test('every open case holds with real packets through the real agent', { timeout: 400_000 }, async () => {
  const { status, report, pid } = await expectPackets(FLOWS)
  expect(report.results.filter(({ ok }) => ok !== true)).toEqual([])
  expect([status, report.total, report.passed]).toEqual([0, 109, 109])
  expect(namespacesOf(pid)).toEqual([])
})

test(
  'packets tell a wrong expectation from a right one, and SCTP is listed where it cannot run',
  { timeout: 120_000 },
  async () => {
    const flows = JSON.parse(await readFile(FLOWS, 'utf8')) as {
      cases: { id: string; expect: Record<string, unknown>; packet: Record<string, unknown> }[]
    }
    const pick = (id: string, newId: string): (typeof flows.cases)[number] => ({
      ...structuredClone(flows.cases.find((flow) => flow.id === id)!),
      id: newId,
    })
    const masquerade = pick('F001', 'wrong-source')
    masquerade.expect['masquerade'] = true
    const hostMasquerade = pick('F003', 'wrong-source-of-host')
    hostMasquerade.expect['masquerade'] = false
    const destination = pick('F001', 'wrong-destination')
    destination.expect['destinations'] = ['10.64.0.101:8080', '10.64.1.101:8080', '10.64.0.153:5301']
    const verdict = pick('F005', 'wrong-verdict')
    verdict.expect = { verdict: 'REJECT' }
    const none = pick('F009', 'wrong-refusal')
    none.expect = { verdict: 'NONE' }
    Object.assign(none, { mode_overrides: {} })
    const sctp = pick('F001', 'sctp')
    sctp.packet['protocol'] = 'SCTP'
    flows.cases = [pick('F002', 'right'), masquerade, hostMasquerade, destination, verdict, none, sctp]
    const directory = await mkdtemp(join(tmpdir(), 'switchback-expect-'))
    try {
      const file = join(directory, 'flows.json')
      await writeFile(file, JSON.stringify(flows))
      const { status, report, pid } = await expectPackets(file)
      expect(status).toBe(1)
      expect(Object.fromEntries(report.results.map(({ id, ok }) => [id, ok]))).toEqual({
        right: true,
        'wrong-source': false,
        'wrong-source-of-host': false,
        'wrong-destination': false,
        'wrong-verdict': false,
        'wrong-refusal': false,
        sctp: null,
      })
      expect(report.results.find(({ id }) => id === 'sctp')?.note).toMatch(/SCTP/)
      expect(namespacesOf(pid)).toEqual([])
    } finally {
      await rm(directory, { recursive: true })
    }
  },
)

test(
  'affinity is seen for clients in the cluster, outside and on the node, in both families, with one configuration after another',
  { timeout: 120_000 },
  async () => {
    const flows = JSON.parse(await readFile(FLOWS, 'utf8')) as {
      fixtures: Record<string, { services: unknown[]; endpointSlices: unknown[] }>
      cases: { id: string; config_overrides?: object; packet: object; expect: object }[]
    }
    const { services, endpointSlices } = flows.fixtures['fx-aff']!
    const inside = flows.cases.find(({ id }) => id === 'F127')!
    const like = (id: string, packet: object, masquerade: boolean): (typeof flows.cases)[number] => ({
      ...inside,
      id,
      packet: { ...inside.packet, ...packet },
      expect: { ...inside.expect, masquerade },
    })
    const affinity = { sessionAffinity: 'ClientIP' }
    const udp = { name: 'dns', protocol: 'UDP' }
    const ips = ['fd11:111::11']
    services.push({
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { namespace: 'aff', name: 'six' },
      spec: {
        type: 'ClusterIP',
        clusterIP: ips[0],
        clusterIPs: ips,
        ports: [{ ...udp, port: 53 }],
        ...affinity,
      },
    })
    endpointSlices.push({
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { namespace: 'aff', name: 'six', labels: { 'kubernetes.io/service-name': 'six' } },
      addressType: 'IPv6',
      ports: [{ ...udp, port: 5353 }],
      endpoints: [
        { addresses: ['fd00:64::d1'], nodeName: 'worker-a' },
        { addresses: ['fd00:64:0:1::d1'], nodeName: 'worker-b' },
      ],
    })
    const overIpv6 = { client: 'local-pod6', src: 'fd00:64::20', dst: ips[0], port: 53, protocol: 'UDP' }
    const six = like('UDP over IPv6', overIpv6, false)
    six.expect = { ...six.expect, destinations: ['[fd00:64::d1]:5353', '[fd00:64:0:1::d1]:5353'] }
    flows.cases = [
      inside,
      six,
      like('outside', { client: 'external', src: '203.0.113.7', dst: '192.0.2.10', port: 31101 }, true),
      like('the node', { client: 'host', src: '192.0.2.10' }, true),
      { ...inside, id: 'again', config_overrides: { nftables: { masqueradeBit: 31 } } },
    ]
    const directory = await mkdtemp(join(tmpdir(), 'switchback-expect-'))
    try {
      const file = join(directory, 'flows.json')
      await writeFile(file, JSON.stringify(flows))
      const { report } = await expectPackets(file)
      expect(report.results.filter(({ ok }) => ok !== true)).toEqual([])
      expect(report.passed).toBe(5)
    } finally {
      await rm(directory, { recursive: true })
    }
  },
)

test('a run that is stopped takes its namespaces down and says so', { timeout: 120_000 }, async () => {
  const argv = [join(ROOT, 'bin/switchback'), 'expect', FLOWS, '--level', 'packets']
  const child = spawn(process.execPath, argv, { stdio: ['ignore', 'ignore', 'pipe'] })
  let err = ''
  child.stderr.on('data', (chunk: Buffer) => {
    err += chunk.toString()
    // The first result is there: other fixtures are under way.
    if (err.includes('packets 1/') && !child.killed) child.kill('SIGTERM')
  })
  const status = await new Promise((done) => child.once('close', done))
  expect(status).toBe(1)
  expect(err).toContain('Stopped by SIGTERM')
  expect(namespacesOf(child.pid!)).toEqual([])
})
