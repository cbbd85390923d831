import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { createServer } from 'node:http'
import type { ListenOptions } from 'node:net'
import type { Clock } from '../shared/clock.ts'
import { ProxyError } from '../shared/errors.ts'

export interface ListenAddress {
  readonly host: string
  readonly port: number
}

export interface HttpAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** Answers a GET for a path (without query). */
export type HttpHandler = (path: string) => HttpAnswer | Promise<HttpAnswer>

/** Reads `host:port` or `[host]:port`; null if the port is 0 or there is no address to serve. */
export function parseListenAddress(text: string): ListenAddress | null {
  const colon = text.lastIndexOf(':')
  const port = Number(text.slice(colon + 1))
  const host = text.slice(0, colon).replace(/^\[|\]$/g, '')
  return text === '' || colon < 0 ? null : { host, port }
}

/** One HTTP server on one address. */
export class Listener implements AsyncDisposable {
  readonly #server: Server

  private constructor(server: Server) {
    this.#server = server
  }

  /**
   * Rejects with a ProxyError PORT_IN_USE or BIND_FAILED that names the address and what to do. An address serves its
   * own family alone; with `dualStack`, an unspecified address serves both, whichever family it is written in, as Go's
   * net.Listen does and load balancers therefore expect of kube-proxy.
   */
  static async open(address: ListenAddress, handler: HttpHandler, dualStack = false): Promise<Listener> {
    const server = createServer((request, response) => void answer(handler, request, response))
    server.keepAliveTimeout = 60_000
    const both = dualStack && (address.host === '0.0.0.0' || address.host === '::')
    try {
      await listen(server, { ...address, ...(both ? { host: '::' } : {}), ipv6Only: !both })
    } catch (error) {
      const { code = '' } = error as NodeJS.ErrnoException
      if (!both || !NO_IPV6.has(code)) throw bindError(address, error as NodeJS.ErrnoException)
      await listen(server, { ...address, host: '0.0.0.0' }).catch((second: NodeJS.ErrnoException) => {
        throw bindError(address, second)
      })
    }
    server.unref()
    return new Listener(server)
  }

  /** The port it got, for an address with port 0. */
  get port(): number {
    const address = this.#server.address()
    return typeof address === 'object' && address !== null ? address.port : 0
  }

  /** Closes the listening socket and every open connection: nobody who kept one alive gets an answer any more. */
  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    this.#server.closeAllConnections()
    await closed
  }
}

/**
 * A server that must not end the agent when its port is taken: tries again every few seconds until it is disposed.
 * `onFailure` is told of the first failure and of every change of it.
 */
export class PatientListener implements AsyncDisposable {
  readonly #open: () => Promise<Listener>
  readonly #clock: Clock
  readonly #onFailure: (error: Error) => void
  #listener: Listener | null = null
  #closed = false
  #lastMessage = ''
  #cancel: (() => void) | null = null
  #attempt: Promise<void> = Promise.resolve()

  constructor(open: () => Promise<Listener>, clock: Clock, onFailure: (error: Error) => void) {
    this.#open = open
    this.#clock = clock
    this.#onFailure = onFailure
  }

  /** Tries once; resolves to whether it serves now. Further tries follow by themselves. */
  async start(): Promise<boolean> {
    this.#attempt = this.#try()
    await this.#attempt
    return this.#listener !== null
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true
    this.#cancel?.()
    await this.#attempt
    await this.#listener?.[Symbol.asyncDispose]()
    this.#listener = null
  }

  async #try(): Promise<void> {
    try {
      this.#listener = await this.#open()
    } catch (error) {
      const failure = error instanceof Error ? error : new Error(String(error))
      if (failure.message !== this.#lastMessage) this.#onFailure(failure)
      this.#lastMessage = failure.message
      if (!this.#closed) this.#cancel = this.#clock.after(RETRY_MS, () => void this.start())
    }
  }
}

const RETRY_MS = 5000

/** What listening on an IPv6 address gives where the kernel has no IPv6. */
const NO_IPV6: ReadonlySet<string> = new Set(['EAFNOSUPPORT', 'EADDRNOTAVAIL'])

function listen(server: Server, options: ListenOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(options, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

async function answer(
  handler: HttpHandler,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    response.writeHead(405, { Allow: 'GET, HEAD' }).end()
    return
  }
  try {
    const { status, headers, body } = await handler((request.url ?? '/').split('?')[0]!)
    response.writeHead(status, { ...headers, 'Content-Length': String(Buffer.byteLength(body)) })
    response.end(request.method === 'HEAD' ? undefined : body)
  } catch (error) {
    response.writeHead(500, { 'Content-Type': 'text/plain' }).end(`${String(error)}\n`)
  }
}

function bindError({ host, port }: ListenAddress, error: NodeJS.ErrnoException): ProxyError {
  const where = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
  if (error.code === 'EADDRINUSE') {
    const fix = `See who holds it with "ss -ltnp sport = :${port}", and stop that program or choose another address`
    return new ProxyError('PORT_IN_USE', `cannot listen on ${where}: the port is in use. ${fix}`, {
      cause: error,
    })
  }
  return new ProxyError(
    'BIND_FAILED',
    `cannot listen on ${where}: ${error.code ?? error.message}. The address must be one of this node's`,
    { cause: error },
  )
}
