import type { Clock } from '../shared/clock.ts'
import { sleep } from './sleep.ts'

/**
 * Token bucket over all requests of a client: `qps` tokens a second, at most `burst` at once. Waiting callers are
 * served in order. As in client-go, `qps` 0 means the default (5, burst 10) and a negative one means no limit.
 */
export class RateLimit {
  readonly #clock: Clock
  readonly #perMs: number
  readonly #burst: number
  #tokens: number
  #filledAt: number

  constructor(clock: Clock, qps: number, burst: number) {
    this.#clock = clock
    this.#perMs = (qps === 0 ? 5 : qps) / 1000
    this.#burst = Math.max(1, burst === 0 ? 10 : burst)
    this.#tokens = this.#burst
    this.#filledAt = clock.monotonic()
  }

  /** Resolves when the caller may send its request; rejects with the signal's reason if that aborts first. */
  async take(signal?: AbortSignal): Promise<void> {
    if (this.#perMs < 0) return
    const now = this.#clock.monotonic()
    this.#tokens = Math.min(this.#burst, this.#tokens + (now - this.#filledAt) * this.#perMs)
    this.#filledAt = now
    this.#tokens -= 1
    if (this.#tokens >= 0) return
    try {
      await sleep(this.#clock, -this.#tokens / this.#perMs, signal)
    } catch (error) {
      this.#tokens += 1
      throw error
    }
  }
}
