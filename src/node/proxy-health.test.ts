import { expect, test } from 'vitest'
import { ManualClock } from '../shared/manual-clock.ts'
import { ProxyHealth, healthBody } from './proxy-health.ts'

const START = Date.parse('2026-11-30T18:06:32.399Z')

function bench() {
  const clock = new ManualClock(START)
  return { clock, health: new ProxyHealth(clock, 10_000) }
}

test('a proxy that has nothing to do is healthy, however long ago its last sync was', async () => {
  const { clock, health } = bench()
  expect(health.report().healthy).toBe(true)
  health.queued('IPv4')
  health.begun('IPv4')
  health.updated('IPv4')
  await clock.advance(86_400_000)
  expect(health.report().healthy).toBe(true)
})

test('a change that waits longer than the time-out makes it unhealthy, until it is written', async () => {
  const { clock, health } = bench()
  health.queued('IPv6')
  await clock.advance(5000)
  health.queued('IPv6')
  await clock.advance(5000)
  expect(health.report().healthy).toBe(true)
  await clock.advance(1)
  expect(health.report().healthy).toBe(false)
  health.begun('IPv6')
  expect(health.report().healthy).toBe(false)
  health.updated('IPv6')
  expect(health.report().healthy).toBe(true)
})

test('a change that is queued during a sync still waits after it', async () => {
  const { clock, health } = bench()
  health.queued('IPv4')
  health.begun('IPv4')
  health.queued('IPv4')
  health.updated('IPv4')
  await clock.advance(10_001)
  expect(health.report().healthy).toBe(false)
})

test('a sync that failed leaves the age of what it had taken up', async () => {
  const { clock, health } = bench()
  health.queued('IPv4')
  health.begun('IPv4')
  await clock.advance(9000)
  health.queued('IPv4')
  health.begun('IPv4')
  await clock.advance(1001)
  expect(health.report().healthy).toBe(false)
})

test('one family that hangs makes the proxy unhealthy', async () => {
  const { clock, health } = bench()
  health.queued('IPv4')
  health.queued('IPv6')
  health.begun('IPv4')
  health.updated('IPv4')
  await clock.advance(10_001)
  expect(health.report().families).toMatchObject({ IPv4: { healthy: true }, IPv6: { healthy: false } })
  expect(health.report().healthy).toBe(false)
})

test('the body has the fields and their order of kube-proxy', async () => {
  const { clock, health } = bench()
  for (const family of ['IPv6', 'IPv4'] as const) {
    health.queued(family)
    health.begun(family)
    health.updated(family)
  }
  await clock.advance(1000)
  expect(healthBody(health.report(), true)).toBe(
    '{"lastUpdated":"2026-11-30T18:06:33.399Z","currentTime":"2026-11-30T18:06:33.399Z","nodeEligible":true,"healthy":true,' +
      '"status":{"IPv4":{"lastUpdated":"2026-11-30T18:06:32.399Z","healthy":true},"IPv6":{"lastUpdated":"2026-11-30T18:06:32.399Z","healthy":true}}}',
  )
  const livez = JSON.parse(healthBody(health.report(), null)) as Record<string, unknown>
  expect(Object.keys(livez)).toEqual(['lastUpdated', 'currentTime', 'healthy', 'status'])
  expect(JSON.parse(healthBody(health.report(), false))).toMatchObject({
    nodeEligible: false,
    healthy: false,
  })
})
