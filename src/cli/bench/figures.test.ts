import { expect, test } from 'vitest'
import { cpuSeconds, figure, residentMemory } from './figures.ts'

test('a figure is the smallest, the middle and the largest of its values', () => {
  expect(figure([3, 1, 2], 's')).toEqual({ min: 1, median: 2, max: 3, unit: 's' })
  expect(figure([4, 1, 2, 3], 'ms')).toEqual({ min: 1, median: 2.5, max: 4, unit: 'ms' })
})

test('memory and processor time of a process are read from /proc', () => {
  const { now, peak } = residentMemory(process.pid)
  expect(now).toBeGreaterThan(10)
  expect(peak).toBeGreaterThanOrEqual(now)
  expect(cpuSeconds(process.pid)).toBeGreaterThan(0)
})
