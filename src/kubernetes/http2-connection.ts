import * as http2 from 'node:http2'
import type { Socket } from 'node:net'
import type { Clock } from '../shared/clock.ts'
import { timedOut } from './dial.ts'
import type { TransportRequest, TransportResponse } from './transport.ts'

export interface Http2Options {
  readonly clock: Clock
  /** Time between PINGs. */
  readonly pingEveryMs: number
  /** A PING without answer for this long ends the connection and everything on it. */
  readonly pingTimeoutMs: number
}

/** Large windows: a list of ten thousand objects must not wait for a window update every 64 KiB. */
const STREAM_WINDOW = 4 << 20
const CONNECTION_WINDOW = 16 << 20

/** One HTTP/2 connection, shared by all requests, and proven alive by PING as long as it is open. */
export class Http2Connection {
  readonly #session: http2.ClientHttp2Session
  readonly #options: Http2Options
  readonly #origin: URL
  #cancelTimer: () => void = () => {}

  constructor(origin: URL, socket: Socket, options: Http2Options) {
    this.#origin = origin
    this.#options = options
    this.#session = http2.connect(origin, {
      createConnection: () => socket,
      settings: { enablePush: false, initialWindowSize: STREAM_WINDOW },
    })
    this.#session.on('error', () => {}) // every request on it gets the error too
    this.#session.on('connect', () => this.#session.setLocalWindowSize(CONNECTION_WINDOW))
    this.#session.on('close', () => this.#cancelTimer())
    this.#schedulePing()
  }

  /** False once it is closed, closing (GOAWAY) or found dead. */
  get usable(): boolean {
    return !this.#session.closed && !this.#session.destroyed
  }

  /** Lets the requests that are under way finish, and takes no new ones. */
  retire(): void {
    if (this.usable) this.#session.close()
  }

  /** Ends it and everything on it. */
  destroy(): void {
    this.#cancelTimer()
    this.#session.destroy()
  }

  /** Sends a request; resolves when the header of the answer is there. */
  request(request: TransportRequest, signal: AbortSignal): Promise<TransportResponse> {
    return new Promise((resolve, reject) => {
      const stream = this.#session.request(
        {
          ...request.headers,
          ':method': request.method,
          ':path': request.path,
          ':scheme': this.#origin.protocol.slice(0, -1),
          ':authority': this.#origin.host,
        },
        { endStream: request.body === null },
      )
      const end = (reason: Error): void => {
        stream.close(http2.constants.NGHTTP2_CANCEL)
        stream.destroy(reason)
      }
      const onAbort = (): void => end(signal.reason as Error)
      signal.addEventListener('abort', onAbort, { once: true })
      stream.on('error', (error) => reject(wasRefused(stream.rstCode) ? closedEarly(stream.rstCode) : error))
      stream.on('close', () => {
        signal.removeEventListener('abort', onAbort)
        reject(closedEarly(stream.rstCode))
      })
      stream.on('response', (headers) => {
        resolve({
          status: Number(headers[':status']),
          headers: headers as Record<string, string | string[] | undefined>,
          body: stream,
          protocol: 'h2',
          signal: request.signal,
          destroy: end,
        })
      })
      if (request.body !== null) stream.end(request.body)
    })
  }

  #schedulePing(): void {
    this.#cancelTimer = this.#options.clock.after(this.#options.pingEveryMs, () => this.#ping())
  }

  #ping(): void {
    if (this.#session.destroyed) return
    let answered = false
    const { clock, pingTimeoutMs } = this.#options
    this.#cancelTimer = clock.after(pingTimeoutMs, () => {
      // After a long pause of this process the answer may be waiting to be read: look at the socket once more.
      setImmediate(() => {
        if (!answered) this.#session.destroy(timedOut(pingTimeoutMs))
      })
    })
    this.#session.ping((error) => {
      answered = true
      this.#cancelTimer()
      if (error === null && !this.#session.destroyed) this.#schedulePing()
    })
  }
}

/** The server did not look at it at all: it is safe to send again (RFC 9113 section 8.7). */
function wasRefused(rstCode: number | undefined): boolean {
  return rstCode === http2.constants.NGHTTP2_REFUSED_STREAM
}

function closedEarly(rstCode: number | undefined): NodeJS.ErrnoException {
  const code = wasRefused(rstCode) ? 'REFUSED_STREAM' : 'ECONNRESET'
  return Object.assign(new Error('the stream was closed before its answer'), { code })
}
