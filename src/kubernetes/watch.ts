import type { ApiClient, Query } from './client.ts'
import type { Status } from './errors.ts'
import type { ObjectMeta } from './objects.ts'

export interface WatchOptions {
  readonly client: ApiClient
  readonly path: string
  /** Selectors. */
  readonly query: Query
  /** Version to start after; null asks for the present state first (streaming list, KEP-3157). */
  readonly from: string | null
  readonly timeoutSeconds: number
  readonly headersTimeoutMs: number
  readonly signal: AbortSignal
}

/** Longest event: etcd holds objects up to about 1.5 MiB. */
const MAX_EVENT_BYTES = 16 << 20

export type WatchEvent =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly object: unknown; readonly version: string }
  /** `initialEventsEnd`: what came so far is the complete present state. */
  | { readonly type: 'BOOKMARK'; readonly version: string; readonly initialEventsEnd: boolean }
  | { readonly type: 'ERROR'; readonly status: Status }
  /** Something that is no event, or one without a version to resume from. */
  | { readonly type: 'UNDECODABLE'; readonly error: Error; readonly excerpt: string }

/** A watch that the server has accepted. */
export interface OpenWatch {
  readonly protocol: 'h2' | 'http/1.1'
  /** The events as they come, those of one chunk at once; ends when the server ends the watch. */
  batches(idleMs: () => number, onIdle: () => Error): AsyncGenerator<readonly WatchEvent[]>
  /** Ends it; whoever reads gets `reason`. */
  end(reason: Error): void
}

/** Opens a watch. @throws ApiStatusError (410: the version is too old), ApiConnectionError */
export async function openWatch(options: WatchOptions): Promise<OpenWatch> {
  const { client, path, query, from, timeoutSeconds, signal } = options
  const response = await client.open({
    path,
    query: {
      ...query,
      watch: true,
      allowWatchBookmarks: true,
      timeoutSeconds,
      ...(from === null
        ? { sendInitialEvents: true, resourceVersionMatch: 'NotOlderThan' }
        : { resourceVersion: from }),
    },
    longLived: true,
    headersTimeoutMs: options.headersTimeoutMs,
    signal,
  })
  return {
    protocol: response.protocol,
    end: (reason) => response.destroy(reason),
    async *batches(idleMs, onIdle) {
      const splitter = client.codec.frames(MAX_EVENT_BYTES)
      for await (const chunk of client.chunks(response, idleMs, onIdle)) {
        const batch: WatchEvent[] = []
        for (const frame of splitter.push(chunk)) batch.push(readEvent(client, frame))
        yield batch
      }
    },
  }
}

function readEvent(client: ApiClient, frame: Buffer): WatchEvent {
  try {
    return judge(client.codec.decodeFrame(frame))
  } catch (error) {
    const excerpt = frame.subarray(0, 200).toString('utf8')
    return { type: 'UNDECODABLE', error: error instanceof Error ? error : new Error(String(error)), excerpt }
  }
}

function judge(event: unknown): WatchEvent {
  if (typeof event !== 'object' || event === null) throw new Error('an event must be an object')
  const { type, object } = event as { type?: unknown; object?: unknown }
  if (type === 'ERROR') return { type, status: (object ?? {}) as Status }
  const metadata = (object as { metadata?: ObjectMeta } | null | undefined)?.metadata
  const version = metadata?.resourceVersion
  if (typeof version !== 'string' || version === '')
    throw new Error('an event without metadata.resourceVersion')
  if (type === 'BOOKMARK') {
    const end = metadata?.annotations?.['k8s.io/initial-events-end'] === 'true'
    return { type, version, initialEventsEnd: end }
  }
  if (type === 'ADDED' || type === 'MODIFIED' || type === 'DELETED') return { type, object, version }
  throw new Error(`an event of unknown type ${JSON.stringify(type)}`)
}
