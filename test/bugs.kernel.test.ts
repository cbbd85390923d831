import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { makeNamespace } from '../src/kernel/test-namespace.ts'
import { BAD, GOOD, HOST, POD } from './support/bug-case.ts'
import { LiveNode } from './support/live-bug-case.ts'

/** Cases of test/cases/bugs.md with the real agent: what the API server tells is what the kernel holds. */

vi.setConfig({ testTimeout: 60_000 })

let directory: string
let node: LiveNode
let isCommonAgent = false

beforeAll(async () => {
  expect(existsSync(resolve(import.meta.dirname, '../dist/cli/main.js')), 'run "npm run build" first').toBe(
    true,
  )
  directory = mkdtempSync(join(tmpdir(), 'switchback-bugs-'))
  node = await LiveNode.start(makeNamespace('bugs'), directory)
})
afterEach(() => node.clear())
afterAll(async () => {
  await node[Symbol.asyncDispose]()
  rmSync(directory, { recursive: true })
})

/** [step, client, destination, outcome] */
type Row = readonly [step: number, from: string, to: string, outcome: string]

const at = (step: number, to: string, outcomes: Readonly<Record<string, string>>): Row[] =>
  Object.entries(outcomes).map(([from, outcome]) => [step, from, to, outcome])

/** For what the IPv6 side does: the rules that are waited for are IPv4's. */
const eventually = (check: () => Promise<void>): Promise<void> =>
  vi.waitFor(check, { timeout: 10_000, interval: 30 })

const GAUGE = 'kubeproxy_sync_proxy_rules_no_local_endpoints_total'
const gauges = async () => ({
  internal: await node.metric(GAUGE, 'traffic_policy="internal"', 'ip_family="IPv4"'),
  external: await node.metric(GAUGE, 'traffic_policy="external"', 'ip_family="IPv4"'),
})

const FAR = '10.64.1.71:8080 10.64.2.71:8080'
const CASES: Readonly<Record<string, { readonly what: string; readonly rows: readonly Row[] }>> = {
  B07: {
    what: 'Local policy without a local endpoint leaves the clients of this node alone',
    rows: ['198.18.20.9:80', '198.18.29.9:80', `${HOST}:30509`].flatMap((to) => [
      ...[1, 3].flatMap((step) =>
        at(step, to, { [POD]: `${FAR} (client)`, [HOST]: `${FAR} (node)`, [GOOD]: 'DROP' }),
      ),
      ...at(2, to, { [POD]: '10.64.0.71:8080 10.64.2.71:8080 (client)', [GOOD]: '10.64.0.71:8080 (client)' }),
    ]),
  },
  B08: {
    what: 'internal and external policy are judged apart, and follow the Service alone',
    rows: [
      [1, POD, '10.111.20.10:80', '10.64.0.81:8080 (client)'],
      [1, GOOD, `${HOST}:30510`, '10.64.0.81:8080 10.64.1.81:8080 (node)'],
      [1, POD, '10.111.20.11:80', '10.64.0.82:8080 (client)'],
      [1, GOOD, `${HOST}:30511`, '10.64.0.82:8080 (client)'],
      [1, POD, `${HOST}:30511`, '10.64.0.82:8080 10.64.1.82:8080 (client)'],
      [2, POD, '10.111.20.10:80', '10.64.0.81:8080 10.64.1.81:8080 (client)'],
      [2, GOOD, `${HOST}:30510`, '10.64.0.81:8080 (client)'],
      [2, POD, '10.111.20.11:80', '10.64.0.82:8080 10.64.1.82:8080 (client)'],
      [2, GOOD, `${HOST}:30511`, '10.64.0.82:8080 10.64.1.82:8080 (node)'],
    ],
  },
  B11: {
    what: 'ranges hold for every load-balancer IP, and admit the node looped to itself',
    rows: [
      [1, 17],
      [1, 18],
      [2, 18],
      [2, 19],
    ].flatMap(([step, last]) =>
      [80, 443].flatMap((port) => {
        const served = `10.64.1.111:${port === 80 ? 8080 : 8443} (node)`
        const vip = `198.18.20.${last}`
        return at(step!, `${vip}:${port}`, {
          [HOST]: served,
          [GOOD]: served,
          [vip]: served,
          [BAD]: 'DROP',
          [POD]: 'DROP',
        })
      }),
    ),
  },
  B13: {
    what: 'source ranges can be added, changed and removed on a live Service',
    rows: ['++', '+-', '-+', '++'].flatMap((signs, i) =>
      [GOOD, BAD].map((from, j): Row => {
        return [i + 1, from, '198.18.20.21:80', signs[j] === '+' ? '10.64.1.131:8080 (node)' : 'DROP']
      }),
    ),
  },
  B16: {
    what: 'one node port number serves TCP and UDP apart',
    rows: [
      [1, GOOD, `${HOST}:30053/udp`, '10.64.0.161:5300 (client)'],
      [1, GOOD, `${HOST}:30053`, '10.64.0.161:5301 (client)'],
      [1, GOOD, `${HOST}:30054/udp`, 'NONE'],
      [1, GOOD, `${HOST}:30054`, '10.64.1.162:8080 (node)'],
      [2, GOOD, `${HOST}:30053`, 'NONE'],
      [2, GOOD, `${HOST}:30053/udp`, '10.64.0.161:5300 (client)'],
      [3, GOOD, `${HOST}:30053`, '10.64.0.161:5301 (client)'],
      [3, GOOD, `${HOST}:30053/udp`, 'NONE'],
    ],
  },
  B19: {
    what: 'an endpoint that is not ready is no destination of affinity either',
    rows: [
      [1, POD, '10.111.20.34:80', '10.64.0.191:8080 10.64.1.191:8080 (client)'],
      [2, POD, '10.111.20.34:80', '10.64.1.191:8080 (client)'],
      [3, POD, '10.111.20.34:80', '10.64.0.191:8080 10.64.1.191:8080 (client)'],
      [4, POD, '10.111.20.34:80', 'REJECT'],
    ],
  },
  B27: {
    what: 'names of the greatest length stay apart',
    rows: [
      [1, POD, '10.111.20.44:80', '10.64.1.42:8080 (client)'],
      [1, POD, '10.111.20.42:80', '10.64.0.41:8080 10.64.1.41:8080 (client)'],
      [1, GOOD, '198.18.20.42:80', '10.64.0.41:8080 10.64.1.41:8080 (node)'],
      [1, POD, '10.111.20.43:80', 'REJECT'],
    ],
  },
  B28: {
    what: 'addresses of the other family are passed over',
    rows: [
      [1, GOOD, '198.18.20.45:80', '10.64.1.51:8080 (node)'],
      [1, GOOD, '198.18.29.45:80', '10.64.1.51:8080 (node)'],
      [1, BAD, '198.18.20.45:80', 'DROP'],
      [1, '2001:db8:ffff::7', '[2001:db8:18::45]:80', 'NONE'],
      [1, '2001:db8:ffff::7', '[2001:db8:18::2945]:80', 'NONE'],
      [1, GOOD, '198.18.20.46:80', 'NONE'],
      [1, 'fd00:64::20', '[fd11:111::1446]:80', '[fd00:64:0:1::52]:8080 (client)'],
    ],
  },
  B29: {
    what: 'padded octets are decimal, and the canonical form of the same address is no change',
    rows: [1, 2].flatMap((step) => [
      ...['10.111.20.47:80', '198.18.20.47:80', `${HOST}:30547`, '198.18.21.7:80'].map((to): Row => {
        return [step, GOOD, to, '10.64.0.61:8080 (node)']
      }),
      [step, BAD, '198.18.21.7:80', 'DROP'],
    ]),
  },
}

async function commonAgent(): Promise<void> {
  if (!isCommonAgent) await node.startAgent('B03')
  isCommonAgent = true
}

test.each(Object.entries(CASES).map(([id, { what, rows }]) => [id, what, rows] as const))(
  '%s: %s',
  async (id, _, rows) => {
    await commonAgent()
    for (const step of new Set(rows.map(([each]) => each).toSorted())) {
      const rules = await node.apply(id, step)
      const ofStep = rows.filter(([each]) => each === step)
      expect(ofStep.map(([, from, to]) => [step, from, to, rules.outcome(from, to)])).toEqual(ofStep)
      if (id === 'B07') expect((await gauges()).external).toBe(step === 2 ? 0 : 1)
      if (id === 'B11' && step === 2) expect(rules.text).not.toContain('198.18.20.17')
      if (id === 'B13' && step === 4) expect(rules.text).not.toMatch(/203\.0\.113|firewall[^"]*b13/)
      if (id === 'B29') expect(rules.text).not.toMatch(/10\.111\.16\.39|\.0\d+\b/)
      if (id === 'B27') {
        for (const [, comment] of rules.text.matchAll(/"comment": "([^"]*)"/g)) {
          expect(Buffer.byteLength(comment!)).toBeLessThanOrEqual(128)
        }
      }
    }
  },
)

test.each([
  [false, false],
  [true, false],
  [false, true],
  [true, true],
])('B03: the ready entry of an address wins (ready first: %s, names swapped: %s)', async (first, swapped) => {
  await commonAgent()
  const other = (name: string): string =>
    swapped ? name.replace(/aaa|bbb/, (part) => (part === 'aaa' ? 'bbb' : 'aaa')) : name
  const renamed = (step: number) =>
    node
      .objects('B03', step)
      .map((each) => ({ ...each, metadata: { ...each.metadata, name: other(each.metadata.name) } }))
  const outcome = async (rules: Awaited<ReturnType<LiveNode['rules']>>) =>
    rules.outcome(POD, '10.111.20.4:80')
  const served = '10.64.1.31:8080 (client)'
  for (const object of first ? renamed(1).toReversed() : renamed(1)) await node.put([object])
  expect(await outcome(await node.rules())).toBe(served)
  expect(await outcome(await node.put(renamed(2)))).toBe(served)
  expect(await outcome(await node.remove(`EndpointSlice/b03/${other('cart-bbb')}`))).toBe('REJECT')
  const rules = await node.remove(`EndpointSlice/b03/${other('cart-aaa')}`)
  expect(await outcome(rules)).toBe('REJECT')
  expect(rules.text).not.toContain('10.64.1.31')
})

test('B09: no local endpoint drops, no endpoint at all rejects, and only the former is counted', async () => {
  await commonAgent()
  const rules = await node.apply('B09', 1)
  expect(rules.outcome(POD, '10.111.20.12:80')).toBe('DROP')
  expect(rules.outcome(POD, '10.111.20.13:80')).toBe('REJECT')
  const ports = [30513, 30514, 30515]
  expect(ports.map((port) => rules.outcome(GOOD, `${HOST}:${port}`))).toEqual(['REJECT', 'DROP', 'DROP'])
  expect(await gauges()).toEqual({ internal: 1, external: 2 })
  expect((await node.remove('EndpointSlice/b09/far-s1')).outcome(POD, '10.111.20.12:80')).toBe('REJECT')
  expect(await gauges()).toEqual({ internal: 0, external: 2 })
})

test('B14: one of three claimants serves an address, the same in every round and after a restart', async () => {
  await commonAgent()
  const VIP = '198.18.20.22:80'
  const names = ['first', 'second', 'third']
  const served = names.map((_, i) => `10.64.1.14${i} (node)`.replace(' ', ':8080 '))
  let rules = await node.apply('B14', 1)
  const winner = rules.outcome(GOOD, VIP)
  expect(served).toContain(winner)
  const same = (): void => {
    expect(rules.outcome(GOOD, VIP)).toBe(winner)
    expect([22, 23, 24].map((last) => rules.outcome(GOOD, `10.111.20.${last}:80`))).toEqual(served)
    expect(rules.outcome(GOOD, `${HOST}:30524`)).toBe(served[2])
  }
  for (let round = 1; round <= 10; round++) {
    const annotated = node.objects('B14', 1).map((each) => ({
      ...each,
      metadata: { ...each.metadata, annotations: { round: String(round) } },
    }))
    rules = await node.put([...annotated.slice(round % 6), ...annotated.slice(0, round % 6)])
    same()
  }
  await node.startAgent('B03')
  rules = await node.rules()
  same()
  const left = new Set(names)
  while (left.size > 0) {
    const name = names[served.indexOf(rules.outcome(GOOD, VIP))]!
    expect(left).toContain(name)
    left.delete(name)
    rules = await node.remove(`Service/b14/${name}`)
  }
  expect(rules.outcome(GOOD, VIP)).toBe('NONE')
})

test('B17: entry points and the health port follow the type of a Service', async () => {
  await commonAgent()
  const remote = '10.64.1.171:8080 (node)'
  const expected = [
    ['DROP', 'NONE', 'NONE', null],
    [remote, 'NONE', 'NONE', null],
    [remote, remote, 'NONE', null],
    [remote, 'DROP', 'DROP', 503],
    [remote, 'NONE', 'NONE', null],
    ['DROP', 'NONE', 'NONE', null],
  ]
  for (const [i, outcomes] of expected.entries()) {
    const rules = await node.apply('B17', i + 1)
    const entries = ['10.111.20.32:80', `${HOST}:30532`, '198.18.20.32:80']
    const health = (await node.request(`http://${HOST}:32532/`))?.status ?? null
    expect([...entries.map((to) => rules.outcome(GOOD, to)), health]).toEqual(outcomes)
    if (i === 5) expect(rules.text).not.toMatch(/b17|10\.111\.20\.32|10\.64\.1\.171/)
  }
})

test('B18: Service port and slice port meet by name, at every step of a rename', async () => {
  await commonAgent()
  const outcomes: string[] = []
  for (const step of [1, 2, 3, 4]) {
    outcomes.push((await node.apply('B18', step)).outcome(POD, '10.111.20.33:80'))
  }
  outcomes.push((await node.remove('EndpointSlice/b18/w-s1')).outcome(POD, '10.111.20.33:80'))
  const [one, two] = ['10.64.1.181:8080 (client)', '10.64.1.182:8080 (client)']
  expect(outcomes).toEqual(['REJECT', one, 'REJECT', two, two])
})

test('B20: the affinity time in the kernel follows the Service', async () => {
  await commonAgent()
  for (const [i, seconds] of [10_800, 5, null, 10_800].entries()) {
    const rules = await node.apply('B20', i + 1)
    const timeouts = [...rules.text.matchAll(/"timeout": (\d+)/g)].map(([, text]) => Number(text))
    expect([...new Set(timeouts)]).toEqual(seconds === null ? [] : [seconds])
    expect(rules.isSticky(POD, '10.111.20.35:80')).toBe(seconds !== null)
    expect(rules.isSticky(GOOD, `${HOST}:30535`)).toBe(seconds !== null)
  }
})

test('B22: the health port tells of ready local endpoints, and moves and goes with the Service', async () => {
  await commonAgent()
  const health = async (port = 32537) => {
    const answer = await node.request(`http://${HOST}:${port}/`)
    if (answer === null) return null
    const { service, localEndpoints } = JSON.parse(answer.text) as { service: object; localEndpoints: number }
    expect(service).toEqual({ namespace: 'b22', name: 'h' })
    expect(answer.headers['x-load-balancing-endpoint-weight']).toBe(String(localEndpoints))
    return [answer.status, localEndpoints]
  }
  await node.apply('B22', 1)
  expect(await health()).toEqual([200, 2])
  await node.apply('B22', 2)
  expect(await health()).toEqual([200, 1])
  const rules = await node.apply('B22', 3)
  expect(await health()).toEqual([503, 0])
  const terminating = '10.64.0.221:8080 10.64.0.222:8080 (client)'
  expect(rules.outcome(GOOD, '198.18.20.37:80')).toBe(terminating)
  await node.remove('EndpointSlice/b22/h-s1')
  expect(await health()).toEqual([503, 0])
  await node.apply('B22', 5)
  expect([await health(), await health(32539)]).toEqual([null, [503, 0]])
  await node.remove('Service/b22/h')
  expect(await health(32539)).toBeNull()
})

test('B24: health ports answer on the addresses of node ports only', async () => {
  isCommonAgent = false
  await node.startAgent('B24')
  const answers = async () => {
    const hosts = [HOST, '198.51.100.10', '127.0.0.1', '[2001:db8:10::a]', '[2001:db8:20::a]']
    return Promise.all(
      hosts.map(async (host) => (await node.request(`http://${host}:32541/`))?.status ?? null),
    )
  }
  await node.apply('B24', 1)
  await eventually(async () => expect(await answers()).toEqual([200, null, null, 200, 200]))
  expect(node.log()).toMatch(/nodePortAddresses/)
  await node.startAgent('B24', { nodePortAddresses: ['primary'] })
  await eventually(async () => expect(await answers()).toEqual([200, null, null, 200, null]))
})

test.each([
  ['InterfaceNamePrefix', {}, 'veth7'],
  [
    'BridgeInterface',
    { detectLocalMode: 'BridgeInterface', detectLocal: { bridgeInterface: 'cbr0', interfaceNamePrefix: '' } },
    'cbr0',
  ],
])('B40: %s tells local clients by an interface that is not there yet', async (_, change, name) => {
  isCommonAgent = false
  await node.startAgent('B40', change)
  const rules = await node.apply('B40', 1)
  const served = '10.64.1.151:8080'
  expect(rules.outcome(POD, '10.111.20.62:80', name)).toBe(`${served} (client)`)
  expect(rules.outcome(POD, '198.18.20.62:80', name)).toBe(`${served} (client)`)
  expect(rules.outcome(GOOD, '10.111.20.62:80', 'eth1')).toBe(`${served} (node)`)
  expect(rules.outcome(GOOD, '198.18.20.62:80', 'eth1')).toBe('DROP')
})
