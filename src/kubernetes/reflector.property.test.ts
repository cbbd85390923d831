import * as http from 'node:http'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { FakeCollection, sendStatus } from '../../test/support/fake-collection.ts'
import { listen } from '../../test/support/loopback-server.ts'
import { reflect } from '../../test/support/reflected.ts'
import { waitUntil } from '../../test/support/wait-until.ts'
import { systemClock } from '../shared/clock.ts'
import { sleep } from './sleep.ts'

type Step =
  | { readonly do: 'set'; readonly name: string; readonly value: unknown }
  | { readonly do: 'delete'; readonly name: string }
  | { readonly do: 'write'; readonly text: string }
  | { readonly do: 'refuse'; readonly requests: number; readonly status: number }
  | { readonly do: 'garble'; readonly events: number }
  | { readonly do: 'end' | 'break' | 'compact' | 'bookmark' | 'toggle streaming lists' }

const name = fc.constantFrom('a', 'b', 'c', 'ü/😀', 'e', 'f')
const EXPIRED = '{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"old"}}\n'

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('set' as const), name, value: fc.nat(99) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('delete' as const), name }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('set' as const),
      name,
      value: fc.constantFrom('bad', 'unwanted', 'x'.repeat(70_000)),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('write' as const),
      text: fc.constantFrom(EXPIRED, '{"type":"MODIFIED","obj\n', 'null\n', '{"type":"ERROR","object":{}}\n'),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('refuse' as const),
      requests: fc.integer({ min: 1, max: 3 }),
      status: fc.constantFrom(0, 410, 429, 500, 504),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('garble' as const), events: fc.integer({ min: 1, max: 3 }) }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constantFrom(
        'end' as const,
        'break' as const,
        'compact' as const,
        'bookmark' as const,
        'toggle streaming lists' as const,
      ),
    }),
  },
)

/** Steps, each with the pause after it in ms: sometimes the client can react in between, sometimes not. */
const history = fc.array(fc.tuple(step, fc.constantFrom(0, 0, 1, 3, 10)), { maxLength: 40 })

function perform(step: Step, collection: FakeCollection): void {
  switch (step.do) {
    case 'set':
      return collection.set(step.name, step.value)
    case 'delete':
      return collection.delete(step.name)
    case 'write':
      return collection.write(step.text)
    case 'refuse': {
      let left = step.requests
      collection.intercept = (_seen, response) => {
        if (left-- <= 0) return false
        if (step.status === 0) response.destroy()
        else sendStatus(response, step.status, '', 'refused by the test')
        return true
      }
      return
    }
    case 'garble':
      collection.garbled = step.events
      return
    case 'end':
      return collection.endWatches()
    case 'break':
      return collection.breakWatches()
    case 'compact':
      return collection.compact()
    case 'bookmark':
      return collection.bookmark()
    case 'toggle streaming lists':
      collection.streamingLists = !collection.streamingLists
      return
  }
}

/** What the sink must hold in the end: everything but what is not wanted, and what never decoded. */
function wanted(
  collection: FakeCollection,
  held: ReadonlyMap<string, unknown>,
): ReadonlyMap<string, unknown> {
  const state = new Map<string, unknown>()
  for (const [key, value] of collection.state) {
    if (value === 'bad' ? held.has(key) : value !== 'unwanted') {
      state.set(key, value === 'bad' ? held.get(key) : value)
    }
  }
  return state
}

const sorted = (map: ReadonlyMap<string, unknown>): string => JSON.stringify([...map].sort())

test('after any history of changes, breaks, expiries and rubbish the sink equals the server', async () => {
  await fc.assert(
    fc.asyncProperty(history, fc.boolean(), fc.boolean(), async (steps, streamingList, startFirst) => {
      const collection = new FakeCollection()
      await using server = await listen(http.createServer(collection.handle))
      await using reflected = reflect(`http://127.0.0.1:${server.port}`, {
        streamingList,
        timing: { pageSize: 2, backoffStartMs: 2, backoffMaxMs: 10, shortWatchMs: 5, initialIdleMs: 500 },
      })
      if (startFirst) await waitUntil('the first list', () => reflected.reflector.stats.synced)
      for (const [each, pauseMs] of steps) {
        await perform(each, collection)
        if (pauseMs > 0) await sleep(systemClock, pauseMs)
      }
      collection.garbled = 0
      collection.set('last', steps.length)
      const { items } = reflected
      await waitUntil('the sink in step', () => sorted(items) === sorted(wanted(collection, items)))
      expect(reflected.reflector.stats.items).toBe(items.size)
    }),
    { numRuns: 60 },
  )
}, 60_000)
