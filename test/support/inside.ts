import type { ChildProcess } from 'node:child_process'
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { TestNamespace } from '../../src/kernel/test-namespace.ts'

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
}

interface Failure {
  readonly failure: string
}

/** Speaks HTTP from inside a network namespace, with one process for all requests. */
export interface Inside extends Disposable {
  /** Resolves to null if nobody answers. */
  request(url: string, method?: string, body?: unknown, contentType?: string): Promise<Answer | null>
  /** The text that a URL answers; rejects with the reason if nobody does. */
  get(url: string): Promise<string>
  /** Starts an UDP server that answers every datagram with `ADDRESS:PORT` of itself. */
  serveUdp(address: string, port: number): Promise<void>
  /** Sends a datagram from a socket that stays open for this local port; gives the answer, or null if none came in a second. */
  sendUdp(localPort: number, address: string, port: number): Promise<string | null>
  /** Runs a program to its end; gives its stdout, or rejects with its stderr. */
  run(argv: readonly string[]): Promise<string>
}

/** What runs in the namespace: a request a line in, an answer a line out. */
const PROGRAM = `
import { execFile } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { createInterface } from 'node:readline'
const sockets = new Map()
const tasks = {
  http: ({ url, method, body, contentType }) =>
    fetch(url, { method, body, headers: { connection: 'close', ...(body ? { 'content-type': contentType } : {}) } })
      .then(async (r) => ({ status: r.status, headers: Object.fromEntries(r.headers), text: await r.text() }))
      .catch((error) => ({ failure: String(error.cause?.code ?? error.cause ?? error) })),
  run: ({ argv }) => new Promise((done) =>
    execFile(argv[0], argv.slice(1), { maxBuffer: 2 ** 26 }, (error, out, err) => done({ failed: error !== null, out, err }))),
  serve: ({ address, port }) => new Promise((done) => {
    const socket = createSocket('udp4', (_, from) => socket.send(address + ':' + port, from.port, from.address))
    socket.bind(port, address, () => done(true))
  }),
  send: async ({ localPort, address, port }) => {
    if (!sockets.has(localPort)) {
      const socket = createSocket('udp4').on('error', () => {})
      await new Promise((done) => socket.bind(localPort, done))
      sockets.set(localPort, socket)
    }
    const socket = sockets.get(localPort)
    return new Promise((done) => {
      const timer = setTimeout(() => done(null), 1000)
      socket.removeAllListeners('message').once('message', (text) => { clearTimeout(timer); done(String(text)) })
      socket.send('hello', port, address)
    })
  },
}
for await (const line of createInterface({ input: process.stdin })) {
  const { id, task, ...input } = JSON.parse(line)
  tasks[task](input).then((result) => console.log(JSON.stringify({ id, result })))
}`

export function goInside(namespace: TestNamespace): Inside {
  return goThrough((argv) => ['ip', 'netns', 'exec', namespace.name, ...argv])
}

/** The same at any place; `enter` makes the command line that runs another one there. */
export function goThrough(enter: (argv: readonly string[]) => readonly string[]): Inside {
  const argv = enter([process.execPath, '--input-type=module', '-e', PROGRAM])
  const child = spawn(argv[0]!, argv.slice(1), { stdio: ['pipe', 'pipe', 'inherit'] })
  const waiting = new Map<number, (result: unknown) => void>()
  let lastId = 0
  createInterface({ input: child.stdout }).on('line', (line) => {
    const { id, result } = JSON.parse(line) as { id: number; result: unknown }
    waiting.get(id)?.(result)
    waiting.delete(id)
  })
  const perform = <T>(task: string, input: object): Promise<T> =>
    new Promise((resolve) => {
      const id = ++lastId
      waiting.set(id, (result) => resolve(result as T))
      child.stdin.write(`${JSON.stringify({ id, task, ...input })}\n`)
    })
  return {
    request: async (url, method = 'GET', body = undefined, contentType = 'application/json') => {
      const text = body === undefined ? undefined : JSON.stringify(body)
      const answer = await perform<Answer | Failure>('http', { url, method, body: text, contentType })
      return 'failure' in answer ? null : answer
    },
    get: async (url) => {
      const answer = await perform<Answer | Failure>('http', { url })
      if ('failure' in answer) throw new Error(`${url}: ${answer.failure}`)
      return answer.text
    },
    serveUdp: (address, port) => perform('serve', { address, port }),
    sendUdp: (localPort, address, port) => perform('send', { localPort, address, port }),
    run: async (argv) => {
      const { failed, out, err } = await perform<{ failed: boolean; out: string; err: string }>('run', {
        argv,
      })
      if (failed) throw new Error(`${argv.join(' ')}: ${err}`)
      return out
    },
    [Symbol.dispose]: () => void child.kill('SIGKILL'),
  }
}

/** A program running in a namespace, its standard error kept. */
export interface Running {
  readonly process: ChildProcess
  /** Everything it printed so far, both streams. */
  readonly output: () => string
  /** Its exit status, once it has ended; -1 if a signal ended it. */
  readonly ended: Promise<number>
  /** Sends a signal and resolves to the exit status. */
  stop(signal?: NodeJS.Signals): Promise<number>
}

export function spawnInside(namespace: TestNamespace, argv: readonly string[]): Running {
  const child = spawn('ip', ['netns', 'exec', namespace.name, ...argv], { stdio: ['ignore', 'pipe', 'pipe'] })
  let text = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (text += String(chunk)))
  const ended = new Promise<number>((resolve) => child.once('close', (code) => resolve(code ?? -1)))
  return {
    process: child,
    output: () => text,
    ended,
    stop: (signal = 'SIGTERM') => {
      child.kill(signal)
      return ended
    },
  }
}
