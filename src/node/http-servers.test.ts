import { expect, test } from 'vitest'
import { createProxyMetrics } from '../observe/proxy-metrics.ts'
import { ManualClock } from '../shared/manual-clock.ts'
import { healthHandler, metricsHandler } from './http-servers.ts'
import { ProxyHealth } from './proxy-health.ts'

async function bench() {
  const clock = new ManualClock(1_000_000)
  const health = new ProxyHealth(clock, 10_000)
  const metrics = await createProxyMetrics({ version: '1.2.3' })
  const node = { eligible: true }
  const handle = healthHandler({ health, metrics, nodeEligible: () => node.eligible })
  const statuses = async () => [(await handle('/healthz')).status, (await handle('/livez')).status]
  return { clock, health, metrics, node, handle, statuses }
}

test('healthz and livez follow the proxy, healthz the node as well, and both are counted by status', async () => {
  const b = await bench()
  expect(await b.statuses()).toEqual([200, 200])
  b.health.queued('IPv4')
  await b.clock.advance(10_001)
  expect(await b.statuses()).toEqual([503, 503])
  b.health.begun('IPv4')
  b.health.updated('IPv4')
  expect(await b.statuses()).toEqual([200, 200])
  b.node.eligible = false
  expect(await b.statuses()).toEqual([503, 200])
  const text = await b.metrics.registry.metrics()
  expect(text).toContain('kubeproxy_proxy_healthz_total{code="200"} 2')
  expect(text).toContain('kubeproxy_proxy_healthz_total{code="503"} 2')
  expect(text).toContain('kubeproxy_proxy_livez_total{code="200"} 3')
})

test('other paths are not found', async () => {
  const b = await bench()
  expect((await b.handle('/')).status).toBe(404)
  const metrics = metricsHandler({ metrics: b.metrics, mode: 'nftables' })
  expect((await metrics('/configz')).status).toBe(404)
  expect(await metrics('/proxyMode')).toMatchObject({ status: 200, body: 'nftables' })
  expect((await metrics('/healthz')).status).toBe(200)
  expect((await metrics('/metrics')).body).toContain('kubernetes_build_info{git_version="v1.2.3"')
})
