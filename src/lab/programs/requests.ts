/**
 * Sends HTTP requests to an echo server, each on a connection of its own, and prints one JSON line with what came back.
 * Arguments: --url URL [--count N] [--rate PER_SECOND] [--concurrency N] [--timeout-ms N]
 * [--family 4|6]. Without --count it goes on
 * until its standard input ends; `progress` lines on stdout tell how many are answered.
 */
import { request } from 'node:http'
import { parseArgs } from 'node:util'

/** What one run of requests came to; the program's last line. */
export interface RequestSummary {
  readonly sent: number
  readonly answered: number
  readonly failed: number
  /** Answers by pod name. */
  readonly pods: Readonly<Record<string, { readonly node: string; readonly answers: number }>>
  /** Client addresses the pods saw, without ports, with how often. */
  readonly clients: Readonly<Record<string, number>>
  readonly errors: readonly string[]
  /** Longest time between two answers, in milliseconds. */
  readonly longestGapMs: number
}

const { values } = parseArgs({
  options: {
    url: { type: 'string' },
    count: { type: 'string' },
    rate: { type: 'string', default: '0' },
    concurrency: { type: 'string', default: '4' },
    family: { type: 'string' },
    'timeout-ms': { type: 'string', default: '5000' },
  },
})
const url = values.url ?? ''
const limit = values.count === undefined ? Number.POSITIVE_INFINITY : Number(values.count)
const rate = Number(values.rate)
const family = values.family === undefined ? {} : { family: Number(values.family) }
const timeoutMs = Number(values['timeout-ms'])
const PROGRESS_EVERY = 25
const MAX_ERRORS_SHOWN = 10

const pods: Record<string, { node: string; answers: number }> = {}
const clients: Record<string, number> = {}
const errors: string[] = []
let sent = 0
let answered = 0
let failed = 0
let longestGapMs = 0
let lastAnswer = performance.now()
const stop = new AbortController()

function once(): Promise<string> {
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { agent: false, timeout: timeoutMs, ...family }, (response) => {
      let body = ''
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => (body += chunk))
      response.once('end', () => resolve(body))
      response.once('error', reject)
    })
    outgoing.once('timeout', () => outgoing.destroy(new Error(`no answer within ${timeoutMs} ms`)))
    outgoing.once('error', reject)
    outgoing.end()
  })
}

function record(body: string): void {
  const { pod, node, client } = JSON.parse(body) as { pod: string; node: string; client: string }
  const entry = (pods[pod] ??= { node, answers: 0 })
  entry.answers++
  const address = client.replace(/:\d+$/, '')
  clients[address] = (clients[address] ?? 0) + 1
  answered++
  const now = performance.now()
  longestGapMs = Math.max(longestGapMs, now - lastAnswer)
  lastAnswer = now
  if (limit === Number.POSITIVE_INFINITY && answered % PROGRESS_EVERY === 0) {
    process.stdout.write(`${JSON.stringify({ progress: answered, failed, pods })}\n`)
  }
}

async function worker(): Promise<void> {
  while (!stop.signal.aborted && sent < limit) {
    const slot = sent++
    const dueIn = rate > 0 ? start + (slot * 1000) / rate - performance.now() : 0
    if (dueIn > 0) await new Promise((resolve) => setTimeout(resolve, dueIn))
    try {
      record(await once())
    } catch (error) {
      failed++
      const text = error instanceof Error ? error.message : String(error)
      if (errors.length < MAX_ERRORS_SHOWN) errors.push(`${new Date().toISOString()} ${text}`)
    }
  }
}

if (limit === Number.POSITIVE_INFINITY) {
  process.stdin.resume()
  process.stdin.once('end', () => stop.abort())
}
const start = performance.now()
await Promise.all(Array.from({ length: Number(values.concurrency) }, worker))
const summary: RequestSummary = {
  sent,
  answered,
  failed,
  pods,
  clients,
  errors,
  longestGapMs: Math.round(longestGapMs),
}
process.stdout.write(`${JSON.stringify(summary)}\n`)
process.exit(0)
