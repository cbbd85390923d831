import type { Clock } from '../shared/clock.ts'
import type { ProxyError } from '../shared/errors.ts'
import type { ApiClient } from './client.ts'
import type { Log } from './log.ts'
import type { ReflectorSink } from './mirror.ts'
import type { ObjectMeta } from './objects.ts'

export interface ReflectorOptions<T> {
  readonly client: ApiClient
  /** Collection, e.g. `/api/v1/services` or `/apis/discovery.k8s.io/v1/endpointslices`. */
  readonly path: string
  readonly labelSelector?: string
  readonly fieldSelector?: string
  /**
   * Reduces an object, as it arrives, to what is used; nothing else of it is kept. Throws if the object cannot be
   * used, null if it is not wanted (then it counts as absent).
   */
  readonly decode: (object: unknown) => T | null
  /** Default `namespace/name`. */
  readonly keyOf?: (metadata: ObjectMeta) => string
  readonly sink: ReflectorSink<T>
  readonly log: Log
  /** Default: the client's. */
  readonly clock?: Clock
  /** Ends {@link Reflector.run}. */
  readonly signal: AbortSignal
  /** Called once, after the first complete list is in the sink. */
  readonly onSynced?: () => void
  /** The server may not have this kind of object: 404 counts as none, and is asked again later. Default false. */
  readonly optional?: boolean
  /** False lists in pages from the start. Default true. */
  readonly streamingList?: boolean
  readonly timing?: Partial<ReflectorTiming>
  /** 0 ≤ x < 1, for jitter; default Math.random. */
  readonly random?: () => number
}

/** Milliseconds unless said otherwise. */
export interface ReflectorTiming {
  readonly backoffStartMs: number
  readonly backoffMaxMs: number
  /** Going well for this long forgets earlier failures. */
  readonly backoffResetMs: number
  /**
   * On HTTP/1.1 a watch on which nothing came for so long is replaced by a new one, on a new connection, from the
   * last version: the server proves by answering that it is there, and sends what the old connection may have lost.
   */
  readonly quietHttp1Ms: number
  /** The same for HTTP/2, whose connection is proven by PING already: this guards against gateways that answer it. */
  readonly quietHttp2Ms: number
  /** Longest wait for the server to accept a watch. */
  readonly watchHeadersMs: number
  /** Longest pause in a streaming list; then the server is taken not to know of its end mark. */
  readonly initialIdleMs: number
  /** When streaming lists are tried again after their end mark did not come. */
  readonly streamingRetryMs: number
  /** A watch that the server ends sooner than this counts as failed. */
  readonly shortWatchMs: number
  /** Shortest and longest `timeoutSeconds` of a watch. */
  readonly watchSeconds: readonly [number, number]
  readonly listIdleMs: number
  readonly pageSize: number
  /** When an optional kind is asked for again. */
  readonly missingRetryMs: number
}

/**
 * A server that vanished is noticed within quietHttp1Ms + watchHeadersMs = 40 s on HTTP/1.1 and within 30 s (two
 * PING periods, see TransportTiming) on HTTP/2. A real API server sends a bookmark about every minute.
 */
export const DEFAULT_REFLECTOR_TIMING: ReflectorTiming = {
  backoffStartMs: 800,
  backoffMaxMs: 30_000,
  backoffResetMs: 60_000,
  quietHttp1Ms: 25_000,
  quietHttp2Ms: 180_000,
  watchHeadersMs: 15_000,
  initialIdleMs: 15_000,
  streamingRetryMs: 600_000,
  shortWatchMs: 10_000,
  watchSeconds: [300, 600],
  listIdleMs: 30_000,
  pageSize: 500,
  missingRetryMs: 600_000,
}

/** For metrics and health; a snapshot. */
export interface ReflectorStats {
  /** The first complete list is in the sink. */
  readonly synced: boolean
  readonly items: number
  /** When the server last proved to be in step (event, bookmark, accepted watch or complete list), ms since the epoch. */
  readonly lastEventAt: number | null
  readonly events: number
  readonly bookmarks: number
  /** Complete lists after the first. */
  readonly relists: number
  /** Watches that the server accepted. */
  readonly watches: number
  readonly listFailures: number
  /** Watches refused, broken, ended by an error or ended at once. */
  readonly watchFailures: number
  /** HTTP/1.1 watches replaced because nothing came. */
  readonly quietReplacements: number
  /** Events and objects that could not be decoded, ever. */
  readonly undecodable: number
  /** Keys left out, or kept in an older form, because their last version does not decode. */
  readonly badKeys: readonly string[]
  /** Why the state may be stale now; null while a watch is in step. */
  readonly failure: ProxyError | Error | null
  /** Version of the state; null before the first list and while a relist is due. */
  readonly resourceVersion: string | null
}
