import type { Clock } from '../shared/clock.ts'
import { Backoff } from './backoff.ts'
import type { Query } from './client.ts'
import { ApiAnswerError, ApiStatusError } from './errors.ts'
import { listAll } from './list.ts'
import { Mirror, namespacedName } from './mirror.ts'
import type { Collection } from './mirror.ts'
import { DEFAULT_REFLECTOR_TIMING } from './reflector-options.ts'
import type { ReflectorOptions, ReflectorStats, ReflectorTiming } from './reflector-options.ts'
import { sleep } from './sleep.ts'
import { statusErrorOfEvent } from './status-error.ts'
import {
  collectInitial,
  isNoStreamingList,
  isOlder,
  needsList,
  NoEndMark,
  Quiet,
  RelistDue,
  WentBackError,
} from './outcome.ts'
import type { Ending } from './outcome.ts'
import { openWatch } from './watch.ts'
import type { OpenWatch, WatchEvent } from './watch.ts'

/** So many failures in a row that the server itself answered with: the version is suspect, list again. */
const SUSPECT_AFTER = 3

/**
 * Keeps a sink in step with one collection of the API server, for ever: list, watch, and whatever is needed when that
 * fails. The sink sees only complete lists and single changes; while the server is away, the last state stays.
 */
export class Reflector<T> {
  readonly #options: ReflectorOptions<T>
  readonly #timing: ReflectorTiming
  readonly #clock: Clock
  readonly #query: Query
  readonly #mirror: Mirror<T>
  readonly #backoff: Backoff
  readonly #random: () => number
  /** Monotonic time from which streaming lists are used. */
  #streamingFrom: number
  /** Version to watch from; null: list first. */
  #version: string | null = null
  /** Monotonic time at which a list is due because an event could not be decoded. */
  #relistAt: number | null = null
  #lists = 0
  #answeredFailures = 0
  #failure: Error | null = null
  #lastEventAt: number | null = null
  readonly #count = {
    events: 0,
    bookmarks: 0,
    watches: 0,
    listFailures: 0,
    watchFailures: 0,
    quietReplacements: 0,
  }

  constructor(options: ReflectorOptions<T>) {
    this.#options = options
    this.#timing = { ...DEFAULT_REFLECTOR_TIMING, ...options.timing }
    this.#clock = options.clock ?? options.client.clock
    this.#random = options.random ?? Math.random
    this.#streamingFrom = (options.streamingList ?? true) ? -Infinity : Infinity
    const { backoffStartMs, backoffMaxMs, backoffResetMs } = this.#timing
    this.#backoff = new Backoff(
      this.#clock,
      { startMs: backoffStartMs, maxMs: backoffMaxMs, resetAfterMs: backoffResetMs },
      this.#random,
    )
    const { path, decode, sink, log } = options
    this.#mirror = new Mirror({ path, decode, sink, log, keyOf: options.keyOf ?? namespacedName })
    this.#query = { labelSelector: options.labelSelector, fieldSelector: options.fieldSelector }
  }

  get stats(): ReflectorStats {
    return {
      ...this.#count,
      synced: this.#lists > 0,
      items: this.#mirror.size,
      lastEventAt: this.#lastEventAt,
      relists: Math.max(0, this.#lists - 1),
      undecodable: this.#mirror.undecodable,
      badKeys: this.#mirror.badKeys,
      failure: this.#failure,
      resourceVersion: this.#version,
    }
  }

  /** Runs until the signal aborts; never rejects for what the server does. */
  async run(): Promise<void> {
    const { signal } = this.#options
    while (!signal.aborted) {
      const startedAt = this.#clock.monotonic()
      let pause: number
      try {
        if (this.#version === null && !this.#streams) await this.#list()
        const ending = await this.#follow()
        pause = this.#pauseAfter(ending, this.#clock.monotonic() - startedAt)
      } catch (error) {
        if (signal.aborted) return
        pause = this.#pauseAfterFailure(error)
      }
      if (pause > 0) await sleep(this.#clock, pause, signal).catch(() => {})
    }
  }

  get #streams(): boolean {
    return this.#clock.monotonic() >= this.#streamingFrom
  }

  async #list(): Promise<void> {
    const { client, path, signal } = this.#options
    let collection = this.#mirror.collect()
    const version = await listAll(
      {
        client,
        path,
        query: this.#query,
        pageSize: this.#timing.pageSize,
        idleMs: this.#timing.listIdleMs,
        signal,
      },
      (object) => collection.add(object),
      () => {
        collection = this.#mirror.collect()
      },
    )
    this.#complete(collection, version)
  }

  /** Watches from the version at hand, or with a streaming list, until the watch is over. */
  async #follow(): Promise<Ending> {
    const { client, path, signal } = this.#options
    const [least, most] = this.#timing.watchSeconds
    const from = this.#version
    const watch = await openWatch({
      client,
      path,
      query: this.#query,
      from,
      timeoutSeconds: Math.round(least + (most - least) * this.#random()),
      headersTimeoutMs: this.#timing.watchHeadersMs,
      signal,
    })
    this.#count.watches++
    if (from !== null) this.#inStep()
    let cancelRelist = (): void => {}
    try {
      await this.#consume(watch, () => {
        if (this.#relistAt === null) cancelRelist = this.#scheduleRelist(watch)
      })
      return 'ended'
    } catch (error) {
      if (error instanceof Quiet) return 'quiet'
      if (error instanceof RelistDue) return 'relist'
      throw error
    } finally {
      cancelRelist()
    }
  }

  async #consume(watch: OpenWatch, relist: () => void): Promise<void> {
    const { initialIdleMs, quietHttp1Ms, quietHttp2Ms } = this.#timing
    const startedAt = this.#clock.monotonic()
    let initial = this.#version === null ? this.#mirror.collect() : null
    const batches = watch.batches(
      () => (initial !== null ? initialIdleMs : watch.protocol === 'h2' ? quietHttp2Ms : quietHttp1Ms),
      () => (initial !== null ? new NoEndMark('no end mark came') : new Quiet('nothing came')),
    )
    for await (const batch of batches) {
      for (const event of batch) {
        if (initial === null) {
          if (!this.#apply(event)) relist()
        } else if (collectInitial(initial, event, this.#options)) {
          this.#complete(initial, (event as { version: string }).version)
          initial = null
        } else if (event.type === 'BOOKMARK' && this.#clock.monotonic() - startedAt > initialIdleMs) {
          throw new NoEndMark('an ordinary bookmark came instead of the end mark')
        }
      }
    }
    if (initial !== null) {
      throw new ApiAnswerError(`The streaming list of ${this.#options.path} ended before it was complete.`)
    }
  }

  /** Takes one event of a running watch. False if it could not be decoded, so that a list is needed. */
  #apply(event: WatchEvent): boolean {
    if (event.type === 'ERROR')
      throw statusErrorOfEvent(this.#options.client.access.server, this.#options.path, event.status)
    if (event.type === 'UNDECODABLE') {
      this.#mirror.count(event.error, event.excerpt)
      return false
    }
    this.#advance(event.version, event.type === 'DELETED')
    if (event.type === 'BOOKMARK') {
      this.#count.bookmarks++
      return true
    }
    this.#count.events++
    return event.type === 'DELETED' ? this.#mirror.remove(event.object) : this.#mirror.upsert(event.object)
  }

  #advance(version: string, mayLag: boolean): void {
    this.#lastEventAt = this.#clock.now()
    this.#answeredFailures = 0
    if (this.#version !== null && isOlder(version, this.#version)) {
      if (mayLag) return // some servers send a deleted object as it last was
      throw new WentBackError(
        `The watch of ${this.#options.path} went back from version ${this.#version} to ${version}: ` +
          'the API server was restored or replaced.',
      )
    }
    this.#version = version
  }

  #scheduleRelist(watch: OpenWatch): () => void {
    const delay = this.#backoff.next()
    this.#relistAt = this.#clock.monotonic() + delay
    return this.#clock.after(delay, () => watch.end(new RelistDue('an event could not be decoded')))
  }

  #complete(collection: Collection, version: string): void {
    collection.finish()
    this.#version = version
    this.#relistAt = null
    this.#lists++
    this.#inStep()
    if (this.#lists === 1) this.#options.onSynced?.()
  }

  #inStep(): void {
    this.#lastEventAt = this.#clock.now()
    if (this.#failure === null) return
    this.#failure = null
    this.#options.log.info('In step with the API server again', { path: this.#options.path })
  }

  #pauseAfter(ending: Ending, lastedMs: number): number {
    if (ending === 'quiet') this.#count.quietReplacements++
    if (this.#relistAt !== null) {
      const pause = Math.max(0, this.#relistAt - this.#clock.monotonic())
      this.#relistAt = null
      this.#version = null
      return pause
    }
    if (ending === 'quiet' || lastedMs >= this.#timing.shortWatchMs) return 0
    return this.#pauseAfterFailure(
      new ApiAnswerError(`The watch of ${this.#options.path} ended after ${Math.round(lastedMs)} ms.`),
    )
  }

  #pauseAfterFailure(error: unknown): number {
    const { path, log, optional } = this.#options
    const listing = this.#version === null
    if (listing && this.#streams && isNoStreamingList(error)) {
      const forGood = !(error instanceof NoEndMark) // that one may have been a dead connection, too
      this.#streamingFrom = forGood ? Infinity : this.#clock.monotonic() + this.#timing.streamingRetryMs
      log.info('The API server has no streaming lists here; listing in pages', { path })
      return 0
    }
    if (listing && optional === true && error instanceof ApiStatusError && error.status === 404) {
      if (this.#lists === 0 || this.#mirror.size > 0) this.#complete(this.#mirror.collect(), '')
      else this.#inStep()
      this.#version = null
      return this.#timing.missingRetryMs
    }
    this.#count[listing ? 'listFailures' : 'watchFailures']++
    this.#failure = error instanceof Error ? error : new Error(String(error))
    if (error instanceof ApiStatusError || error instanceof ApiAnswerError) this.#answeredFailures++
    if (this.#relistAt !== null || this.#answeredFailures >= SUSPECT_AFTER || needsList(error)) {
      this.#version = null
      this.#relistAt = null
      this.#answeredFailures = 0
    }
    const asked = error instanceof ApiStatusError ? (error.retryAfterMs ?? 0) : 0
    const pause = Math.max(this.#backoff.next(), Math.min(asked, 60_000))
    log.error(
      error,
      listing ? 'Listing failed; the last state stays' : 'Watching failed; the last state stays',
      { path, retryInMs: Math.round(pause) },
    )
    return pause
  }
}
