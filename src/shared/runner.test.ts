import { expect, test } from 'vitest'
import { ManualClock } from './manual-clock.ts'
import { BoundedFrequencyRunner } from './runner.ts'

interface Bench {
  readonly clock: ManualClock
  readonly runner: BoundedFrequencyRunner
  /** Monotonic start times of the runs. */
  readonly starts: number[]
  readonly failures: unknown[]
  /** Failures still to be thrown by the next runs. */
  failNext: number
  durationMs: number
}

function bench(intervals: Partial<Record<'min' | 'retry' | 'max', number>> = {}): Bench {
  const clock = new ManualClock(1_000_000)
  const starts: number[] = []
  const failures: unknown[] = []
  const state = { failNext: 0, durationMs: 0 }
  const runner = new BoundedFrequencyRunner(
    {
      minIntervalMs: intervals.min ?? 1000,
      retryIntervalMs: intervals.retry ?? 30_000,
      maxIntervalMs: intervals.max ?? 3_600_000,
      clock,
      onFailure: (error) => failures.push(error),
    },
    async () => {
      starts.push(clock.monotonic())
      if (state.durationMs > 0) await new Promise<void>((done) => clock.after(state.durationMs, done))
      if (state.failNext > 0) {
        state.failNext--
        throw new Error('no')
      }
    },
  )
  return Object.assign(state, { clock, runner, starts, failures })
}

test('nothing runs before the first request, which runs at once', async () => {
  const { clock, runner, starts } = bench()
  await clock.advance(7_200_000)
  expect(starts).toEqual([])
  runner.request()
  await clock.advance(0)
  expect(starts).toEqual([7_200_000])
})

test('requests within the minimum interval become one run, measured from the end of the last', async () => {
  const b = bench()
  b.durationMs = 400
  b.runner.request()
  await b.clock.advance(500)
  b.runner.request()
  b.runner.request()
  await b.clock.advance(899)
  expect(b.starts).toEqual([0])
  await b.clock.advance(1)
  expect(b.starts).toEqual([0, 1400])
  await b.clock.advance(10_000)
  expect(b.starts).toEqual([0, 1400])
})

test('a request during a run leads to another run after it, never to two at a time', async () => {
  const b = bench()
  b.durationMs = 5000
  b.runner.request()
  await b.clock.advance(100)
  b.runner.request()
  await b.clock.advance(5800)
  expect(b.starts).toEqual([0])
  await b.clock.advance(200)
  expect(b.starts).toEqual([0, 6000])
})

test('a failed run is repeated after the retry interval, again and again until it succeeds', async () => {
  const b = bench()
  b.failNext = 2
  b.runner.request()
  await b.clock.advance(29_999)
  expect(b.starts).toEqual([0])
  await b.clock.advance(1)
  expect(b.starts).toEqual([0, 30_000])
  await b.clock.advance(3_000_000)
  expect(b.starts).toEqual([0, 30_000, 60_000])
  expect(b.failures).toHaveLength(2)
})

test('a request after a failure does not wait for the retry interval', async () => {
  const b = bench()
  b.failNext = 1
  b.runner.request()
  await b.clock.advance(200)
  b.runner.request()
  await b.clock.advance(800)
  expect(b.starts).toEqual([0, 1000])
})

test('a run happens at least once per maximum interval', async () => {
  const b = bench({ max: 60_000 })
  b.runner.request()
  await b.clock.advance(120_000)
  expect(b.starts).toEqual([0, 60_000, 120_000])
})

test('an urgent request does not wait for the minimum interval, but two urgent runs keep a distance', async () => {
  const b = bench({ min: 10_000 })
  b.runner.request()
  await b.clock.advance(50)
  b.runner.requestUrgently()
  await b.clock.advance(0)
  expect(b.starts).toEqual([0, 50])
  b.runner.requestUrgently()
  await b.clock.advance(499)
  expect(b.starts).toEqual([0, 50])
  await b.clock.advance(1)
  expect(b.starts).toEqual([0, 50, 550])
})

test('an urgent request during a run is not lost', async () => {
  const b = bench({ min: 10_000 })
  b.durationMs = 100
  b.runner.request()
  await b.clock.advance(50)
  b.runner.requestUrgently()
  await b.clock.advance(50)
  expect(b.starts).toEqual([0, 100])
})

test('stop waits for the run in progress and allows no other', async () => {
  const b = bench()
  b.durationMs = 100
  b.runner.request()
  await b.clock.advance(50)
  b.runner.request()
  let stopped = false
  const stop = b.runner.stop().then(() => {
    stopped = true
  })
  await b.clock.advance(49)
  expect(stopped).toBe(false)
  await b.clock.advance(1)
  await stop
  await b.clock.advance(100_000)
  b.runner.request()
  await b.clock.advance(0)
  expect(b.starts).toEqual([0])
  expect(b.clock.pending).toBe(0)
})
