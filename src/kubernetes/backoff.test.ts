import { expect, test } from 'vitest'
import { ManualClock } from '../shared/manual-clock.ts'
import { Backoff } from './backoff.ts'
import { RateLimit } from './rate-limit.ts'
import { DEFAULT_REFLECTOR_TIMING } from './reflector-options.ts'

const { backoffStartMs, backoffMaxMs, backoffResetMs } = DEFAULT_REFLECTOR_TIMING
const OPTIONS = { startMs: backoffStartMs, maxMs: backoffMaxMs, resetAfterMs: backoffResetMs }

test('delays start below a second, double, and stay below 30 s, with jitter', () => {
  const clock = new ManualClock()
  for (const random of [0, 0.999]) {
    const backoff = new Backoff(clock, OPTIONS, () => random)
    const delays = Array.from({ length: 9 }, () => backoff.next())
    expect(delays[0]).toBeGreaterThanOrEqual(600)
    expect(delays[0]).toBeLessThan(1000)
    expect(delays[3]).toBeCloseTo(delays[0]! * 8)
    expect(Math.max(...delays)).toBeLessThanOrEqual(30_000)
  }
})

test('a server that refuses for ever gets fewer than 20 requests in 30 s, however the jitter falls', () => {
  for (const random of [0, 0.5, 0.999]) {
    const clock = new ManualClock()
    const backoff = new Backoff(clock, OPTIONS, () => random)
    let requests = 0
    for (let ms = 0; ms < 30_000; ms += backoff.next()) requests += 2 // a list and a watch
    expect(requests).toBeLessThan(20)
  }
})

test('going well for a while forgets earlier failures; a long delay does not', async () => {
  const clock = new ManualClock()
  const backoff = new Backoff(clock, OPTIONS, () => 0.5)
  for (let i = 0; i < 8; i++) await clock.advance(backoff.next())
  expect(backoff.next()).toBe(30_000)
  await clock.advance(30_000 + backoffResetMs)
  expect(backoff.next()).toBe(800)
})

test('a rate limit serves waiting callers in order, and gives the turn of one that gives up to the next', async () => {
  const clock = new ManualClock()
  const limit = new RateLimit(clock, 1, 1)
  const served: string[] = []
  const stop = new AbortController()
  await limit.take()
  const gaveUp = limit.take(stop.signal).catch((error: unknown) => served.push(String(error)))
  void limit.take().then(() => served.push('second'))
  stop.abort('gave up')
  await gaveUp
  void limit.take().then(() => served.push('third'))
  await clock.advance(2000)
  expect(served).toEqual(['gave up', 'second', 'third'])
})

test('a rate limit below zero is none, and zero is the default of 5 a second after 10 at once', async () => {
  const clock = new ManualClock()
  const free = new RateLimit(clock, -1, 0)
  await Promise.all(Array.from({ length: 100 }, () => free.take()))
  const usual = new RateLimit(clock, 0, 0)
  let served = 0
  for (let i = 0; i < 12; i++) void usual.take().then(() => served++)
  await clock.advance(0)
  expect(served).toBe(10)
  await clock.advance(200)
  expect(served).toBe(11)
})
