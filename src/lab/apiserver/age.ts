/** Time since `since` (ISO text) as kubectl shows it: `45s`, `3m20s`, `5h`, `12d`; `<unknown>` for none. */
export function age(since: string | null | undefined, now: number): string {
  if (since === null || since === undefined || since === '') return '<unknown>'
  const seconds = Math.floor((now - Date.parse(since)) / 1000)
  if (!Number.isFinite(seconds)) return '<invalid>'
  return shortDuration(seconds)
}

/** Whole seconds in at most two units, the coarser the longer. */
export function shortDuration(seconds: number): string {
  if (seconds < -1) return '<invalid>'
  if (seconds < 0) return '0s'
  if (seconds < 120) return `${seconds}s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 10) return pair(minutes, 'm', seconds % 60, 's')
  if (minutes < 180) return `${minutes}m`
  const hours = Math.floor(minutes / 60)
  if (hours < 8) return pair(hours, 'h', minutes % 60, 'm')
  if (hours < 48) return `${hours}h`
  const days = Math.floor(hours / 24)
  if (days < 8) return pair(days, 'd', hours % 24, 'h')
  if (days < 730) return `${days}d`
  return pair(Math.floor(days / 365), 'y', days % 365, 'd')
}

function pair(major: number, majorUnit: string, minor: number, minorUnit: string): string {
  return minor === 0 ? `${major}${majorUnit}` : `${major}${majorUnit}${minor}${minorUnit}`
}
