import type { Server } from 'node:net'
import { connect, createServer } from 'node:net'
import { ProxyError } from '../shared/errors.ts'

/** An abstract socket belongs to the network namespace, as the rules do, and goes with its process. */
const LOCK_NAME = '\0switchback-agent'

const ANSWER_TIMEOUT_MS = 1000

/** Held by the one agent of this network namespace. */
export class AgentLock implements AsyncDisposable {
  readonly #server: Server

  private constructor(server: Server) {
    this.#server = server
  }

  /** Rejects with SECOND_AGENT, naming the other's process id, if another agent holds the lock. */
  static async take(name = LOCK_NAME): Promise<AgentLock> {
    const server = createServer((socket) => {
      socket.on('error', () => {})
      socket.end(`${process.pid}\n`)
    })
    server.unref()
    try {
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject)
        server.listen(name, resolve)
      })
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
      const pid = await holderOf(name)
      const who = pid === null ? 'another Switchback agent' : `another Switchback agent (process ${pid})`
      throw new ProxyError(
        'SECOND_AGENT',
        `${who} already runs in this network namespace, and two would undo each other's rules. ` +
          `Nothing was changed. Stop the first one${pid === null ? '' : ` ("kill ${pid}" ends it and leaves its rules working)`}, or leave it to its work.`,
        { cause: error },
      )
    }
    return new AgentLock(server)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await new Promise<void>((resolve) => this.#server.close(() => resolve()))
  }
}

/** The process id that the lock's holder tells; null if it does not answer in time. */
function holderOf(name: string): Promise<number | null> {
  return new Promise((resolve) => {
    let text = ''
    const socket = connect(name)
    socket.setTimeout(ANSWER_TIMEOUT_MS, () => socket.destroy())
    socket.on('data', (chunk) => (text += chunk.toString()))
    socket.on('error', () => {})
    socket.on('close', () => resolve(/^\d+\n$/.test(text) ? Number(text) : null))
  })
}
