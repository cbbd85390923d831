import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { makeNamespace } from '../../test-namespace.ts'
import { openNft } from '../linux.ts'
import { MemoryNftNamespace } from '../memory.ts'
import { MODEL_TABLE, outcomeOn, transactions } from './contract.ts'
import type { NftPort } from '../port.ts'

/** How many random runs, with a new seed each time; not set: a fixed seed, so that the run always meets every kind of refusal. */
const RUNS = process.env['SWITCHBACK_RUNS']

const namespace = makeNamespace('model')
let linux: NftPort

beforeAll(async () => {
  linux = await openNft({ netns: namespace.path })
})
afterAll(async () => {
  await linux[Symbol.asyncDispose]()
  namespace.close()
})

test('memory and kernel do the same with any transactions', { timeout: 300_000 }, async () => {
  const met = new Set<string>()
  await fc.assert(
    fc.asyncProperty(transactions, async (list) => {
      if ((await linux.tables()).length > 0) {
        await linux.transaction('ip', MODEL_TABLE, [{ op: 'delete table' }])
      }
      const memory = new MemoryNftNamespace().open()
      for (const operations of list) {
        const [expected, actual] = [await outcomeOn(linux, operations), await outcomeOn(memory, operations)]
        met.add('errno' in expected ? expected.errno : 'applied')
        expect(actual, JSON.stringify(operations)).toEqual(expected)
      }
    }),
    RUNS === undefined ? { numRuns: 60, seed: 1 } : { numRuns: Number(RUNS) },
  )
  // The random steps are of use only as long as they run into everything.
  expect([...met]).toEqual(expect.arrayContaining(['EBUSY', 'EEXIST', 'ENOENT', 'applied']))
})
