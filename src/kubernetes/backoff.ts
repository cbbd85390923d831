import type { Clock } from '../shared/clock.ts'

export interface BackoffOptions {
  readonly startMs: number
  readonly maxMs: number
  /** An attempt that went well for this long forgets the failures before it. */
  readonly resetAfterMs: number
}

/**
 * Delays between attempts: doubling from `startMs`, ±20 % so that nodes that lost the same server do not return
 * together, never above `maxMs`.
 */
export class Backoff {
  readonly #clock: Clock
  readonly #options: BackoffOptions
  readonly #random: () => number
  #failures = 0
  #attemptAt: number

  constructor(clock: Clock, options: BackoffOptions, random: () => number = Math.random) {
    this.#clock = clock
    this.#options = options
    this.#random = random
    this.#attemptAt = clock.monotonic()
  }

  /** The delay in milliseconds before the next attempt, which is taken to start when the delay is over. */
  next(): number {
    const { startMs, maxMs, resetAfterMs } = this.#options
    const now = this.#clock.monotonic()
    if (now - this.#attemptAt >= resetAfterMs) this.#failures = 0
    const plain = startMs * 2 ** Math.min(this.#failures++, 30)
    const delay = Math.min(maxMs, plain * (0.8 + 0.4 * this.#random()))
    this.#attemptAt = now + delay
    return delay
  }
}
