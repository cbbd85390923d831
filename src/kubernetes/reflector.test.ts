import * as http from 'node:http'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { FakeCollection, bookmarkLine, sendStatus } from '../../test/support/fake-collection.ts'
import { listen } from '../../test/support/loopback-server.ts'
import type { Listening } from '../../test/support/loopback-server.ts'
import { reflect } from '../../test/support/reflected.ts'
import type { Reflected, ReflectedOptions } from '../../test/support/reflected.ts'
import { waitUntil } from '../../test/support/wait-until.ts'

let collection: FakeCollection
let server: Listening
let reflected: Reflected | undefined

beforeEach(async () => {
  collection = new FakeCollection()
  server = await listen(http.createServer(collection.handle))
  collection.set('a', 1)
  collection.set('b', 2)
})

afterEach(async () => {
  await reflected?.[Symbol.asyncDispose]()
  await server[Symbol.asyncDispose]()
  reflected = undefined
})

function start(options: ReflectedOptions = {}): Reflected {
  reflected = reflect(`http://127.0.0.1:${server.port}`, options)
  return reflected
}

async function startInStep(options: ReflectedOptions = {}): Promise<Reflected> {
  const started = start(options)
  await waitUntil('a watch in step', () => inStep(started) && collection.watchers === 1)
  return started
}

function inStep({ items, reflector }: Reflected): boolean {
  return (
    reflector.stats.failure === null &&
    JSON.stringify([...items].sort()) === JSON.stringify([...collection.state].sort())
  )
}

function queries(): Record<string, string>[] {
  return collection.seen.map(({ query }) => Object.fromEntries(query))
}

describe('listing', () => {
  test('takes a streaming list and goes on watching on the same stream', async () => {
    let synced = 0
    const { reflector, items, replaced } = await startInStep({
      labelSelector: '!service.kubernetes.io/headless',
      fieldSelector: 'spec.clusterIP!=None',
      onSynced: () => synced++,
    })
    collection.set('c', 3)
    collection.delete('a')
    await waitUntil('both events', () => reflector.stats.events === 2)
    expect(items).toEqual(collection.state)
    expect(queries()).toEqual([
      {
        labelSelector: '!service.kubernetes.io/headless',
        fieldSelector: 'spec.clusterIP!=None',
        watch: 'true',
        allowWatchBookmarks: 'true',
        sendInitialEvents: 'true',
        resourceVersionMatch: 'NotOlderThan',
        timeoutSeconds: expect.stringMatching(/^[345]\d\d$/) as string,
      },
    ])
    expect({ replaced, synced }).toEqual({ replaced: [2], synced: 1 })
    expect(reflector.stats).toMatchObject({
      synced: true,
      items: 2,
      relists: 0,
      watches: 1,
      watchFailures: 0,
    })
  })

  test('falls back to pages where streaming lists are refused, and watches from the list', async () => {
    collection.streamingLists = false
    for (let i = 0; i < 5; i++) collection.set(`n${i}`, i)
    const { items, replaced } = await startInStep({ timing: { pageSize: 3 } })
    collection.set('c', 3)
    await waitUntil('the event', () => items.has('default/c'))
    expect(replaced).toEqual([7])
    const version = String(collection.version - 1)
    expect(queries().slice(1)).toEqual([
      { limit: '3' },
      { limit: '3', continue: `token-${version}-4` },
      { limit: '3', continue: `token-${version}-1` },
      expect.objectContaining({ watch: 'true', allowWatchBookmarks: 'true', resourceVersion: version }),
    ])
  })

  test.each(['nothing', 'ordinary bookmarks'])(
    'falls back to pages where %s comes instead of the end mark',
    async (what) => {
      collection.endMarks = false
      const bookmarks = setInterval(() => what !== 'nothing' && collection.bookmark(), 20)
      const { replaced } = start()
      await waitUntil('the paged list', () => replaced.length === 1)
      clearInterval(bookmarks)
      expect(replaced).toEqual([2])
      expect(queries()[1]).toEqual({ limit: '500' })
    },
  )

  test('uses streaming lists again some time after an end mark did not come', async () => {
    collection.endMarks = false
    const { reflector } = start({ timing: { streamingRetryMs: 300 } })
    await waitUntil('the paged list', () => reflector.stats.synced && collection.watchers === 1)
    collection.endMarks = true
    for (const relists of [1, 2]) {
      collection.write('{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n')
      await waitUntil('the relist', () => reflector.stats.relists === relists && collection.watchers === 1)
      if (relists === 1) await new Promise((resolve) => setTimeout(resolve, 300))
    }
    const lists = queries().filter((query) => query['resourceVersion'] === undefined)
    expect(lists.map((query) => query['limit'] ?? 'streaming')).toEqual([
      'streaming',
      '500',
      '500',
      'streaming',
    ])
  })

  test('that expires between two pages starts again in one piece', async () => {
    collection.streamingLists = false
    collection.set('c', 3)
    collection.intercept = ({ query }) => {
      if (query.get('continue') === null) return false
      collection.delete('a')
      collection.compact()
      return false
    }
    const { items, replaced } = await startInStep({ timing: { pageSize: 2 } })
    expect(items).toEqual(collection.state)
    expect(replaced).toEqual([2])
    expect(queries().slice(1, 4)).toEqual([{ limit: '2' }, expect.objectContaining({ limit: '2' }), {}])
  })

  test('that breaks off changes nothing, however far it came', async () => {
    const { reflector, items, replaced } = await startInStep()
    let broken = 0
    collection.intercept = ({ query }, response) => {
      if (query.get('sendInitialEvents') === null || broken >= 2) return false
      broken++
      response.writeHead(200)
      response.write(
        `${JSON.stringify({ type: 'ADDED', object: { metadata: { name: 'x', resourceVersion: '1' } } })}\n`,
      )
      setTimeout(() => (broken === 1 ? response.end() : response.destroy()), 10)
      return true
    }
    collection.delete('a')
    collection.compact()
    collection.write('{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n')
    await waitUntil('the relist', () => reflector.stats.relists === 1)
    expect(broken).toBe(2)
    expect(items).toEqual(collection.state)
    expect(replaced).toEqual([2, 1])
    expect(reflector.stats.listFailures).toBe(2)
  })

  test('of something that is no list is refused', async () => {
    collection.streamingLists = false
    let good = false
    collection.intercept = (_seen, response) => {
      if (good) return false
      response.writeHead(200)
      response.end('{"kind":"ThingList","items":[]}')
      return true
    }
    const { reflector, replaced } = start({ streamingList: false })
    await waitUntil('two refusals', () => reflector.stats.listFailures >= 2)
    expect(replaced).toEqual([])
    expect(reflector.stats.failure?.message).toContain('no metadata.resourceVersion')
    good = true
    await waitUntil('the list', () => replaced.length === 1)
  })

  test('an optional kind that the server does not have counts as empty, and is found when it comes', async () => {
    let there = false
    collection.intercept = (_seen, response) => {
      if (there) return false
      sendStatus(response, 404, 'NotFound', 'the server could not find the requested resource')
      return true
    }
    const { replaced, reflector, logged } = start({ optional: true })
    await waitUntil('the empty list', () => replaced.length === 1)
    expect(reflector.stats).toMatchObject({ synced: true, items: 0, failure: null })
    there = true
    await waitUntil('the real list', () => replaced.at(-1) === 2)
    expect(logged).toEqual([])
  })
})

describe('watching', () => {
  test('goes on from the last event or bookmark when the server ends or breaks the watch', async () => {
    const { reflector, items } = await startInStep({ timing: { shortWatchMs: 0 } })
    collection.set('c', 3)
    await waitUntil('the event', () => items.has('default/c'))
    collection.endWatches()
    await waitUntil('the next watch', () => collection.seen.length === 2 && collection.watchers === 1)
    collection.write(bookmarkLine('7000', false))
    await waitUntil('the bookmark', () => reflector.stats.bookmarks === 1)
    collection.breakWatches()
    await waitUntil('the third watch', () => collection.seen.length === 3)
    expect(queries()[1]).toMatchObject({ resourceVersion: String(collection.version) })
    expect(queries()[2]).toMatchObject({ resourceVersion: '7000' })
    expect(reflector.stats).toMatchObject({ relists: 0, watchFailures: 1 })
  })

  test.each(['a status', 'an event'])(
    'lists again, replacing and not emptying, when 410 comes as %s',
    async (how) => {
      const { reflector, items, replaced } = await startInStep()
      const inStream = how === 'an event'
      collection.intercept = ({ query }, response) => {
        if (!inStream || query.get('resourceVersion') === null) return false
        response.writeHead(200)
        response.write(
          '{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"old"}}\n',
        )
        return true
      }
      collection.breakWatches()
      collection.delete('a')
      collection.set('b', 22)
      collection.set('born', 3)
      collection.compact()
      await waitUntil('the relist', () => reflector.stats.relists === 1)
      expect(items).toEqual(collection.state)
      expect(replaced).toEqual([2, 2])
      const relist = queries().findLast((query) => query['sendInitialEvents'] !== undefined)
      expect(relist).not.toHaveProperty('resourceVersion')
    },
  )

  test('goes on from the same version after any other error in the stream', async () => {
    const { reflector, items } = await startInStep()
    collection.write(
      '{"type":"ERROR","object":{"kind":"Status","code":500,"reason":"InternalError","message":"oops"}}\n',
    )
    await waitUntil('the next watch', () => collection.seen.length === 2)
    collection.set('c', 3)
    await waitUntil('the event', () => items.has('default/c'))
    expect(reflector.stats).toMatchObject({ relists: 0, watchFailures: 1 })
  })

  test('lists again when the server answers with errors only', async () => {
    const { reflector } = await startInStep()
    let refusals = 0
    collection.intercept = ({ query }, response) => {
      if (query.get('resourceVersion') === null) return false
      refusals++
      sendStatus(response, 500, 'InternalError', 'etcdserver: mvcc: something')
      return true
    }
    collection.breakWatches()
    await waitUntil('the relist', () => reflector.stats.relists === 1)
    expect(refusals).toBe(3)
  })

  test.each([
    ['refuses a version from its future', 504, 'Too large resource version: 102, current: 7'],
    ['sends versions that went back', 0, ''],
  ])('lists again when the server %s: it was restored', async (_what, status, message) => {
    const { reflector, items, replaced } = await startInStep()
    let relisting = false
    collection.intercept = ({ query }, response) => {
      relisting ||= query.get('sendInitialEvents') !== null
      if (relisting) return false
      if (status !== 0) sendStatus(response, status, 'Timeout', message)
      else {
        response.writeHead(200)
        response.write(bookmarkLine('7', false))
      }
      return true
    }
    collection.breakWatches()
    collection.set('after', 1)
    await waitUntil('the relist', () => reflector.stats.relists === 1)
    expect(items).toEqual(collection.state)
    expect(replaced).toEqual([2, 3])
  })

  test('asks again only when the server wants it asked', async () => {
    await startInStep()
    let refusedAt = 0
    collection.intercept = (seen, response) => {
      if (refusedAt !== 0) return false
      refusedAt = seen.at
      response.setHeader('retry-after', '0.4')
      sendStatus(response, 429, 'TooManyRequests', 'slow down')
      return true
    }
    collection.breakWatches()
    await waitUntil('the watch after the refusal', () => collection.seen.length === 3)
    expect(collection.seen[2]!.at - refusedAt).toBeGreaterThan(390)
  })

  test('an object that is no longer wanted is removed', async () => {
    const { reflector, items } = await startInStep()
    collection.set('a', 'unwanted')
    collection.set('c', 'unwanted')
    await waitUntil('the events', () => reflector.stats.events === 2)
    expect([...items.keys()]).toEqual(['default/b'])
  })

  test('a sink that fails on an event gets a complete list', async () => {
    const { reflector, items, logged } = await startInStep()
    collection.set('c', 'poison')
    await waitUntil('the relist', () => reflector.stats.relists === 1)
    expect(items).toEqual(collection.state)
    expect(logged[0]).toContain('the sink cannot take this')
  })

  test('ends with its signal and leaves no connection behind', async () => {
    const { stop } = await startInStep()
    await stop()
    await waitUntil('no watch', () => collection.watchers === 0)
  })
})

describe('what cannot be decoded', () => {
  test('in an event is counted, and answered with a list that repairs the view', async () => {
    const { reflector, items, logged } = await startInStep()
    const metadata = { namespace: 'default', name: 'a', resourceVersion: String(collection.version + 1) }
    collection.write(`${JSON.stringify({ type: 'MODIFIED', object: { metadata, value: 'bad' } })}\n`)
    await waitUntil('the relist', () => reflector.stats.relists === 1)
    expect(items).toEqual(collection.state)
    expect(reflector.stats).toMatchObject({ undecodable: 1, badKeys: [], failure: null })
    expect(logged[0]).toContain('it is bad')
  })

  test.each([
    ['a torn line', '{"type":"MODIFIED","object":{"met\n'],
    ['an event of unknown type', '{"type":"RENAMED","object":{"metadata":{"resourceVersion":"999"}}}\n'],
    ['an object without a version', '{"type":"ADDED","object":{"metadata":{"name":"x"}}}\n'],
    ['an object without a name', '{"type":"ADDED","object":{"metadata":{"resourceVersion":"999"}}}\n'],
    ['a deletion of nobody', '{"type":"DELETED","object":{"metadata":{"resourceVersion":"999"}}}\n'],
    ['text for an object', '{"type":"ADDED","object":"x"}\n'],
    ['no event at all', 'null\n'],
  ])('as %s is counted and answered with a list; what follows is not lost', async (_what, line) => {
    const { reflector, items } = await startInStep()
    collection.write(line)
    collection.set('c', 3)
    await waitUntil('the relist', () => reflector.stats.relists === 1)
    expect(reflector.stats.undecodable).toBe(1)
    expect(items).toEqual(collection.state)
  })

  test('in the list as well leaves the last good version, and does not list for ever', async () => {
    const { reflector, items, logged } = await startInStep()
    collection.set('a', 'bad')
    await waitUntil('the relist', () => reflector.stats.relists === 1)
    collection.set('b', 22)
    await waitUntil('the next event', () => items.get('default/b') === 22)
    const requests = collection.seen.length
    await new Promise((resolve) => setTimeout(resolve, 300))
    expect(collection.seen).toHaveLength(requests)
    expect(items.get('default/a')).toBe(1)
    expect(reflector.stats).toMatchObject({ undecodable: 2, badKeys: ['default/a'], failure: null })
    expect(logged.filter((line) => line.includes('it is bad'))).toHaveLength(1)
    collection.set('a', 5)
    await waitUntil('the repaired object', () => items.get('default/a') === 5)
    expect(reflector.stats.badKeys).toEqual([])
  })

  test('is left out of the first list and reported', async () => {
    collection.set('a', 'bad')
    const { reflector, items, logged } = start()
    await waitUntil('the list', () => reflector.stats.synced)
    expect([...items.keys()]).toEqual(['default/b'])
    expect(reflector.stats).toMatchObject({ items: 1, undecodable: 1, badKeys: ['default/a'] })
    expect(logged).toHaveLength(1)
    collection.delete('a')
    await waitUntil('its deletion', () => reflector.stats.badKeys.length === 0)
    expect(reflector.stats.relists).toBe(0)
  })

  test('is forgotten with its object, of which a deletion needs only the name', async () => {
    const { reflector, items } = await startInStep()
    collection.set('a', 'bad')
    await waitUntil('the relist', () => reflector.stats.relists === 1 && collection.watchers === 1)
    collection.delete('a')
    await waitUntil('the deletion', () => !items.has('default/a'))
    expect(reflector.stats).toMatchObject({ badKeys: [], relists: 1 })
  })

  test('does not make a storm of lists when it comes again and again, nor hold up other objects', async () => {
    const { reflector, items } = await startInStep()
    const startedAt = performance.now()
    for (let n = 0; performance.now() - startedAt < 600; n++) {
      collection.set('a', 'bad')
      collection.set('b', n)
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    expect(reflector.stats.relists).toBeLessThan(12)
    const last = collection.state.get('default/b')
    await waitUntil('the other object', () => items.get('default/b') === last, 50)
  })
})

describe('a server in trouble', () => {
  test('that answers 410 for ever gets fewer than 20 requests in the time of 30 s', async () => {
    const { reflector, items } = await startInStep()
    collection.intercept = ({ query }, response) => {
      if (query.get('resourceVersion') === null) {
        setImmediate(() => collection.breakWatches())
        return false
      }
      sendStatus(response, 410, 'Expired', 'too old')
      return true
    }
    const before = collection.seen.length
    collection.breakWatches()
    await new Promise((resolve) => setTimeout(resolve, 300)) // every period is a hundredth of the real one
    expect(collection.seen.length - before).toBeLessThan(20)
    expect(reflector.stats.relists).toBeGreaterThan(1)
    expect(items).toEqual(collection.state)
  })

  test('that ends every watch at once is not asked in a tight loop', async () => {
    const { reflector, items } = await startInStep()
    collection.intercept = ({ query }, response) => {
      if (query.get('watch') === null) return false
      response.writeHead(200)
      response.end()
      return true
    }
    const before = collection.seen.length
    collection.endWatches()
    await new Promise((resolve) => setTimeout(resolve, 300))
    expect(collection.seen.length - before).toBeLessThan(20)
    expect(reflector.stats.watchFailures).toBeGreaterThan(2)
    expect(items).toEqual(collection.state)
  })

  test('that is down at start is waited for; the sink hears nothing until the first list', async () => {
    const { port } = server
    await server[Symbol.asyncDispose]()
    const { reflector, replaced, logged } = start()
    await waitUntil('three attempts', () => reflector.stats.listFailures === 3)
    expect(replaced).toEqual([])
    expect(reflector.stats.synced).toBe(false)
    expect(reflector.stats.failure).toMatchObject({ code: 'API_REFUSED' })
    server = await listen(http.createServer(collection.handle), port)
    await waitUntil('the list', () => reflector.stats.synced)
    expect(logged.at(-1)).toBe('In step with the API server again')
  })

  test('that goes away leaves the last state, and is followed again when it returns', async () => {
    const { reflector, items, replaced } = await startInStep()
    const { port } = server
    await server[Symbol.asyncDispose]()
    await waitUntil('three attempts', () => reflector.stats.watchFailures === 3)
    expect(items.size).toBe(2)
    expect(reflector.stats.failure).toMatchObject({ code: 'API_REFUSED' })
    collection.set('c', 3)
    server = await listen(http.createServer(collection.handle), port)
    await waitUntil('the event', () => items.has('default/c'))
    expect(replaced).toEqual([2])
    expect(reflector.stats).toMatchObject({ failure: null, relists: 0 })
  })
})
