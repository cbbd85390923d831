import type { ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { createInterface } from 'node:readline'
import { ProxyError } from '../../shared/errors.ts'
import { spawnIn } from '../namespaces.ts'
import type { FlowResult, ListenSocket, SendOrder, TrafficAnswer, TrafficRequest } from './protocol.ts'

/** The compiled program, also when this module itself runs from source (in tests). */
const PROGRAM = import.meta.url.endsWith('.ts') ? '../../../dist/lab/packets/traffic.js' : './traffic.js'

type Order<T> = T extends { readonly id: number } ? Omit<T, 'id'> : never

/** The traffic program of one namespace, for as long as it is needed. */
export class TrafficProcess implements AsyncDisposable {
  readonly #child: ChildProcess
  readonly #namespace: string
  readonly #pending = new Map<number, (answer: TrafficAnswer) => void>()
  #nextId = 1

  constructor(namespace: string) {
    const program = fileURLToPath(new URL(PROGRAM, import.meta.url))
    this.#namespace = namespace
    this.#child = spawnIn(namespace, [process.execPath, program], { stdio: ['pipe', 'pipe', 'inherit'] })
    const lines = createInterface({ input: this.#child.stdout! })
    lines.on('line', (line) => {
      const answer = JSON.parse(line) as TrafficAnswer
      this.#pending.get(answer.id)?.(answer)
      this.#pending.delete(answer.id)
    })
    this.#child.stdin!.on('error', () => undefined) // reported by `exit`
    this.#child.once('exit', () => this.#failAll())
    this.#child.once('error', () => this.#failAll())
  }

  async listen(sockets: readonly ListenSocket[]): Promise<void> {
    if (sockets.length > 0) await this.#ask({ do: 'listen', sockets })
  }

  async send(order: SendOrder): Promise<readonly FlowResult[]> {
    const answer = await this.#ask({ do: 'send', ...order })
    return answer.flows ?? []
  }

  /** The body that a GET from inside the namespace brings; empty when there is no answer. */
  async get(url: string, timeoutMs: number): Promise<string> {
    return (await this.#ask({ do: 'get', url, timeoutMs })).body ?? ''
  }

  async #ask(order: Order<TrafficRequest>): Promise<TrafficAnswer & { readonly ok: true }> {
    const id = this.#nextId++
    const answered = new Promise<TrafficAnswer>((resolve) => this.#pending.set(id, resolve))
    if (this.#child.exitCode !== null) this.#failAll()
    else this.#child.stdin!.write(`${JSON.stringify({ id, ...order })}\n`)
    const answer = await answered
    if (answer.ok) return answer
    throw new ProxyError(
      'LAB_TRAFFIC',
      `The traffic program in namespace ${this.#namespace} could not ${order.do}: ${answer.error}`,
    )
  }

  #failAll(): void {
    for (const [id, resolve] of this.#pending) resolve({ id, ok: false, error: 'the program has ended' })
    this.#pending.clear()
  }

  /** Ends the program and waits for its end. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const ended = new Promise((resolve) => this.#child.once('exit', resolve))
    this.#child.stdin!.end()
    await ended
  }
}
