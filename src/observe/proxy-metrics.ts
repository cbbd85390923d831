import type { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { Sample } from './series-maker.ts'
import { SeriesMaker } from './series-maker.ts'

/** Figures that are looked up when somebody reads /metrics. */
export interface LiveFigures {
  /** Services whose own object changed since the last complete sync. */
  readonly serviceChangesPending: () => number
  readonly endpointChangesPending: () => number
  /** Service ports that drop traffic because no endpoint is local; labels traffic_policy, ip_family. */
  readonly noLocalEndpoints: () => readonly Sample[]
  /** Label resource. */
  readonly relists: () => readonly Sample[]
  readonly undecodableObjects: () => readonly Sample[]
}

/**
 * Every series of the agent. Names, labels and buckets are kube-proxy's (Kubernetes 1.36) where it has the series;
 * our own start with `switchback_`.
 */
export interface ProxyMetrics {
  readonly registry: Registry
  /** Where the figures come from that are looked up on reading; all zero until this is called. */
  readonly follow: (figures: LiveFigures) => void
  readonly syncSeconds: Histogram<'ip_family'>
  readonly fullSyncSeconds: Histogram<'ip_family'>
  readonly partialSyncSeconds: Histogram<'ip_family'>
  readonly syncLastTimestamp: Gauge<'ip_family'>
  readonly syncLastQueuedTimestamp: Gauge<'ip_family'>
  readonly programmingSeconds: Histogram<'ip_family'>
  readonly serviceChanges: Counter
  readonly endpointChanges: Counter
  readonly nftablesSyncFailures: Counter<'ip_family'>
  readonly nftablesCleanupFailures: Counter<'ip_family'>
  readonly healthzRequests: Counter<'code'>
  readonly livezRequests: Counter<'code'>
  readonly conntrackSeconds: Histogram<'ip_family'>
  readonly conntrackDeleted: Counter<'ip_family'>
  /** Times somebody else's change of our rules was mended. */
  readonly driftRepairs: Counter<'ip_family'>
  readonly driftedObjects: Counter<'ip_family' | 'kind'>
  readonly effectiveMode: Gauge<'mode'>
}

export interface MetricsOptions {
  readonly version: string
  readonly gitCommit?: string
}

/** Makes the registry. Loads the metrics library, which is why it is asynchronous. */
export async function createProxyMetrics(options: MetricsOptions): Promise<ProxyMetrics> {
  const prom = await import('prom-client')
  const registry = new prom.Registry()
  prom.collectDefaultMetrics({ register: registry })
  const make = new SeriesMaker(prom, registry)
  let figures = NO_FIGURES
  liveSeries(make, () => figures)
  buildInfo(make, options)
  return {
    registry,
    follow: (live) => {
      figures = live
    },
    ...syncSeries(make),
    ...serverSeries(make),
    ...ownSeries(make),
  }
}

const RULES = 'kubeproxy_sync_proxy_rules'
const FAMILY = ['ip_family'] as const
/** kube-proxy's buckets for syncs: 1 ms to 16.4 s. */
const SYNC_BUCKETS = Array.from({ length: 15 }, (_, i) => 0.001 * 2 ** i)

const NO_FIGURES: LiveFigures = {
  serviceChangesPending: () => 0,
  endpointChangesPending: () => 0,
  noLocalEndpoints: () => [],
  relists: () => [],
  undecodableObjects: () => [],
}

function syncSeries(make: SeriesMaker) {
  return {
    syncSeconds: make.histogram(
      `${RULES}_duration_seconds`,
      'Time of one sync, all of it',
      SYNC_BUCKETS,
      FAMILY,
    ),
    fullSyncSeconds: make.histogram(
      'kubeproxy_sync_full_proxy_rules_duration_seconds',
      'Time of one sync that wrote or compared everything',
      SYNC_BUCKETS,
      FAMILY,
    ),
    partialSyncSeconds: make.histogram(
      'kubeproxy_sync_partial_proxy_rules_duration_seconds',
      'Time of one sync that wrote a difference',
      SYNC_BUCKETS,
      FAMILY,
    ),
    syncLastTimestamp: make.gauge(
      `${RULES}_last_timestamp_seconds`,
      'When the last successful sync ended',
      FAMILY,
    ),
    syncLastQueuedTimestamp: make.gauge(
      `${RULES}_last_queued_timestamp_seconds`,
      'When a sync was last asked for',
      FAMILY,
    ),
    programmingSeconds: make.histogram(
      'kubeproxy_network_programming_duration_seconds',
      'Time from the change of a Pod or Service to its rules being in the kernel',
      programmingBuckets(),
      FAMILY,
    ),
    serviceChanges: make.counter(`${RULES}_service_changes_total`, 'Changes of Services seen', []),
    endpointChanges: make.counter(`${RULES}_endpoint_changes_total`, 'Changes of EndpointSlices seen', []),
    nftablesSyncFailures: make.counter(
      `${RULES}_nftables_sync_failures_total`,
      'Syncs that the kernel refused',
      FAMILY,
    ),
    nftablesCleanupFailures: make.counter(
      `${RULES}_nftables_cleanup_failures_total`,
      'Failed removals of stale nftables objects',
      FAMILY,
    ),
    conntrackSeconds: make.histogram(
      'kubeproxy_conntrack_reconciler_sync_duration_seconds',
      'Time to find and delete stale UDP flows',
      SYNC_BUCKETS,
      FAMILY,
    ),
    conntrackDeleted: make.counter(
      'kubeproxy_conntrack_reconciler_deleted_entries_total',
      'Stale UDP flows deleted',
      FAMILY,
    ),
  }
}

function serverSeries(make: SeriesMaker) {
  return {
    healthzRequests: make.counter('kubeproxy_proxy_healthz_total', 'Answers of /healthz by status', ['code']),
    livezRequests: make.counter('kubeproxy_proxy_livez_total', 'Answers of /livez by status', ['code']),
  }
}

function ownSeries(make: SeriesMaker) {
  return {
    driftRepairs: make.counter(
      'switchback_drift_repairs_total',
      'Times rules that somebody else changed were mended',
      FAMILY,
    ),
    driftedObjects: make.counter(
      'switchback_drifted_objects_total',
      'Objects found missing, unexpected or different',
      ['ip_family', 'kind'],
    ),
    effectiveMode: make.gauge('switchback_effective_mode', 'The proxy mode that serves traffic', ['mode']),
  }
}

function liveSeries(make: SeriesMaker, figures: () => LiveFigures): void {
  make.live(`${RULES}_service_changes_pending`, 'Service changes not yet in the rules', [], () => [
    [{}, figures().serviceChangesPending()],
  ])
  make.live(`${RULES}_endpoint_changes_pending`, 'Endpoint changes not yet in the rules', [], () => [
    [{}, figures().endpointChangesPending()],
  ])
  make.live(
    `${RULES}_no_local_endpoints_total`,
    'Service ports with a Local traffic policy and no endpoint on this node',
    ['traffic_policy', 'ip_family'],
    () => figures().noLocalEndpoints(),
  )
  make.liveCounter(
    'switchback_relists_total',
    'Lists read again because a watch could not go on',
    ['resource'],
    () => figures().relists(),
  )
  make.liveCounter(
    'switchback_undecodable_objects_total',
    'Objects or events that could not be read',
    ['resource'],
    () => figures().undecodableObjects(),
  )
}

/** kube-proxy's buckets: 0.25, 0.5, 1–59 s each second, 60–115 each 5 s, 120–300 each 30 s. */
function programmingBuckets(): number[] {
  const range = (from: number, to: number, step: number): number[] =>
    Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, i) => from + i * step)
  return [0.25, 0.5, ...range(1, 59, 1), ...range(60, 115, 5), ...range(120, 300, 30)]
}

function buildInfo(make: SeriesMaker, { version, gitCommit = '' }: MetricsOptions): void {
  const labels = ['git_version', 'git_commit', 'platform', 'node_version'] as const
  make.gauge('kubernetes_build_info', 'Version of this program', labels).set(
    {
      git_version: `v${version}`,
      git_commit: gitCommit,
      platform: `${process.platform}/${process.arch}`,
      node_version: process.version,
    },
    1,
  )
}
