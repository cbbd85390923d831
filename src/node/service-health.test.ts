import { Agent, request } from 'node:http'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import type { Ip } from '../net/ip.ts'
import type { Port } from '../net/port.ts'
import type { NodeView, ServiceHealth, ServiceMap } from '../services/service-map.ts'
import { ManualClock } from '../shared/manual-clock.ts'
import { ShardedMap } from '../shared/sharded-map.ts'
import { ServiceHealthServers } from './service-health.ts'

const open: ServiceHealthServers[] = []
afterEach(async () => {
  for (const servers of open.splice(0)) await servers[Symbol.asyncDispose]()
})

function bench(state = { healthy: true }) {
  const failures: string[] = []
  const clock = new ManualClock()
  const servers = new ServiceHealthServers({
    clock,
    proxyHealthy: () => state.healthy,
    onBindFailure: (health, error) => failures.push(`${health.name}: ${error.message}`),
  })
  open.push(servers)
  return { servers, failures, clock, state }
}

const view = (nodePortIps: readonly string[] | 'any-local', family: 'IPv4' | 'IPv6' = 'IPv4'): NodeView => ({
  name: 'worker-a',
  family,
  zone: null,
  detectLocal: { by: 'none' },
  primaryIp: null,
  nodePortAddresses: nodePortIps === 'any-local' ? 'any-local' : { primary: null },
  nodePortIps: nodePortIps === 'any-local' ? [] : (nodePortIps as Ip[]),
  localIps: [],
  masqueradeAll: false,
  masqueradeBit: 14,
  serviceCidrs: [],
})

function mapOf(
  healths: readonly (readonly [name: string, port: number, localReady: number])[],
  node = view(['127.0.0.1']),
): ServiceMap {
  const entries = healths.map(([name, port, ready]): [string, ServiceHealth] => [
    `b22/${name}`,
    {
      namespace: 'b22',
      name,
      port: port as Port,
      localReadyIps: Array.from({ length: ready }, (_, i) => `10.64.0.${i + 1}` as Ip),
    },
  ])
  return {
    family: node.family,
    node,
    ports: ShardedMap.empty(),
    health: ShardedMap.from(entries),
    problems: ShardedMap.empty(),
  }
}

interface Answer {
  readonly status: number
  readonly weight: string | undefined
  readonly text: string
}

function get(port: number, { host = '127.0.0.1', agent = false as Agent | false } = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request({ host, port, agent, path: '/' }, (response) => {
      let text = ''
      response.on('data', (chunk) => (text += String(chunk)))
      response.on('end', () =>
        resolve({
          status: response.statusCode!,
          weight: response.headers['x-load-balancing-endpoint-weight'] as string | undefined,
          text,
        }),
      )
    })
    sent.on('error', reject)
    sent.end()
  })
}

/** A port that was free a moment ago. */
async function freePort(host = '127.0.0.1'): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

test('a service with local endpoints answers 200 with their number, in the words of kube-proxy', async () => {
  const { servers } = bench()
  const port = await freePort()
  await servers.follow(null, mapOf([['h', port, 2]]))
  expect(await get(port)).toEqual({
    status: 200,
    weight: '2',
    text: '{\n\t"service": {\n\t\t"namespace": "b22",\n\t\t"name": "h"\n\t},\n\t"localEndpoints": 2,\n\t"serviceProxyHealthy": true\n}',
  })
})

test('without local endpoints, or when the proxy does not keep up, the answer is 503', async () => {
  const { servers, state } = bench()
  const port = await freePort()
  const before = mapOf([['h', port, 1]])
  await servers.follow(null, before)
  state.healthy = false
  expect(await get(port)).toMatchObject({
    status: 503,
    weight: '1',
    text: expect.stringContaining('"serviceProxyHealthy": false') as string,
  })
  state.healthy = true
  await servers.follow(before, mapOf([['h', port, 0]]))
  expect(await get(port)).toMatchObject({ status: 503, weight: '0' })
})

test('a changed port is refused at the old place and answers at the new one', async () => {
  const { servers } = bench()
  const [old, now] = [await freePort(), await freePort()]
  const before = mapOf([['h', old, 1]])
  await servers.follow(null, before)
  await servers.follow(before, mapOf([['h', now, 1]]))
  await expect(get(old)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  expect((await get(now)).status).toBe(200)
})

test('a port can move from one service to another in one step', async () => {
  const { servers, failures } = bench()
  const port = await freePort()
  const before = mapOf([['a', port, 1]])
  await servers.follow(null, before)
  await servers.follow(before, mapOf([['b', port, 1]]))
  expect((await get(port)).text).toContain('"name": "b"')
  expect(failures).toEqual([])
})

test('a connection that was kept alive gets no 200 after the service is gone', async () => {
  const { servers } = bench()
  const port = await freePort()
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const before = mapOf([['h', port, 1]])
  await servers.follow(null, before)
  expect((await get(port, { agent })).status).toBe(200)
  await servers.follow(before, mapOf([]))
  await expect(get(port, { agent })).rejects.toMatchObject({
    code: expect.stringMatching(/ECONNRE(SET|FUSED)/) as string,
  })
  agent.destroy()
})

test('servers listen on the node-port addresses only, and move when those change', async () => {
  const { servers } = bench()
  const port = await freePort()
  const before = mapOf([['h', port, 1]], view(['127.0.0.2', '127.0.0.3']))
  await servers.follow(null, before)
  expect((await get(port, { host: '127.0.0.3' })).status).toBe(200)
  await expect(get(port)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  const moved = { ...before, node: view(['127.0.0.1']) }
  await servers.follow(before, moved)
  expect((await get(port)).status).toBe(200)
  await expect(get(port, { host: '127.0.0.3' })).rejects.toMatchObject({ code: 'ECONNREFUSED' })
})

test('both families can serve the same port on every address', async () => {
  const port = await freePort('::')
  const [v4, v6] = [bench(), bench()]
  await v4.servers.follow(null, mapOf([['h', port, 1]], view('any-local')))
  await v6.servers.follow(null, mapOf([['h', port, 0]], view('any-local', 'IPv6')))
  expect([v4.failures, v6.failures]).toEqual([[], []])
  expect([(await get(port)).status, (await get(port, { host: '::1' })).status]).toEqual([200, 503])
})

test('a port that somebody else holds is reported and taken as soon as it is free', async () => {
  const { servers, failures, clock } = bench()
  const other = createServer()
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
  const { port } = other.address() as AddressInfo
  await servers.follow(null, mapOf([['h', port, 1]]))
  expect(failures).toEqual([
    expect.stringMatching(/^h: cannot listen on 127\.0\.0\.1:\d+: the port is in use/),
  ])
  await new Promise((resolve) => other.close(resolve))
  await clock.advance(5000)
  await expect
    .poll(() =>
      get(port).then(
        ({ status }) => status,
        () => null,
      ),
    )
    .toBe(200)
  expect(failures).toHaveLength(1)
})
