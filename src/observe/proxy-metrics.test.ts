import { expect, test } from 'vitest'
import { createProxyMetrics } from './proxy-metrics.ts'

/** kube-proxy 1.36's series that make sense for nftables, as its documentation lists them. */
const UPSTREAM = [
  'kubeproxy_sync_proxy_rules_duration_seconds',
  'kubeproxy_sync_full_proxy_rules_duration_seconds',
  'kubeproxy_sync_partial_proxy_rules_duration_seconds',
  'kubeproxy_sync_proxy_rules_last_timestamp_seconds',
  'kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds',
  'kubeproxy_network_programming_duration_seconds',
  'kubeproxy_sync_proxy_rules_endpoint_changes_pending',
  'kubeproxy_sync_proxy_rules_endpoint_changes_total',
  'kubeproxy_sync_proxy_rules_service_changes_pending',
  'kubeproxy_sync_proxy_rules_service_changes_total',
  'kubeproxy_sync_proxy_rules_nftables_sync_failures_total',
  'kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total',
  'kubeproxy_sync_proxy_rules_no_local_endpoints_total',
  'kubeproxy_proxy_healthz_total',
  'kubeproxy_proxy_livez_total',
  'kubeproxy_conntrack_reconciler_sync_duration_seconds',
  'kubeproxy_conntrack_reconciler_deleted_entries_total',
  'kubernetes_build_info',
  'process_resident_memory_bytes',
  'process_cpu_seconds_total',
  'nodejs_heap_size_used_bytes',
]

test("the registry has kube-proxy's series and the process's", async () => {
  const { registry } = await createProxyMetrics({ version: '0' })
  const names = new Set(registry.getMetricsAsArray().map(({ name }) => name))
  expect(UPSTREAM.filter((name) => !names.has(name))).toEqual([])
})

test('two registries do not share figures', async () => {
  const [a, b] = [await createProxyMetrics({ version: '0' }), await createProxyMetrics({ version: '0' })]
  a.serviceChanges.inc(3)
  expect((await b.serviceChanges.get()).values[0]?.value).toBe(0)
})

test('histograms have the buckets of kube-proxy', async () => {
  const metrics = await createProxyMetrics({ version: '0' })
  metrics.syncSeconds.observe({ ip_family: 'IPv4' }, 0.01)
  metrics.programmingSeconds.observe({ ip_family: 'IPv4' }, 0.3)
  const bounds = async (name: string): Promise<number[]> => {
    const text = await metrics.registry.getSingleMetricAsString(name)
    return [...text.matchAll(/le="([\d.]+)"/g)].map(([, bound]) => Number(bound))
  }
  expect((await bounds('kubeproxy_sync_proxy_rules_duration_seconds')).slice(0, 3)).toEqual([
    0.001, 0.002, 0.004,
  ])
  expect((await bounds('kubeproxy_sync_proxy_rules_duration_seconds')).at(-1)).toBe(16.384)
  const programming = await bounds('kubeproxy_network_programming_duration_seconds')
  expect(programming).toHaveLength(2 + 59 + 12 + 7)
  expect([programming[0], programming[2], programming.at(-8), programming.at(-1)]).toEqual([
    0.25, 1, 115, 300,
  ])
})

test('live figures are read when the metrics are, with their labels', async () => {
  const metrics = await createProxyMetrics({ version: '0' })
  let pending = 4
  metrics.follow({
    serviceChangesPending: () => pending,
    endpointChangesPending: () => 0,
    noLocalEndpoints: () => [[{ traffic_policy: 'external', ip_family: 'IPv4' }, 2]],
    relists: () => [[{ resource: 'services' }, 5]],
    undecodableObjects: () => [],
  })
  expect(await metrics.registry.metrics()).toContain('kubeproxy_sync_proxy_rules_service_changes_pending 4')
  pending = 0
  const text = await metrics.registry.metrics()
  expect(text).toContain('kubeproxy_sync_proxy_rules_service_changes_pending 0')
  expect(text).toContain('no_local_endpoints_total{traffic_policy="external",ip_family="IPv4"} 2')
  expect(text).toContain('switchback_relists_total{resource="services"} 5')
})
