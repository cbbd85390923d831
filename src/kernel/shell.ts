import { spawn } from 'node:child_process'
import { CommandError } from '../shared/errors.ts'

export interface RunOptions {
  /** Written to the program's standard input, which is then closed. */
  readonly input?: string
  /** The program is killed (SIGKILL) after this long; default 30 s. */
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
  readonly env?: Readonly<Record<string, string>>
}

export interface RunResult {
  readonly stdout: string
  readonly stderr: string
}

const DEFAULT_TIMEOUT_MS = 30_000
/** Of standard error in a message; the error's field has all. */
const STDERR_IN_MESSAGE = 2_000

/**
 * Runs a program to its end: no shell, arguments as they are. The only place of the product that starts programs. Rejects
 * with CommandError if it cannot be started, ends with another status than 0 or by a signal, or takes too long.
 * A program that does not read its input is not an error by itself.
 */
export function run(argv: readonly string[], options: RunOptions = {}): Promise<RunResult> {
  const [program, ...args] = argv
  if (program === undefined) return Promise.reject(new TypeError('no program to run'))
  const timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS
  const started = performance.now()
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      stdio: 'pipe',
      env: { ...process.env, ...options.env },
      ...(options.signal === undefined ? {} : { signal: options.signal, killSignal: 'SIGKILL' }),
    })
    const [stdout, stderr] = [collect(child.stdout), collect(child.stderr)]
    let timedOut = false
    const timer = setTimeout(() => {
      timedOut = true
      child.kill('SIGKILL')
    }, timeoutMs)
    const fail = (exitCode: number | null, why: string, cause?: unknown): void => {
      clearTimeout(timer)
      const took = Math.round(performance.now() - started)
      const tail = stderr().trim().slice(-STDERR_IN_MESSAGE)
      const message = `${argv.join(' ')} ${why} after ${took} ms${tail === '' ? '' : `: ${tail}`}`
      reject(new CommandError(argv, exitCode, stderr(), message, { cause }))
    }
    child.on('error', (error) => fail(null, `could not be run (${error.message})`, error))
    child.on('close', (exitCode, killedBy) => {
      if (exitCode === 0) {
        clearTimeout(timer)
        resolve({ stdout: stdout(), stderr: stderr() })
      } else if (timedOut) fail(null, `was stopped: it took longer than ${timeoutMs} ms, it was ended`)
      else fail(exitCode, killedBy === null ? `ended with status ${exitCode}` : `was ended by ${killedBy}`)
    })
    // EPIPE: the program ended, or closed its input, before it had read everything. Its status says whether that is bad.
    child.stdin.on('error', () => undefined)
    child.stdin.end(options.input ?? '')
  })
}

function collect(stream: NodeJS.ReadableStream): () => string {
  const chunks: Buffer[] = []
  stream.on('data', (chunk: Buffer) => chunks.push(chunk))
  return () => Buffer.concat(chunks).toString('utf8')
}
