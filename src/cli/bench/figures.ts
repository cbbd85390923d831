import { readFileSync } from 'node:fs'
import { cpus, loadavg, release, totalmem } from 'node:os'

/** One measured quantity over several runs. */
export interface Figure {
  readonly min: number
  readonly median: number
  readonly max: number
  readonly unit: string
}

/** The machine and its state when the figures were taken: absolute figures mean nothing without it. */
export interface Machine {
  readonly cpu: string
  readonly cores: number
  readonly memoryMiB: number
  readonly kernel: string
  readonly node: string
  readonly loadAverage1m: number
}

/** What `bench -o json` prints; field names are a contract (docs/json.md). */
export interface BenchReport {
  readonly what: 'sync' | 'change'
  readonly mode: string
  readonly services: number
  readonly endpoints: number
  readonly runs: number
  readonly figures: Readonly<Record<string, Figure>>
  readonly machine: Machine
}

/** The machine's monotonic clock in milliseconds: the same for every process, unlike performance.now(). */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

/** Smallest, middle and largest of at least one value; the median of an even count is the mean of the middle two. */
export function figure(values: readonly number[], unit: string): Figure {
  const sorted = [...values].sort((a, b) => a - b)
  const half = sorted.length >> 1
  const median = sorted.length % 2 === 1 ? sorted[half]! : (sorted[half - 1]! + sorted[half]!) / 2
  return { min: round(sorted[0]!), median: round(median), max: round(sorted.at(-1)!), unit }
}

export function describeMachine(): Machine {
  return {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memoryMiB: Math.round(totalmem() / 2 ** 20),
    kernel: release(),
    node: process.version,
    loadAverage1m: round(loadavg()[0]!),
  }
}

/** Resident memory of a process: now, and the most it ever was. MiB. */
export function residentMemory(pid: number): { readonly now: number; readonly peak: number } {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const mib = (field: string): number =>
    Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0) / 1024
  return { now: mib('VmRSS'), peak: mib('VmHWM') }
}

/** Processor time a process has used so far, in seconds (clock ticks are 1/100 s on every Linux Node.js runs on). */
export function cpuSeconds(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) / 100
}

/** The report as a table for people. */
export function renderReport(report: BenchReport): string {
  const { machine } = report
  const rows = Object.entries(report.figures).map(([name, { min, median, max, unit }]) => {
    return `  ${name.padEnd(28)} ${String(median).padStart(10)} ${unit.padEnd(4)} (${min} … ${max})`
  })
  return [
    `${report.what}, ${report.mode} mode, ${report.services} services × ${report.endpoints} endpoints, ${report.runs} runs`,
    `${machine.cpu}, ${machine.cores} cores, Linux ${machine.kernel}, Node.js ${machine.node}, load ${machine.loadAverage1m}`,
    `  ${'figure'.padEnd(28)} ${'median'.padStart(10)}      (min … max)`,
    ...rows,
    '',
  ].join('\n')
}

function round(value: number): number {
  return Number(value.toPrecision(4))
}
