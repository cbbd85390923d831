import type { Clock } from './clock.ts'
import { systemClock } from './clock.ts'

/** Named values of a log line. `undefined` values are left out; errors are shown by their message. */
export type LogFields = Readonly<Record<string, unknown>>

/**
 * Structured log in klog's forms, so that what operators grep for in kube-proxy's log is found here too.
 * Messages are short sentences without values; values go into fields.
 */
export interface Logger {
  info(message: string, fields?: LogFields): void
  warning(message: string, fields?: LogFields): void
  /** `error` is shown as `err`; null when there is only a message. */
  error(error: unknown, message: string, fields?: LogFields): void
  /** This logger if verbosity (`-v`) is at least `level`, else null: `log.v(2)?.info(...)` costs nothing when off. */
  v(level: number): Logger | null
  /** A logger that adds these fields to every line. */
  with(fields: LogFields): Logger
}

export type LogFormat = 'text' | 'json'

/** Options of {@link createLogger}; everything but the sink has a default. */
export interface LoggerOptions {
  /** Gets one complete line, with its newline. */
  readonly sink: (line: string) => void
  readonly format?: LogFormat
  /** `-v`; 0 = only what an operator must see. */
  readonly verbosity?: number
  readonly clock?: Clock
  readonly pid?: number
  /** Where the log call stands, `file.ts:12`; the default reads the call stack. */
  readonly caller?: () => string
}

type Severity = 'I' | 'W' | 'E'

interface Line {
  readonly severity: Severity
  readonly level: number
  readonly message: string
  readonly fields: LogFields
}

/** A logger that writes to the given sink. */
export function createLogger(options: LoggerOptions): Logger {
  const settings = {
    format: 'text' as LogFormat,
    verbosity: 0,
    clock: systemClock,
    pid: process.pid,
    caller: callerFromStack,
    ...options,
  }
  const render = settings.format === 'json' ? jsonLine : textLine
  const write = (line: Line): void =>
    settings.sink(render(line, settings.clock.now(), settings.pid, settings.caller()))
  return loggerAt(write, settings.verbosity, 0, {})
}

/** Drops everything: for tests and pure uses. */
export const silentLogger: Logger = {
  info: () => {},
  warning: () => {},
  error: () => {},
  v: () => null,
  with: () => silentLogger,
}

function loggerAt(write: (line: Line) => void, verbosity: number, level: number, base: LogFields): Logger {
  const emit = (severity: Severity, message: string, fields: LogFields = {}): void =>
    write({ severity, level, message, fields: { ...base, ...fields } })
  return {
    info: (message, fields) => emit('I', message, fields),
    warning: (message, fields) => emit('W', message, fields),
    error: (error, message, fields) => emit('E', message, { err: error ?? undefined, ...fields }),
    v: (wanted) => (wanted <= verbosity ? loggerAt(write, verbosity, wanted, base) : null),
    with: (fields) => loggerAt(write, verbosity, level, { ...base, ...fields }),
  }
}

/** `I1130 20:21:55.123000    4242 agent.ts:12] "Message" key="value"`: local time, as klog writes it. */
function textLine(line: Line, now: number, pid: number, caller: string): string {
  const at = new Date(now)
  const two = (n: number): string => String(n).padStart(2, '0')
  const day = `${two(at.getMonth() + 1)}${two(at.getDate())}`
  const micros = String(Math.floor((now % 1000) * 1000)).padStart(6, '0')
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${micros}`
  const fields = Object.entries(line.fields)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => ` ${key}=${textValue(value)}`)
  const header = `${line.severity}${day} ${time} ${String(pid).padStart(7)} ${caller}]`
  return `${header} ${JSON.stringify(line.message)}${fields.join('')}\n`
}

function textValue(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value)
  if (value instanceof Error) return JSON.stringify(errorText(value))
  if (typeof value === 'object' && value !== null) return JSON.stringify(value)
  return String(value)
}

/** Kubernetes' JSON form: `ts` in milliseconds since the epoch, `v` on everything but errors. */
function jsonLine(line: Line, now: number, _pid: number, caller: string): string {
  const fields = Object.fromEntries(
    Object.entries(line.fields).map(([key, value]) => [
      key,
      value instanceof Error ? errorText(value) : value,
    ]),
  )
  const level = line.severity === 'E' ? {} : { v: line.level }
  return `${JSON.stringify({ ts: now, caller, msg: line.message, ...level, ...fields })}\n`
}

/** An error's message followed by those of its causes that add something. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const own = error.message === '' ? error.name : error.message
  if (error.cause === undefined) return own
  const cause = errorText(error.cause)
  return own.includes(cause) ? own : `${own}: ${cause}`
}

function callerFromStack(): string {
  const lines = new Error('where').stack?.split('\n') ?? []
  for (const line of lines.slice(2)) {
    const match = /([^/\\()\s]+\.[cm]?[jt]s):(\d+):\d+\)?$/.exec(line)
    if (match !== null && !/^logger\.[jt]s$/.test(match[1]!)) return `${match[1]}:${match[2]}`
  }
  return 'unknown:0'
}
