import type { Drift } from '../modes/mode.ts'
import type { IpFamily } from '../net/family.ts'
import type { ProxyMetrics } from '../observe/proxy-metrics.ts'
import type { Clock } from '../shared/clock.ts'
import type { Logger } from '../shared/logger.ts'
import type { Done, SyncReport } from './sync.ts'

interface Reporting {
  readonly family: IpFamily
  readonly metrics: ProxyMetrics
  readonly clock: Clock
  readonly log: Logger
}

/** Drifted objects that are named in the log; the rest is counted. */
const NAMED_DRIFTS = 5

/** Puts a successful sync into metrics and log. `startedAt`: when the agent started, ms since the epoch. */
export function reportSync(to: Reporting, report: SyncReport, elapsedMs: number, startedAt: number): void {
  const { family, metrics, clock, log } = to
  const labels = { ip_family: family }
  const seconds = elapsedMs / 1000
  metrics.syncSeconds.observe(labels, seconds)
  const byExtent = report.apply.full ? metrics.fullSyncSeconds : metrics.partialSyncSeconds
  byExtent.observe(labels, seconds)
  metrics.syncLastTimestamp.set(labels, clock.now() / 1000)
  if (report.forgottenFlows !== null) {
    metrics.conntrackSeconds.observe(labels, report.hygieneMs / 1000)
    metrics.conntrackDeleted.inc(labels, report.forgottenFlows)
  }
  for (const latencyMs of programmingLatencies(report.before, report.after, family, clock.now(), startedAt)) {
    metrics.programmingSeconds.observe(labels, latencyMs / 1000)
  }
  if (report.drift.length > 0) reportDrift(to, report.drift)
  reportProblems(log, report)
  const first = report.before === null ? log : log.v(2)
  first?.info('SyncProxyRules complete', {
    ipFamily: family,
    elapsed: `${elapsedMs.toFixed(3)}ms`,
    full: report.apply.full,
    operations: report.apply.operations,
    servicePorts: report.after.map.ports.size,
    forgottenFlows:
      report.forgottenFlows === null || report.forgottenFlows === 0 ? undefined : report.forgottenFlows,
  })
}

function reportDrift({ family, metrics, log }: Reporting, drift: readonly Drift[]): void {
  metrics.driftRepairs.inc({ ip_family: family })
  for (const { kind } of drift) metrics.driftedObjects.inc({ ip_family: family, kind })
  log.warning('Somebody else changed the rules; they are mended', {
    ipFamily: family,
    objects: drift.length,
    changed: drift.slice(0, NAMED_DRIFTS).map(({ kind, object }) => `${kind}: ${object}`),
  })
}

/** Says what had to be left out or mended in Services, once per version of the object. */
function reportProblems(log: Logger, { before, after }: SyncReport): void {
  const problems = after.map.problems
  const fresh = before === null ? problems.values() : fromChanges(before, after)
  for (const list of fresh) {
    for (const { object, field, message } of list) log.warning(message, { object, field })
  }
}

function* fromChanges(
  before: Done,
  after: Done,
): Generator<Done['map']['problems'] extends Iterable<[string, infer V]> ? V : never> {
  for (const change of after.map.problems.changesSince(before.map.problems)) {
    if (change.after !== undefined) yield change.after
  }
}

/**
 * How long the endpoint changes of this sync took from their trigger to the kernel, in milliseconds: one per
 * EndpointSlice that changed. Changes from before the agent's start tell nothing about it and are left out, as upstream.
 */
export function* programmingLatencies(
  before: Done | null,
  after: Done,
  family: IpFamily,
  now: number,
  startedAt: number,
): Generator<number> {
  if (before === null) return
  for (const { before: old, after: bundle } of after.state.services.changesSince(before.state.services)) {
    for (const slice of bundle?.slices ?? []) {
      if (slice.family !== family || slice.triggeredAt === null || slice.triggeredAt < startedAt) continue
      if (old?.slices.includes(slice) === true) continue
      yield Math.max(0, now - slice.triggeredAt)
    }
  }
}
