import type { Clock } from '../shared/clock.ts'
import { systemClock } from '../shared/clock.ts'
import type { ClusterAccess } from './access.ts'
import { jsonCodec } from './codec.ts'
import type { Codec } from './codec.ts'
import { Credentials } from './credentials.ts'
import type { Credential } from './credentials.ts'
import { timedOut } from './dial.ts'
import { ApiAnswerError, OwnEnd } from './errors.ts'
import { orAborted } from './linked-abort.ts'
import { RateLimit } from './rate-limit.ts'
import { statusError } from './status-error.ts'
import { DEFAULT_TRANSPORT_TIMING, Transport } from './transport.ts'
import type { TransportResponse, TransportTiming } from './transport.ts'

export interface ClientOptions {
  readonly access: ClusterAccess
  /** e.g. `switchback/0.1.0` */
  readonly userAgent: string
  /** Requests a second over all callers; 0 means 5, negative means no limit. */
  readonly qps?: number
  readonly burst?: number
  readonly clock?: Clock
  readonly codec?: Codec
  readonly timing?: Partial<ClientTiming>
  /** For HTTPS_PROXY and its kin; the default is the process's environment. */
  readonly env?: NodeJS.ProcessEnv
}

export interface ClientTiming extends TransportTiming {
  /** Longest wait for the header of an answer. */
  readonly headersTimeoutMs: number
  /** Longest pause within the body of an answer that should come in one piece. */
  readonly bodyIdleMs: number
  /** Age at which credential files are looked at again. */
  readonly credentialMaxAgeMs: number
  readonly execTimeoutMs: number
  /** See CredentialOptions. */
  readonly execMinIntervalMs: number
}

export const DEFAULT_CLIENT_TIMING: ClientTiming = {
  ...DEFAULT_TRANSPORT_TIMING,
  headersTimeoutMs: 30_000,
  bodyIdleMs: 30_000,
  credentialMaxAgeMs: 60_000,
  execTimeoutMs: 60_000,
  execMinIntervalMs: 10_000,
}

export type Query = Readonly<Record<string, string | number | boolean | undefined>>

export interface ApiRequest {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** e.g. `/api/v1/services`; without the server's prefix. */
  readonly path: string
  /** Undefined values are left out. */
  readonly query?: Query
  /** Sent as JSON. */
  readonly body?: unknown
  /** Default `application/json`; PATCH wants e.g. `application/merge-patch+json`. */
  readonly contentType?: string
  readonly accept?: string
  /** See TransportRequest; for watches. */
  readonly longLived?: boolean
  readonly headersTimeoutMs?: number
  readonly signal?: AbortSignal
}

const NEVER = new AbortController().signal
/** The largest answer read in one piece. */
const MAX_BODY = 1 << 30

/**
 * Speaks to one API server: connections, credentials, rate limit and errors in one place. Every failure is a
 * ProxyError with one message that says what to do (ApiConnectionError, ApiStatusError, ApiAnswerError), except an
 * abort, which rejects with the signal's reason. Close it when done.
 */
export class ApiClient {
  readonly access: ClusterAccess
  readonly codec: Codec
  readonly clock: Clock
  readonly #prefix: string
  readonly #userAgent: string
  readonly #timing: ClientTiming
  readonly #limit: RateLimit
  readonly #credentials: Credentials
  readonly #transport: Transport

  constructor(options: ClientOptions) {
    this.access = options.access
    this.codec = options.codec ?? jsonCodec
    this.clock = options.clock ?? systemClock
    this.#prefix = new URL(options.access.server).pathname.replace(/\/$/, '')
    this.#userAgent = options.userAgent
    this.#timing = { ...DEFAULT_CLIENT_TIMING, ...options.timing }
    this.#limit = new RateLimit(this.clock, options.qps ?? 0, options.burst ?? 0)
    this.#credentials = new Credentials(options.access, {
      clock: this.clock,
      maxAgeMs: this.#timing.credentialMaxAgeMs,
      execTimeoutMs: this.#timing.execTimeoutMs,
      execMinIntervalMs: this.#timing.execMinIntervalMs,
    })
    this.#transport = new Transport(options.access, this.clock, this.#timing, options.env ?? process.env)
  }

  /** GETs one object. */
  async get<T>(path: string, options: { query?: Query; signal?: AbortSignal } = {}): Promise<T> {
    return (await this.send({ path, ...options })) as T
  }

  /** Sends a request and gives the decoded answer; null if it has no body. */
  async send(request: ApiRequest): Promise<unknown> {
    const response = await this.open(request)
    const body = await this.#readAll(response)
    return body.length === 0 ? null : this.codec.decode(body)
  }

  /** Sends a request and gives the answer with its body still to be read; statuses from 400 on are errors. */
  async open(request: ApiRequest): Promise<TransportResponse> {
    const signal = request.signal ?? NEVER
    await this.#limit.take(signal)
    for (let attempt = 1; ; attempt++) {
      const credential = await orAborted(this.#credentials.current(), signal)
      const response = await this.#transport.request(
        credential,
        this.#toTransport(request, credential, signal),
      )
      if (response.status < 300) return response
      const body = await this.#readAll(response).catch(() => Buffer.alloc(0))
      if (response.status === 401 && attempt === 1 && this.#credentials.refused()) continue
      throw statusError(this.access, request, response, body)
    }
  }

  /**
   * The chunks of a body. A pause longer than `idleMs()`, asked anew after each chunk, ends it with `onIdle`'s error
   * (default: a timeout); leaving the loop early ends the answer.
   */
  async *chunks(
    response: TransportResponse,
    idleMs: () => number,
    onIdle: () => Error = () => timedOut(idleMs()),
  ): AsyncGenerator<Buffer> {
    let cancel = (): void => {}
    const arm = (): void => {
      cancel()
      cancel = this.clock.after(idleMs(), () => response.destroy(onIdle()))
    }
    arm()
    try {
      for await (const chunk of response.body) {
        yield chunk as Buffer
        arm()
      }
    } catch (error) {
      if (response.signal.aborted) throw response.signal.reason
      throw this.#transport.explain(error)
    } finally {
      cancel()
      if (!response.body.readableEnded) response.destroy(new OwnEnd('the answer is no longer wanted'))
    }
  }

  close(): void {
    this.#transport.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close()
  }

  #toTransport(
    request: ApiRequest,
    credential: Credential,
    signal: AbortSignal,
  ): Parameters<Transport['request']>[1] {
    const body = request.body === undefined ? null : Buffer.from(JSON.stringify(request.body))
    return {
      method: request.method ?? 'GET',
      path: `${this.#prefix}${request.path}${queryText(request.query)}`,
      headers: {
        accept: request.accept ?? this.codec.accept,
        'user-agent': this.#userAgent,
        ...(credential.authorization === null ? {} : { authorization: credential.authorization }),
        ...(body === null
          ? {}
          : {
              'content-type': request.contentType ?? 'application/json',
              'content-length': String(body.length),
            }),
        ...impersonationHeaders(this.access),
      },
      body,
      longLived: request.longLived ?? false,
      headersTimeoutMs: request.headersTimeoutMs ?? this.#timing.headersTimeoutMs,
      signal,
    }
  }

  async #readAll(response: TransportResponse): Promise<Buffer> {
    const parts: Buffer[] = []
    let size = 0
    for await (const chunk of this.chunks(response, () => this.#timing.bodyIdleMs)) {
      parts.push(chunk)
      size += chunk.length
      if (size > MAX_BODY) throw new ApiAnswerError('The answer is larger than 1 GiB.')
    }
    return Buffer.concat(parts, size)
  }
}

function queryText(query: Query | undefined): string {
  const params = new URLSearchParams()
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined) params.append(name, String(value))
  }
  const text = params.toString()
  return text === '' ? '' : `?${text}`
}

function impersonationHeaders(access: ClusterAccess): Record<string, string | readonly string[]> {
  const { impersonate } = access.user
  if (impersonate === null) return {}
  return {
    'impersonate-user': impersonate.user,
    ...(impersonate.uid === null ? {} : { 'impersonate-uid': impersonate.uid }),
    ...(impersonate.groups.length === 0 ? {} : { 'impersonate-group': impersonate.groups }),
  }
}
