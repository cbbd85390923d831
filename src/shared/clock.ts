/** Time, injected so that what waits or measures can be tested. */
export interface Clock {
  /** Wall-clock time in milliseconds since the epoch. */
  now(): number
  /** Monotonic time in milliseconds from an arbitrary start. */
  monotonic(): number
  /** Runs `fn` once after `delayMs`; the returned function cancels it. A pending timer does not keep the process alive. */
  after(delayMs: number, fn: () => void): () => void
}

/** The machine's own clocks and timers. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(delayMs, fn) {
    const timer = setTimeout(fn, delayMs)
    timer.unref()
    return () => clearTimeout(timer)
  },
}
