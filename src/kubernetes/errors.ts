import { ProxyError } from '../shared/errors.ts'
import type { ErrorDetails } from '../shared/errors.ts'

/** The API server could not be reached, or the connection to it was lost. Trying again later may help. */
export class ApiConnectionError extends ProxyError {
  readonly server: string

  constructor(code: string, server: string, message: string, details: ErrorDetails = {}) {
    super(code, message, details)
    this.server = server
  }
}

/** The API server answered, with a failure: an HTTP status, or a Status object in a watch stream. */
export class ApiStatusError extends ProxyError {
  readonly status: number
  /** `reason` of the Status object, e.g. `Expired`; empty if the answer was none. */
  readonly reason: string
  /** What the server asked to wait before the next attempt; null if it did not say. */
  readonly retryAfterMs: number | null

  constructor(
    code: string,
    status: number,
    reason: string,
    message: string,
    options: ErrorDetails & { readonly retryAfterMs?: number | null } = {},
  ) {
    super(code, message, options)
    this.status = status
    this.reason = reason
    this.retryAfterMs = options.retryAfterMs ?? null
  }

  /** The version asked for is one that the server has not reached: it was restored from a backup, or is another one. */
  get isAheadOfServer(): boolean {
    return this.message.includes('Too large resource version')
  }

  /** The version asked for (or the continue token) is no longer known: list again. */
  get isExpired(): boolean {
    return this.status === 410 || this.reason === 'Expired' || this.reason === 'Gone'
  }
}

/** The API server answered something that is not what the API promises. */
export class ApiAnswerError extends ProxyError {
  constructor(message: string, details: ErrorDetails = {}) {
    super('API_BAD_ANSWER', message, details)
  }
}

/** Ends an answer that is no longer wanted; whoever reads it gets this very error and knows. */
export class OwnEnd extends Error {
  constructor(why: string) {
    super(`ended from this side: ${why}`)
    this.name = 'OwnEnd'
  }
}

/** The Status object (meta/v1) as far as it is used. */
export interface Status {
  readonly kind?: string
  readonly message?: string
  readonly reason?: string
  readonly code?: number
  readonly details?: {
    readonly retryAfterSeconds?: number
    readonly causes?: readonly { readonly reason?: string; readonly message?: string }[]
  }
}
