import * as http from 'node:http'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { http2Server, httpsServer } from '../../test/support/api-servers.ts'
import { TestAuthority } from '../../test/support/certificates.ts'
import { FakeCollection } from '../../test/support/fake-collection.ts'
import { listen } from '../../test/support/loopback-server.ts'
import type { Listening } from '../../test/support/loopback-server.ts'
import { reflect } from '../../test/support/reflected.ts'
import type { Reflected } from '../../test/support/reflected.ts'
import { relayTo } from '../../test/support/relay.ts'
import type { Relay } from '../../test/support/relay.ts'
import { waitUntil } from '../../test/support/wait-until.ts'
import { DEFAULT_REFLECTOR_TIMING } from './reflector-options.ts'
import { DEFAULT_TRANSPORT_TIMING } from './transport.ts'

/** The real periods, so many times shorter. */
const FASTER = 50
/** In which a server that vanished must be noticed. */
const NOTICED_MS = 60_000 / FASTER
const TIMING = {
  quietHttp1Ms: DEFAULT_REFLECTOR_TIMING.quietHttp1Ms / FASTER,
  watchHeadersMs: DEFAULT_REFLECTOR_TIMING.watchHeadersMs / FASTER,
}
const CLIENT_TIMING = {
  dialTimeoutMs: DEFAULT_TRANSPORT_TIMING.dialTimeoutMs / FASTER,
  pingEveryMs: DEFAULT_TRANSPORT_TIMING.pingEveryMs / FASTER,
  pingTimeoutMs: DEFAULT_TRANSPORT_TIMING.pingTimeoutMs / FASTER,
}

let collection: FakeCollection
let authority: TestAuthority
let server: Listening
let relay: Relay
let reflected: Reflected

beforeEach(() => {
  collection = new FakeCollection()
  collection.set('a', 1)
  authority = new TestAuthority()
})

afterEach(async () => {
  await reflected[Symbol.asyncDispose]()
  await relay[Symbol.asyncDispose]()
  await server[Symbol.asyncDispose]()
})

async function start(protocol: string): Promise<Reflected> {
  const make = {
    'HTTP/1.1': () => http.createServer(collection.handle),
    'HTTP/1.1 over TLS': () => httpsServer({ authority }, collection.handle),
    'HTTP/2': () => http2Server({ authority }, collection.handle),
  }[protocol]!
  server = await listen(make())
  relay = await relayTo(() => server.port)
  reflected = reflect(`${protocol === 'HTTP/1.1' ? 'http' : 'https'}://127.0.0.1:${relay.port}`, {
    timing: TIMING,
    clientTiming: CLIENT_TIMING,
    access: {
      tls: {
        authority: { kind: 'data', text: authority.certificate },
        insecureSkipVerify: false,
        serverName: null,
      },
    },
  })
  await waitUntil('the watch', () => reflected.reflector.stats.synced && collection.watchers === 1)
  return reflected
}

describe.each(['HTTP/1.1', 'HTTP/1.1 over TLS', 'HTTP/2'])('with %s', (protocol) => {
  test('a stream that went silent without an end is replaced, and nothing is missed or listed again', async () => {
    const { reflector, items, replaced } = await start(protocol)
    const frozenAt = performance.now()
    relay.freeze()
    collection.set('a', 2)
    collection.set('b', 3)
    await waitUntil('what happened meanwhile', () => items.get('default/b') === 3)
    expect(performance.now() - frozenAt).toBeLessThan(NOTICED_MS)
    expect(items).toEqual(collection.state)
    expect(replaced).toEqual([1])
    expect(reflector.stats.relists).toBe(0)
  })

  test('a server that nobody can reach any more is noticed in the time of 60 s, and found again', async () => {
    const { reflector, items } = await start(protocol)
    const frozenAt = performance.now()
    relay.freeze()
    relay.newConnections = 'ignored'
    await waitUntil('the failure', () => reflector.stats.failure !== null)
    expect(performance.now() - frozenAt).toBeLessThan(NOTICED_MS)
    expect(items.get('default/a')).toBe(1)
    collection.set('a', 2)
    relay.newConnections = 'passed'
    const healedAt = performance.now()
    await waitUntil('the change', () => items.get('default/a') === 2)
    expect(performance.now() - healedAt).toBeLessThan(90_000 / FASTER)
    expect(reflector.stats.failure).toBeNull()
  })
})

test('a watch without events on HTTP/1.1 costs the server one request for each quiet period', async () => {
  const { reflector } = await start('HTTP/1.1')
  const before = collection.seen.length
  await new Promise((resolve) => setTimeout(resolve, 1700))
  expect(reflector.stats.quietReplacements).toBeGreaterThanOrEqual(2)
  expect(collection.seen.length - before).toBeLessThanOrEqual(5)
  expect(reflector.stats).toMatchObject({ failure: null, watchFailures: 0, relists: 0 })
})

test('a watch with bookmarks is left alone', async () => {
  const { reflector } = await start('HTTP/1.1')
  for (let i = 0; i < 10; i++) {
    collection.bookmark()
    await new Promise((resolve) => setTimeout(resolve, 120))
  }
  expect(reflector.stats).toMatchObject({ quietReplacements: 0, bookmarks: 10, watches: 1 })
})

test('a quiet watch on HTTP/2 is kept as long as the server answers PING', async () => {
  const { reflector } = await start('HTTP/2')
  await new Promise((resolve) => setTimeout(resolve, 1100))
  expect(reflector.stats).toMatchObject({ quietReplacements: 0, watches: 1, failure: null })
  expect(server.accepted).toBe(1)
})
