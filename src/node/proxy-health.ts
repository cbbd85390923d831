import type { IpFamily } from '../net/family.ts'
import type { Clock } from '../shared/clock.ts'

/** Health of the proxy in one family. Times in milliseconds since the epoch; null = never. */
export interface FamilyHealth {
  readonly lastUpdatedAt: number | null
  readonly healthy: boolean
}

/** What /healthz and /livez report. */
export interface ProxyHealthReport {
  readonly now: number
  readonly healthy: boolean
  readonly families: Readonly<Partial<Record<IpFamily, FamilyHealth>>>
}

interface FamilyTimes {
  lastUpdatedAt: number | null
  /** When the oldest change that no sync has taken up yet was queued; null = none. */
  oldestPendingAt: number | null
  /** Likewise for what the sync in progress has taken up. */
  inProgressSince: number | null
}

/**
 * Knows whether this proxy keeps up: it is unhealthy when a change has waited for longer than the time-out. With
 * nothing to do it is healthy, however long ago the last sync was.
 */
export class ProxyHealth {
  readonly #clock: Clock
  readonly #timeoutMs: number
  readonly #families = new Map<IpFamily, FamilyTimes>()

  /** `timeoutMs`: twice the sync period, as upstream. */
  constructor(clock: Clock, timeoutMs: number) {
    this.#clock = clock
    this.#timeoutMs = timeoutMs
  }

  /** A change for this family waits to be written. */
  queued(family: IpFamily): void {
    this.#times(family).oldestPendingAt ??= this.#clock.now()
  }

  /** A sync takes up all that waits now. */
  begun(family: IpFamily): void {
    const times = this.#times(family)
    times.inProgressSince = oldest(times.inProgressSince, times.oldestPendingAt)
    times.oldestPendingAt = null
  }

  /** The sync succeeded: only what was queued since it began still waits. */
  updated(family: IpFamily): void {
    const times = this.#times(family)
    times.lastUpdatedAt = this.#clock.now()
    times.inProgressSince = null
  }

  report(): ProxyHealthReport {
    const now = this.#clock.now()
    const families: Partial<Record<IpFamily, FamilyHealth>> = {}
    for (const [family, { lastUpdatedAt, oldestPendingAt, inProgressSince }] of this.#families) {
      const since = oldest(oldestPendingAt, inProgressSince)
      const healthy = since === null || now - since <= this.#timeoutMs
      families[family] = { lastUpdatedAt, healthy }
    }
    return { now, healthy: Object.values(families).every(({ healthy }) => healthy), families }
  }

  #times(family: IpFamily): FamilyTimes {
    let times = this.#families.get(family)
    if (times === undefined) {
      times = { lastUpdatedAt: null, oldestPendingAt: null, inProgressSince: null }
      this.#families.set(family, times)
    }
    return times
  }
}

function oldest(a: number | null, b: number | null): number | null {
  if (a === null || b === null) return a ?? b
  return Math.min(a, b)
}

/** The JSON body of kube-proxy's health endpoints; `nodeEligible` is null for /livez, which does not judge the node. */
export function healthBody(report: ProxyHealthReport, nodeEligible: boolean | null): string {
  const time = (at: number | null): string =>
    at === null ? '0001-01-01T00:00:00Z' : new Date(at).toISOString()
  const updates = Object.values(report.families).map(({ lastUpdatedAt }) => lastUpdatedAt)
  const earliest = updates.includes(null) || updates.length === 0 ? null : Math.min(...(updates as number[]))
  return JSON.stringify({
    lastUpdated: time(report.healthy ? report.now : earliest),
    currentTime: time(report.now),
    ...(nodeEligible === null ? {} : { nodeEligible }),
    healthy: report.healthy && nodeEligible !== false,
    status: Object.fromEntries(
      Object.entries(report.families)
        .toSorted(([a], [b]) => (a < b ? -1 : 1))
        .map(([family, { lastUpdatedAt, healthy }]) => [
          family,
          { lastUpdated: time(lastUpdatedAt), healthy },
        ]),
    ),
  })
}
