import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { jsonCodec } from './codec.ts'
import { JsonListSplitter } from './json-list-splitter.ts'
import { LineSplitter } from './line-splitter.ts'

/** Cuts bytes at the given places. */
function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const at = [...new Set(places.map((place) => place % (bytes.length + 1)))].sort((a, b) => a - b)
  return [0, ...at].map((start, i) => bytes.subarray(start, at[i] ?? bytes.length))
}

const text = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.constantFrom('ü', '\u2028', '😀', '\n', '"', '\\', '[{,}]'),
)
const object = fc.dictionary(text, fc.oneof(text, fc.jsonValue({ maxDepth: 3 })), { maxKeys: 5 })
const places = fc.array(fc.nat({ max: 5000 }), { maxLength: 20 })

describe('a line splitter', () => {
  test('gives the same events wherever the stream is cut, also within a character', () => {
    fc.assert(
      fc.property(fc.array(object, { maxLength: 6 }), places, (events, places) => {
        const bytes = Buffer.from(events.map((event) => `${JSON.stringify(event)}\n`).join(''))
        const splitter = new LineSplitter(1 << 20)
        const got = cut(bytes, places).flatMap((chunk) =>
          [...splitter.push(chunk)].map(jsonCodec.decodeFrame),
        )
        expect(JSON.stringify(got)).toEqual(JSON.stringify(events))
        expect(splitter.unfinished).toBe(false)
      }),
    )
  })

  test('keeps an unfinished line to itself and passes over blank ones', () => {
    const splitter = new LineSplitter(100)
    const lines = [...splitter.push(Buffer.from('a\n\r\n \n\nb\nc'))].map(String)
    expect(lines).toEqual(['a', 'b'])
    expect(splitter.unfinished).toBe(true)
  })

  test('refuses a line without end', () => {
    const splitter = new LineSplitter(1000)
    const feed = (): void => {
      for (let i = 0; i < 11; i++) Array.from(splitter.push(Buffer.alloc(100, 'x')))
    }
    expect(feed).toThrow('longer than 1000 bytes')
  })

  test('takes a large line in many small chunks in time proportional to its length', () => {
    const cost = (chunks: number): number => {
      const splitter = new LineSplitter(1 << 30)
      const chunk = Buffer.alloc(64, 'x')
      const startedAt = performance.now()
      for (let i = 0; i < chunks; i++) Array.from(splitter.push(chunk))
      expect([...splitter.push(Buffer.from('\n'))][0]).toHaveLength(chunks * 64)
      return performance.now() - startedAt
    }
    cost(1000)
    expect(cost(160_000)).toBeLessThan(64 * Math.max(cost(20_000), 5))
  })
})

describe('a list splitter', () => {
  const shell = fc.record({ before: object, after: object })

  test('gives every item, wherever the answer is cut and whatever stands around the items', () => {
    fc.assert(
      fc.property(
        fc.array(object, { maxLength: 6 }),
        shell,
        places,
        fc.boolean(),
        (items, shell, places, spaced) => {
          const list = {
            kind: 'L',
            before: [shell.before],
            items,
            metadata: { resourceVersion: '7', after: [shell.after] },
          }
          const bytes = Buffer.from(JSON.stringify(list, null, spaced ? 2 : 0))
          const splitter = new JsonListSplitter()
          const got = cut(bytes, places).flatMap((chunk) => [...splitter.push(chunk)])
          expect(JSON.stringify(got)).toEqual(JSON.stringify(items))
          expect(JSON.stringify(splitter.finish())).toEqual(JSON.stringify({ ...list, items: [] }))
        },
      ),
    )
  })

  test.each([
    '{"items":[{"a":1},',
    '{"items":[{"a":1}]',
    '',
    '{"kind":"Status"}',
    '[1]',
    'null',
    '<html>',
    '{"items":[1 2]}',
  ])('refuses %s: a list is complete or it is none', (text) => {
    const splitter = new JsonListSplitter()
    const read = (): unknown => {
      Array.from(splitter.push(Buffer.from(text)))
      return splitter.finish()
    }
    expect(read).toThrow(/The answer is/)
  })

  test('takes the empty list in all its forms', () => {
    for (const text of ['{"items":[]}', '{"items": [ ] }', '{"items":null}']) {
      const splitter = new JsonListSplitter()
      expect([...splitter.push(Buffer.from(text))]).toEqual([])
      expect(splitter.finish().items ?? []).toEqual([])
    }
  })
})
