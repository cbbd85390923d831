import type { Clock } from './clock.ts'

interface Timer {
  readonly at: number
  readonly fn: () => void
}

/** A clock that moves only when told to: what waits for hours is tested in no time. */
export class ManualClock implements Clock {
  #now: number
  #timers: Timer[] = []

  /** Starts at this wall-clock time in milliseconds; monotonic time starts at 0. */
  constructor(now = 0) {
    this.#start = now
    this.#now = now
  }

  readonly #start: number

  now(): number {
    return this.#now
  }

  monotonic(): number {
    return this.#now - this.#start
  }

  after(delayMs: number, fn: () => void): () => void {
    const timer = { at: this.#now + delayMs, fn }
    this.#timers.push(timer)
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer)
    }
  }

  /** Moves on, running what falls due in order and letting promises settle after each. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms
    await settle()
    for (;;) {
      const next = this.#timers.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0]
      if (next === undefined) break
      this.#timers = this.#timers.filter((timer) => timer !== next)
      this.#now = Math.max(this.#now, next.at)
      next.fn()
      await settle()
    }
    this.#now = end
    await settle()
  }

  /** Timers that wait now. */
  get pending(): number {
    return this.#timers.length
  }
}

/** Lets every promise that can settle do so. */
function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
