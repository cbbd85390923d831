import type { ClusterState } from '../cluster/state.ts'
import type { Kernel } from '../kernel/kernel.ts'
import type { ProxyMode } from '../modes/mode.ts'
import type { IpFamily } from '../net/family.ts'
import type { ProxyMetrics } from '../observe/proxy-metrics.ts'
import type { NodeView } from '../services/service-map.ts'
import type { Clock } from '../shared/clock.ts'
import type { Logger } from '../shared/logger.ts'
import { BoundedFrequencyRunner } from '../shared/runner.ts'
import type { ProxyHealth } from './proxy-health.ts'
import type { ServiceHealthServers } from './service-health.ts'
import { reportSync } from './sync-report.ts'
import { ApplyFailure, FamilySync } from './sync.ts'
import type { Done } from './sync.ts'

/** Everything is read back and compared at least this often, as upstream's full sync. */
const FULL_SYNC_MS = 3_600_000

export interface FamilyAgentOptions<Rules> {
  readonly family: IpFamily
  readonly mode: ProxyMode<Rules>
  readonly kernel: Kernel
  /** What the cluster wants and what this node is, at this moment. */
  readonly input: () => { readonly state: ClusterState; readonly view: NodeView }
  readonly minSyncPeriodMs: number
  readonly syncPeriodMs: number
  readonly serviceHealth: ServiceHealthServers
  readonly proxyHealth: ProxyHealth
  readonly releaseMemory: () => void
  readonly metrics: ProxyMetrics
  readonly clock: Clock
  readonly log: Logger
}

/** Keeps the rules of one IP family in step: decides when to sync and why, and reports how it went. */
export class FamilyAgent<Rules> implements AsyncDisposable {
  readonly #options: FamilyAgentOptions<Rules>
  readonly #sync: FamilySync<Rules>
  readonly #runner: BoundedFrequencyRunner
  readonly #watch = new AbortController()
  readonly #startedAt: number
  /** Somebody else may have changed the rules since the last successful sync. */
  #drifted = false
  #lastFullAt: number | null = null
  #firstDone = (): void => {}
  /** Resolves after the first complete sync. */
  readonly firstSync = new Promise<void>((resolve) => {
    this.#firstDone = resolve
  })

  constructor(options: FamilyAgentOptions<Rules>) {
    const { mode, kernel, serviceHealth: health, clock, log, family } = options
    this.#options = options
    this.#startedAt = clock.now()
    this.#sync = new FamilySync({ mode, kernel, health, releaseMemory: options.releaseMemory })
    this.#runner = new BoundedFrequencyRunner(
      {
        minIntervalMs: options.minSyncPeriodMs,
        retryIntervalMs: options.syncPeriodMs,
        maxIntervalMs: FULL_SYNC_MS,
        clock,
        onFailure: (error) => this.#failed(error),
      },
      () => this.#job(),
    )
    mode.watchDrift(kernel, family, this.#watch.signal, () => {
      if (this.#watch.signal.aborted) return
      log.v(2)?.info('Somebody else may have changed the rules', { ipFamily: family })
      this.#drifted = true
      if (this.#sync.done !== null) this.#runner.requestUrgently()
    })
  }

  /** The last complete sync; null before the first. */
  get done(): Done | null {
    return this.#sync.done
  }

  /** Something changed: a sync is due. */
  queue(): void {
    const { family, proxyHealth, metrics, clock } = this.#options
    proxyHealth.queued(family)
    metrics.syncLastQueuedTimestamp.set({ ip_family: family }, clock.now() / 1000)
    this.#runner.request()
  }

  /** Ends the watch for drift and finishes the sync in progress; the rules stay. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#watch.abort()
    await this.#runner.stop()
  }

  async #job(): Promise<void> {
    // Let every event that has already arrived into this sync rather than into the next one.
    await new Promise((resolve) => setImmediate(resolve))
    const { family, proxyHealth, input, clock } = this.#options
    const start = clock.monotonic()
    proxyHealth.begun(family)
    const drifted = this.#drifted
    this.#drifted = false
    const full = this.#lastFullAt === null || start - this.#lastFullAt >= FULL_SYNC_MS
    try {
      const report = await this.#sync.run({ ...input(), full, drifted })
      if (full) this.#lastFullAt = start
      proxyHealth.updated(family)
      this.#firstDone()
      reportSync(this.#options, report, clock.monotonic() - start, this.#startedAt)
    } catch (error) {
      this.#drifted ||= drifted
      throw error
    }
  }

  #failed(error: unknown): void {
    const { family, mode, metrics, log, syncPeriodMs } = this.#options
    if (error instanceof ApplyFailure && mode.name === 'nftables') {
      metrics.nftablesSyncFailures.inc({ ip_family: family })
    }
    const cause = error instanceof ApplyFailure ? error.cause : error
    log.error(cause, 'Sync failed; all of it will be repeated', {
      ipFamily: family,
      retryingIn: `${syncPeriodMs / 1000}s`,
    })
  }
}
