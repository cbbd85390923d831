import * as http from 'node:http'
import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import type { Clock } from '../shared/clock.ts'
import type { ClusterAccess } from './access.ts'
import { codeOf, connectionError } from './connection-errors.ts'
import type { ConnectionSubject } from './connection-errors.ts'
import type { Credential } from './credentials.ts'
import { dial, timedOut, withoutPassword } from './dial.ts'
import type { Dialed, DialTarget } from './dial.ts'
import { forwardProxyFor } from './forward-proxy.ts'
import { Http2Connection } from './http2-connection.ts'
import { KeptConnections } from './kept-connections.ts'
import { OwnEnd } from './errors.ts'
import { LinkedAbort, orAborted } from './linked-abort.ts'

export interface TransportRequest {
  readonly method: string
  /** Path with the server's prefix and the query. */
  readonly path: string
  readonly headers: Readonly<Record<string, string | readonly string[]>>
  readonly body: Buffer | null
  /** For answers that stay open: on HTTP/1.1 they get a new connection of their own, never a kept one. */
  readonly longLived: boolean
  /** Longest wait for the header of the answer, the connection included. */
  readonly headersTimeoutMs: number
  readonly signal: AbortSignal
}

export interface TransportResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  readonly body: Readable
  readonly protocol: 'h2' | 'http/1.1'
  /** The request's own signal: when it aborts, the body ends with its reason. */
  readonly signal: AbortSignal
  /** Ends the answer early; whoever reads the body gets `reason`. */
  destroy(reason: Error): void
}

export interface TransportTiming {
  readonly dialTimeoutMs: number
  /** Idle time before TCP keep-alive probes (Linux then probes every second, ten times). */
  readonly tcpKeepAliveMs: number
  readonly pingEveryMs: number
  readonly pingTimeoutMs: number
}

export const DEFAULT_TRANSPORT_TIMING: TransportTiming = {
  dialTimeoutMs: 10_000,
  tcpKeepAliveMs: 15_000,
  pingEveryMs: 15_000,
  pingTimeoutMs: 15_000,
}

const SESSION_GONE = 'ERR_HTTP2_INVALID_SESSION'
/** A request that met a connection which the server had already given up; sending it again is safe. */
const STALE = new Set([SESSION_GONE, 'ERR_HTTP2_GOAWAY_SESSION', 'REFUSED_STREAM'])

/**
 * The connections to one API server: one HTTP/2 connection when the server offers it, otherwise HTTP/1.1 with
 * keep-alive. A changed client certificate or authority retires what was opened with the old one.
 */
export class Transport {
  readonly #target: DialTarget
  readonly #subject: ConnectionSubject
  readonly #clock: Clock
  readonly #timing: TransportTiming
  readonly #kept = new KeptConnections()
  readonly #closed = new AbortController()
  /** Requests whose answers are not read to their end. */
  readonly #live = new Set<LinkedAbort>()
  #identity = ''
  #http2: Http2Connection | null = null
  #opening: Promise<Dialed['protocol']> | null = null
  #spare: Socket[] = []
  #onlyHttp1: boolean

  constructor(access: ClusterAccess, clock: Clock, timing: TransportTiming, env: NodeJS.ProcessEnv) {
    const server = new URL(access.server)
    const proxy = forwardProxyFor(server, access.proxyUrl, env)
    this.#target = { server, proxy, ...access.tls }
    this.#subject = {
      server: access.server,
      source: access.source,
      via: proxy === null ? null : withoutPassword(proxy),
    }
    this.#clock = clock
    this.#timing = timing
    this.#onlyHttp1 = server.protocol === 'http:'
  }

  /** Sends one request. @throws ApiConnectionError, or the signal's reason */
  async request(credential: Credential, request: TransportRequest): Promise<TransportResponse> {
    this.#adopt(credential)
    const limit = new LinkedAbort(request.signal)
    this.#live.add(limit)
    const done = (): void => {
      limit.unlink()
      this.#live.delete(limit)
    }
    const cancel = this.#clock.after(request.headersTimeoutMs, () =>
      limit.abort(timedOut(request.headersTimeoutMs)),
    )
    try {
      const response = await this.#attempt(credential, request, limit.signal)
      response.body.once('close', done)
      response.body.on('error', () => {}) // told to whoever reads it; nobody may be reading yet
      return response
    } catch (error) {
      done()
      if (codeOf(error) === 'ETIMEDOUT') this.#dropIdle()
      if (request.signal.aborted) throw request.signal.reason
      throw this.explain(error)
    } finally {
      cancel()
    }
  }

  /** Turns a failure of a connection or of a body into one that says what to do. */
  explain(error: unknown): unknown {
    return connectionError(this.#subject, error)
  }

  /** Ends every connection. */
  close(): void {
    const reason = new OwnEnd('the client was closed')
    this.#closed.abort(reason)
    for (const request of this.#live) request.abort(reason)
    this.#http2?.destroy()
    this.#dropIdle()
  }

  async #attempt(
    credential: Credential,
    request: TransportRequest,
    signal: AbortSignal,
  ): Promise<TransportResponse> {
    try {
      return await this.#send(credential, request, signal)
    } catch (error) {
      if (signal.aborted || !isStale(error, request)) throw error
      return this.#send(credential, request, signal)
    }
  }

  async #send(
    credential: Credential,
    request: TransportRequest,
    signal: AbortSignal,
  ): Promise<TransportResponse> {
    signal.throwIfAborted()
    const protocol = await orAborted(this.#protocol(credential), signal)
    if (protocol === 'h2') return this.#overHttp2(request, signal)
    if (!request.longLived && this.#kept.hasIdle) return this.#sendHttp1(request, signal, null)
    const spare = this.#spare.pop()
    if (spare !== undefined && !spare.destroyed) return this.#sendHttp1(request, signal, spare)
    const dialed = await this.#dial(credential, signal)
    if (dialed.protocol === 'http/1.1') return this.#sendHttp1(request, signal, dialed.socket)
    this.#useHttp2(dialed.socket)
    return this.#overHttp2(request, signal)
  }

  #overHttp2(request: TransportRequest, signal: AbortSignal): Promise<TransportResponse> {
    if (this.#http2 === null) throw retired()
    return this.#http2.request(request, signal)
  }

  /** The protocol to speak next; opens the first connection if that is not known yet, once for all who ask. */
  #protocol(credential: Credential): Promise<Dialed['protocol']> {
    if (this.#http2?.usable === true) return Promise.resolve('h2')
    if (this.#onlyHttp1) return Promise.resolve('http/1.1')
    if (this.#opening === null) {
      const opening = this.#open(credential).finally(() => {
        if (this.#opening === opening) this.#opening = null
      })
      this.#opening = opening
    }
    return this.#opening
  }

  async #open(credential: Credential): Promise<Dialed['protocol']> {
    const identity = this.#identity
    const { socket, protocol } = await this.#dial(credential, this.#closed.signal)
    if (identity !== this.#identity) {
      socket.destroy()
      throw retired()
    }
    if (protocol === 'h2') {
      this.#useHttp2(socket)
    } else {
      this.#onlyHttp1 = true
      socket.on('error', () => {})
      this.#spare.push(socket)
    }
    return protocol
  }

  #dial(credential: Credential, signal: AbortSignal): Promise<Dialed> {
    return dial(this.#target, credential, {
      clock: this.#clock,
      timeoutMs: this.#timing.dialTimeoutMs,
      keepAliveMs: this.#timing.tcpKeepAliveMs,
      signal,
    })
  }

  #useHttp2(socket: Socket): void {
    this.#onlyHttp1 = false
    this.#http2 = new Http2Connection(this.#target.server, socket, { clock: this.#clock, ...this.#timing })
  }

  #sendHttp1(
    request: TransportRequest,
    signal: AbortSignal,
    socket: Socket | null,
  ): Promise<TransportResponse> {
    return new Promise((resolve, reject) => {
      const { method, path, longLived } = request
      const options = {
        method,
        path,
        headers: { ...request.headers, host: this.#target.server.host } as http.OutgoingHttpHeaders,
        host: this.#target.server.hostname,
        // Without an agent the connection ends with the answer, as it should for one that was opened for it.
        ...(longLived && socket !== null ? { createConnection: () => socket } : { agent: this.#kept }),
        ...(socket === null ? {} : { opened: socket }),
      }
      const req = http.request(options)
      let answer: http.IncomingMessage | null = null
      const onAbort = (): void => void (answer ?? req).destroy(signal.reason as Error)
      signal.addEventListener('abort', onAbort, { once: true })
      req.on('close', () => signal.removeEventListener('abort', onAbort))
      req.on('error', (error) => reject(signal.aborted ? (signal.reason as Error) : markReused(error, req)))
      req.on('response', (res) => {
        answer = res
        resolve({
          status: res.statusCode ?? 0,
          headers: res.headers,
          body: res,
          protocol: 'http/1.1',
          signal: request.signal,
          destroy: (reason) => void res.destroy(reason),
        })
      })
      req.end(request.body ?? undefined)
    })
  }

  /** Certificates belong to connections, not to requests: new ones need new connections. */
  #adopt(credential: Credential): void {
    const identity = JSON.stringify([credential.certificate, credential.key, credential.authority])
    if (identity === this.#identity) return
    this.#identity = identity
    this.#http2?.retire()
    this.#http2 = null
    this.#opening = null
    this.#dropIdle()
  }

  #dropIdle(): void {
    this.#kept.dropIdle()
    for (const socket of this.#spare) socket.destroy()
    this.#spare = []
  }
}

/** The connection was opened with credentials that were replaced meanwhile; one more try uses the new ones. */
function retired(): NodeJS.ErrnoException {
  return Object.assign(new Error('the connection was retired'), { code: SESSION_GONE })
}

function markReused(error: Error, request: http.ClientRequest): Error {
  return request.reusedSocket ? Object.assign(error, { reused: true }) : error
}

/** A kept connection that the server closed just as we used it; writes are not repeated, they may have happened. */
function isStale(error: unknown, request: TransportRequest): boolean {
  if (STALE.has(codeOf(error))) return true
  const reused = typeof error === 'object' && error !== null && 'reused' in error
  return reused && request.method === 'GET'
}
