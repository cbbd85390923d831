import { execFileSync } from 'node:child_process'
import { resolve } from 'node:path'
import { expect, test } from 'vitest'
import type { BenchReport } from './figures.ts'

const LAUNCHER = resolve(import.meta.dirname, '../../../bin/switchback')

function bench(what: string): BenchReport {
  const argv = [LAUNCHER, 'bench', what, '--services', '20', '--endpoints', '3', '--runs', '1', '-o', 'json']
  return JSON.parse(
    execFileSync(process.execPath, argv, { encoding: 'utf8', timeout: 55_000 }),
  ) as BenchReport
}

test('bench measures a full sync of real processes', () => {
  const { figures, ...head } = bench('sync')
  expect(head).toMatchObject({ what: 'sync', mode: 'nftables', services: 20, endpoints: 3, runs: 1 })
  expect(Object.keys(figures)).toEqual(['startToRules', 'agentCpu', 'agentPeakMemory'])
  expect(figures['startToRules']!.median).toBeGreaterThan(0)
})

test('bench measures one change from PATCH to kernel', () => {
  const { figures, what } = bench('change')
  expect(what).toBe('change')
  expect(figures['patchToKernel']).toMatchObject({ unit: 'ms' })
  expect(figures['patchToKernel']!.median).toBeGreaterThan(0)
})
