const UNIT_MS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3, // U+00B5, the micro sign
  μs: 1e-3, // U+03BC, the Greek letter; Go accepts both
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
}

/** Reads a Go duration (`1h0m30s`, `250ms`, `0`) as milliseconds, or returns null. https://pkg.go.dev/time#ParseDuration */
export function parseDuration(text: string): number | null {
  const match = /^([+-]?)(.+)$/.exec(text)
  if (match === null) return null
  const sign = match[1] === '-' ? -1 : 1
  const rest = match[2]!
  if (rest === '0') return 0
  const part = /(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)/y
  let total = 0
  while (part.lastIndex < rest.length) {
    const found = part.exec(rest)
    if (found === null) return null
    total += Number(found[1]) * UNIT_MS[found[2]!]!
  }
  return sign * total
}

/** A duration in milliseconds as Go prints it: `1h0m0s`, `30s`, `1.5ms`, `0s`. */
export function formatDuration(ms: number): string {
  if (ms < 0) return `-${formatDuration(-ms)}`
  if (ms === 0) return '0s'
  if (ms < 0.001) return `${trimmed(ms * 1e6, 0)}ns`
  if (ms < 1) return `${trimmed(ms * 1000, 3)}µs`
  if (ms < 1000) return `${trimmed(ms, 6)}ms`
  const totalSeconds = ms / 1000
  const hours = Math.floor(totalSeconds / 3600)
  const minutes = Math.floor((totalSeconds % 3600) / 60)
  const seconds = trimmed(totalSeconds - hours * 3600 - minutes * 60, 9)
  if (hours > 0) return `${hours}h${minutes}m${seconds}s`
  return minutes > 0 ? `${minutes}m${seconds}s` : `${seconds}s`
}

function trimmed(value: number, digits: number): string {
  return String(Number(value.toFixed(digits)))
}
