import type { Clock } from './clock.ts'

export interface RunnerOptions {
  /** Shortest time between the end of one run and the start of the next. */
  readonly minIntervalMs: number
  /** A failed run is repeated after this time if nothing asks for one earlier. */
  readonly retryIntervalMs: number
  /** Longest time between the end of one run and the start of the next. */
  readonly maxIntervalMs: number
  readonly clock: Clock
  /** Told of every failed run, after it. */
  readonly onFailure: (error: unknown) => void
}

/** Two urgent runs keep at least this distance, so that a fight over the kernel cannot become a busy loop. */
const URGENT_GAP_MS = 500

/**
 * Runs one job at bounded frequency: at most once per `minIntervalMs` (from the end of a run to the start of the next),
 * at least once per `maxIntervalMs`, and again after `retryIntervalMs` when it failed; the periods of kube-proxy's
 * syncer. One run at a time; the first request runs at once; a request during a run leads to another run. Nothing
 * happens before the first request.
 */
export class BoundedFrequencyRunner implements AsyncDisposable {
  readonly #options: RunnerOptions
  readonly #job: () => Promise<void>
  #running: Promise<void> | null = null
  #cancelTimer: (() => void) | null = null
  #timerDue = Infinity
  /** Monotonic end of the last run; null before the first. */
  #lastEnd: number | null = null
  #lastWasUrgent = false
  #requested: 'no' | 'yes' | 'urgently' = 'no'
  #stopped = false

  constructor(options: RunnerOptions, job: () => Promise<void>) {
    this.#options = options
    this.#job = job
  }

  /** Asks for a run as soon as the minimum interval allows. */
  request(): void {
    if (this.#requested === 'no') this.#requested = 'yes'
    this.#schedule(this.#earliest(this.#options.minIntervalMs))
  }

  /** Asks for a run at once, not waiting for the minimum interval unless the last run was urgent too. */
  requestUrgently(): void {
    this.#requested = 'urgently'
    const gap = this.#lastWasUrgent ? Math.min(this.#options.minIntervalMs, URGENT_GAP_MS) : 0
    this.#schedule(this.#earliest(gap))
  }

  /** No further runs; resolves when the one in progress has ended. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#disarm()
    await this.#running
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  #earliest(gapMs: number): number {
    return this.#lastEnd === null ? 0 : this.#lastEnd + gapMs
  }

  /** Arms the timer for this monotonic time, unless an earlier one is armed or a run is in progress. */
  #schedule(due: number): void {
    if (this.#stopped || this.#running !== null || due >= this.#timerDue) return
    this.#disarm()
    const delay = due - this.#options.clock.monotonic()
    if (delay <= 0) {
      this.#start()
      return
    }
    this.#timerDue = due
    this.#cancelTimer = this.#options.clock.after(delay, () => this.#start())
  }

  #disarm(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = null
    this.#timerDue = Infinity
  }

  #start(): void {
    this.#disarm()
    this.#lastWasUrgent = this.#requested === 'urgently'
    this.#requested = 'no'
    this.#running = this.#runOnce()
  }

  async #runOnce(): Promise<void> {
    let failed = false
    try {
      await this.#job()
    } catch (error) {
      failed = true
      this.#options.onFailure(error)
    }
    this.#running = null
    this.#lastEnd = this.#options.clock.monotonic()
    this.#schedule(this.#lastEnd + (failed ? this.#options.retryIntervalMs : this.#options.maxIntervalMs))
    if (this.#requested === 'urgently') this.requestUrgently()
    else if (this.#requested === 'yes') this.request()
  }
}
