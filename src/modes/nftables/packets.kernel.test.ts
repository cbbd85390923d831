import type { ChildProcess } from 'node:child_process'
import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { PortShape } from '../../../test/support/service-maps.ts'
import { nodeView, serviceMap, servicePort } from '../../../test/support/service-maps.ts'
import { openNft } from '../../kernel/nft/linux.ts'
import type { NftPort } from '../../kernel/nft/port.ts'
import { compile } from './compile.ts'
import { nftables } from './index.ts'
import type { NftablesRules } from './rules.ts'

/**
 * Behaviour over time, with real connections: a node, two pods, and a client outside, each a network namespace. What a
 * single packet meets is held by the flow cases.
 */
const ID = `sb-flow-${process.pid}`
const NODE = `${ID}-node`
const PODS = ['10.128.0.1', '10.128.0.2'] as const
const PLACES = [
  { name: `${ID}-a`, link: 'to-a', address: PODS[0], gateway: '10.128.255.1' },
  { name: `${ID}-b`, link: 'to-b', address: PODS[1], gateway: '10.128.255.2' },
  { name: `${ID}-out`, link: 'to-out', address: '203.0.113.2', gateway: '203.0.113.1' },
] as const
const [A, B, OUTSIDE] = PLACES.map(({ name }) => name) as [string, string, string]
const SERVICE = '10.96.0.2'

const ip = (...args: readonly string[]): string => execFileSync('ip', args, { encoding: 'utf8' })
const servers: ChildProcess[] = []
let nft: NftPort
let kernel: { readonly nft: NftPort }

/** Answers each connection with its name and the address it saw. */
const SERVER = `
  require('node:net').createServer((socket) => {
    socket.on('error', () => {})
    socket.end(process.argv[1] + ' ' + socket.remoteAddress.replace('::ffff:', ''))
  }).listen(8080, '0.0.0.0', () => console.log('listening'))`

/** Connects again and again, one after the other; a line for each: the answer or the error code. */
const CLIENT = `
  const [ip, port, count, pauseMs] = process.argv.slice(1)
  const net = require('node:net')
  const one = () => new Promise((done) => {
    let text = ''
    const socket = net.connect(Number(port), ip)
    socket.setTimeout(1500, () => socket.destroy(Object.assign(new Error(), { code: 'SILENCE' })))
    socket.on('data', (data) => (text += data))
    socket.on('end', () => done(text))
    socket.on('error', (error) => done(error.code))
  })
  const run = async () => {
    for (let i = 0; i < Number(count); i++) {
      console.log(await one())
      await new Promise((done) => setTimeout(done, Number(pauseMs)))
    }
  }
  run()`

async function connect(from: string, target: string, count: number, pauseMs = 0): Promise<string[]> {
  const script = ['node', '-e', CLIENT, '--', target, '80', String(count), String(pauseMs)]
  const { stdout } = await promisify(execFile)('ip', ['netns', 'exec', from, ...script])
  return stdout.trim().split('\n')
}

beforeAll(async () => {
  ip('netns', 'add', NODE)
  ip('-n', NODE, 'link', 'set', 'lo', 'up')
  execFileSync('ip', ['netns', 'exec', NODE, 'sh', '-c', 'echo 1 >/proc/sys/net/ipv4/ip_forward'])
  for (const { name, link, address, gateway } of PLACES) {
    ip('netns', 'add', name)
    ip('-n', NODE, 'link', 'add', link, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name)
    ip('-n', NODE, 'address', 'add', gateway, 'peer', address, 'dev', link)
    ip('-n', NODE, 'link', 'set', link, 'up')
    ip('-n', name, 'address', 'add', `${address}/32`, 'dev', 'eth0')
    ip('-n', name, 'link', 'set', 'eth0', 'up')
    ip('-n', name, 'route', 'add', gateway, 'dev', 'eth0')
    ip('-n', name, 'route', 'add', 'default', 'via', gateway)
  }
  // As on any node, every address has a route: what nobody translated is forwarded, not unroutable.
  ip('-n', NODE, 'route', 'add', 'default', 'via', '203.0.113.2')
  for (const [i, name] of [A, B].entries()) {
    const server = spawn('ip', ['netns', 'exec', name, 'node', '-e', SERVER, '--', 'ab'[i]!])
    servers.push(server)
    await once(server.stdout, 'data')
  }
  nft = await openNft({ netns: `/run/netns/${NODE}` })
  kernel = { nft }
})

afterEach(() => nftables.cleanup(kernel, 'IPv4'))

afterAll(async () => {
  await nft[Symbol.asyncDispose]()
  for (const server of servers) server.kill('SIGKILL')
  for (const name of [NODE, A, B, OUTSIDE]) ip('netns', 'delete', name)
})

const WEB: PortShape = { number: 1, cluster: [0, 1], local: [0, 1] }
const rulesOf = (shapes: readonly PortShape[], previous: NftablesRules | null = null): NftablesRules => {
  const node = nodeView('IPv4', { localIps: [] })
  return compile(
    serviceMap(
      shapes.map((shape) => servicePort('IPv4', shape)),
      node,
    ),
    previous,
  )
}
const install = async (
  shapes: readonly PortShape[],
  from: NftablesRules | null = null,
  entry: 'active' | 'standby' = 'active',
): Promise<NftablesRules> => {
  const to = rulesOf(shapes, from)
  await nftables.apply(kernel, { from, to, entry })
  return to
}
/** How often each line occurs. */
const tally = (lines: readonly string[]): Record<string, number> => {
  const counts: Record<string, number> = {}
  for (const line of lines) counts[line] = (counts[line] ?? 0) + 1
  return counts
}

test('connections spread over the pods, which see the client only if it is a pod', async () => {
  await install([WEB])
  const [outside, inside] = await Promise.all([connect(OUTSIDE, SERVICE, 60), connect(A, SERVICE, 60)])
  expect(Object.keys(tally(outside)).sort()).toEqual(['a 10.128.255.1', 'b 10.128.255.2'])
  // Of itself a pod hears by the node, or the answer would not come back through it.
  expect(Object.keys(tally(inside)).sort()).toEqual(['a 10.128.255.1', 'b 10.128.0.1'])
  for (const count of [...Object.values(tally(outside)), ...Object.values(tally(inside))]) {
    expect(count).toBeGreaterThan(10)
  }
})

test('a Service without endpoints and an unused port refuse at once, an unknown address stays silent', async () => {
  await install([
    { ...WEB, cluster: [], local: [] },
    { ...WEB, number: 2, protocol: 'UDP' },
  ])
  expect(await connect(A, SERVICE, 1)).toEqual(['ECONNREFUSED'])
  expect(await connect(A, '10.96.0.3', 1)).toEqual(['ECONNREFUSED'])
  expect(await connect(A, '10.96.77.77', 1)).toEqual(['SILENCE'])
})

test('no connection is lost while endpoints, classes and whole sets are replaced', async () => {
  let rules = await install([WEB])
  const running = connect(OUTSIDE, SERVICE, 400, 2)
  const end = new AbortController()
  void running.finally(() => end.abort())
  const others = Array.from({ length: 600 }, (_, i) => ({ number: i + 2, cluster: [0, 1] }))
  const steps = [[WEB, ...others], [{ ...WEB, cluster: [0] }], [{ ...WEB, cluster: [1] }, ...others], [WEB]]
  let changes = 0
  for (; !end.signal.aborted; changes++) {
    rules = await install(steps[changes % steps.length]!, rules)
    // Small writes take no turn of the event loop, which has to hear that the client is done.
    await setTimeout(2)
  }
  const answers = tally(await running)
  expect(changes).toBeGreaterThan(10)
  expect(Object.keys(answers).sort()).toEqual(['a 10.128.255.1', 'b 10.128.255.2'])
})

test('a client with affinity stays while others come and go, and moves when its own endpoint leaves', async () => {
  const sticky = { ...WEB, affinitySeconds: 10_800 }
  let rules = await install([sticky])
  const [first] = await connect(OUTSIDE, SERVICE, 1)
  expect(Object.keys(tally(await connect(OUTSIDE, SERVICE, 30)))).toEqual([first])
  rules = await install([{ ...sticky, cluster: [0, 1, 2] }], rules)
  rules = await install([{ ...sticky, affinitySeconds: 60 }], rules)
  // A restarted agent knows nothing and adopts what it finds.
  rules = await install([{ ...sticky, affinitySeconds: 60 }])
  expect(Object.keys(tally(await connect(OUTSIDE, SERVICE, 30)))).toEqual([first])

  const own = first!.startsWith('a') ? 0 : 1
  rules = await install([{ ...sticky, cluster: [1 - own] }], rules)
  const [moved] = await connect(OUTSIDE, SERVICE, 1)
  expect(moved!.startsWith(own === 0 ? 'b' : 'a')).toBe(true)
  rules = await install([sticky], rules)
  expect(Object.keys(tally(await connect(OUTSIDE, SERVICE, 30)))).toEqual([moved])
  await install([WEB], rules)
  expect(Object.keys(tally(await connect(OUTSIDE, SERVICE, 40)))).toHaveLength(2)
})

test('with a short affinity time-out a client is free again when it was silent for as long', async () => {
  await install([{ ...WEB, affinitySeconds: 1 }])
  const seen = new Set<string>()
  for (let i = 0; i < 12 && seen.size < 2; i++) {
    const [first, second] = await connect(OUTSIDE, SERVICE, 2)
    expect(second).toBe(first)
    seen.add(first!)
    const sets = async () => [...(await nft.read('ip', 'kube-proxy'))!.elements.keys()]
    await expect.poll(async () => (await sets()).filter((name) => name.startsWith('aff')), POLL).toEqual([])
  }
  expect(seen.size).toBe(2)
})

const POLL = { timeout: 10_000, interval: 100 }

test('in standby nothing is served, and opening the entry takes one step', async () => {
  const rules = await install([WEB], null, 'standby')
  expect(await connect(A, SERVICE, 1)).not.toEqual([expect.stringMatching(/^[ab] /)])
  await nftables.apply(kernel, { from: rules, to: rules, entry: 'active' })
  expect(await connect(A, SERVICE, 1)).toEqual([expect.stringMatching(/^[ab] /)])
})
