import fc from 'fast-check'
import { expect, test } from 'vitest'
import { formatDuration, parseDuration } from './duration.ts'

test('durations are read as Go reads them', () => {
  const cases: [string, number | null][] = [
    ['0', 0],
    ['30s', 30_000],
    ['1h0m0s', 3_600_000],
    ['1.5h', 5_400_000],
    ['.5s', 500],
    ['250ms', 250],
    ['2us', 0.002],
    ['-1s', -1000],
    ['', null],
    ['30', null],
    ['30 s', null],
    ['s', null],
    ['1d', null],
  ]
  expect(cases.map(([text]) => [text, parseDuration(text)])).toEqual(cases)
})

test('durations are printed as Go prints them', () => {
  expect([0, 30_000, 3_600_000, 61_500, 1.5, 0.0025].map(formatDuration)).toEqual([
    '0s',
    '30s',
    '1h0m0s',
    '1m1.5s',
    '1.5ms',
    '2.5µs',
  ])
})

test('a printed duration is read back as the same time', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 1e10 }), (ms) => {
      expect(parseDuration(formatDuration(ms))).toBeCloseTo(ms, 3)
    }),
  )
})
