import type { ServerResponse } from 'node:http'
import type { Change, ChangeType } from './entry.ts'
import { Entry } from './entry.ts'
import type { ApiRequest } from './request.ts'
import { apiVersionOf } from './resources.ts'
import type { View } from './respond.ts'
import { partial, tableVersionOf, viewOf } from './respond.ts'
import type { Matcher } from './selectors.ts'
import { matcherOf } from './selectors.ts'
import type { FailureStatus } from './status.ts'
import { Causes, expired, invalid } from './status.ts'
import type { Store } from './store.ts'
import { parseRevision } from './list.ts'
import { tableOf } from './table.ts'

export interface WatchOptions {
  /** Milliseconds between bookmarks for clients that ask for them. */
  readonly bookmarkIntervalMs: number
  /** How a watch from a forgotten version is told so: in the stream after a 200, or by a 410 response. */
  readonly expiredWatch: 'stream' | 'status'
  /** Seconds after which a watch without timeoutSeconds ends. */
  readonly defaultTimeoutSeconds: number
}

const MAX_UNSENT_BYTES = 256 * 1024 * 1024
const INITIAL_EVENTS_END = 'k8s.io/initial-events-end'

/** Answers a watch: what is asked for from the past, then everything as it happens, until it times out. */
export function startWatch(
  store: Store,
  request: ApiRequest,
  response: ServerResponse,
  options: WatchOptions,
): void {
  const plan = planWatch(store, request)
  const stream = new WatchStream(store, request, response)
  const past = pastOf(store, request, plan)
  if (past === null) {
    const failure = expired(`too old resource version: ${plan.revision} (${store.revision})`)
    if (options.expiredWatch === 'status') throw failure
    stream.open()
    stream.fail(failure.status)
    return
  }
  stream.open()
  stream.sendPast(past, plan.endMark)
  stream.follow(options, plan)
}

interface WatchPlan {
  /** Start after this revision; null = with a synthetic ADDED for everything there is. */
  readonly revision: number | null
  /** Whether to begin with everything there is. */
  readonly initial: boolean
  /** Whether the end of the initial events is marked by a bookmark. */
  readonly endMark: boolean
  readonly bookmarks: boolean
  readonly timeoutSeconds: number | null
}

function planWatch(store: Store, { query, target }: ApiRequest): WatchPlan {
  const wanted = query.get('resourceVersion') ?? ''
  const sendInitial = query.get('sendInitialEvents')
  const bookmarks = isTrue(query.get('allowWatchBookmarks'))
  const timeout = Number(query.get('timeoutSeconds') ?? '')
  const common = { bookmarks, timeoutSeconds: timeout > 0 ? timeout : null }
  if (sendInitial !== null) {
    checkInitialEvents(target.type, query)
    const initial = isTrue(sendInitial)
    const from = initial || wanted === '' || wanted === '0' ? store.revision : parseRevision(wanted)
    return { ...common, revision: from, initial, endMark: initial && bookmarks }
  }
  const initial = wanted === '' || wanted === '0'
  return { ...common, revision: initial ? null : parseRevision(wanted), initial, endMark: false }
}

function checkInitialEvents(type: ApiRequest['target']['type'], query: URLSearchParams): void {
  if (query.get('resourceVersionMatch') === 'NotOlderThan') return
  const causes = new Causes()
  causes.forbidden(
    'resourceVersionMatch',
    'sendInitialEvents requires setting resourceVersionMatch to NotOlderThan',
  )
  throw invalid({ ...type, group: 'meta.k8s.io', kind: 'ListOptions' }, '', causes.all)
}

/** The changes to send first, or null when they are forgotten. */
function pastOf(store: Store, { target }: ApiRequest, plan: WatchPlan): readonly Change[] | null {
  const collection = store.collection(target.type)
  if (!plan.initial) return collection.changesSince(plan.revision ?? 0)
  return collection
    .sorted(target.namespace)
    .map((entry) => ({ type: 'ADDED', revision: entry.revision, before: null, after: entry }) as const)
}

function isTrue(value: string | null): boolean {
  return value === 'true' || value === '1'
}

/** One client's open watch. */
class WatchStream {
  readonly #store: Store
  readonly #request: ApiRequest
  readonly #response: ServerResponse
  readonly #view: View
  readonly #matcher: Matcher | null
  #stops: (() => void)[] = []

  constructor(store: Store, request: ApiRequest, response: ServerResponse) {
    this.#store = store
    this.#request = request
    this.#response = response
    this.#view = viewOf(request.accept)
    this.#matcher = matcherOf(request.target.type, request.query)
  }

  open(): void {
    this.#response.writeHead(200, {
      'content-type': 'application/json',
      'cache-control': 'no-cache, private',
    })
    this.#response.flushHeaders()
  }

  sendPast(changes: readonly Change[], endMark: boolean): void {
    const frames = changes.map((change) => this.#frameOf(change)).filter((frame) => frame !== null)
    if (endMark) frames.push(this.#bookmark({ [INITIAL_EVENTS_END]: 'true' }))
    if (frames.length > 0) this.#response.write(Buffer.concat(frames))
  }

  follow(options: WatchOptions, plan: WatchPlan): void {
    const { clock } = this.#store
    this.#stops.push(
      this.#store.collection(this.#request.target.type).listen((change) => {
        if (plan.revision !== null && change.revision <= plan.revision) return
        const frame = this.#frameOf(change)
        if (frame !== null) this.#write(frame)
      }),
      this.#store.onExpire(() =>
        this.fail(expired('The resourceVersion for the provided watch is too old.').status),
      ),
    )
    const seconds = plan.timeoutSeconds ?? options.defaultTimeoutSeconds
    this.#stops.push(
      clock.after(seconds * 1000, () => {
        if (plan.bookmarks) this.#write(this.#bookmark())
        this.#end()
      }),
    )
    if (plan.bookmarks) this.#bookmarkEvery(options.bookmarkIntervalMs)
    this.#response.on('close', () => this.#stop())
  }

  /** Ends the stream with an ERROR event. */
  fail(status: FailureStatus): void {
    this.#write(Buffer.from(`${JSON.stringify({ type: 'ERROR', object: status })}\n`))
    this.#end()
  }

  #bookmarkEvery(intervalMs: number): void {
    let cancel = (): void => {}
    const schedule = (): void => {
      cancel = this.#store.clock.after(intervalMs, () => {
        this.#write(this.#bookmark())
        schedule()
      })
    }
    schedule()
    this.#stops.push(() => cancel())
  }

  /** What this client sees of a change: crossing the selector turns MODIFIED into ADDED or DELETED. */
  #frameOf(change: Change): Buffer | null {
    const { namespace, name } = this.#request.target
    const { metadata } = change.after.object
    if (namespace !== '' && metadata.namespace !== namespace) return null
    if (name !== null && metadata.name !== name) return null
    const type = this.#matcher === null ? change.type : transition(change, this.#matcher)
    if (type === null) return null
    return this.#encode(
      type,
      type === 'DELETED' && change.type !== 'DELETED' ? lastSelected(change) : change.after,
    )
  }

  #encode(event: ChangeType, entry: Entry): Buffer {
    const { target, accept, query } = this.#request
    if (this.#view === 'full') return entry.as(target.type).frame(event)
    const object =
      this.#view === 'metadata'
        ? partial(entry.as(target.type).object)
        : tableOf(
            target.type,
            [entry],
            { resourceVersion: entry.object.metadata.resourceVersion },
            {
              now: this.#store.clock.now(),
              version: tableVersionOf(accept),
              includeObject: query.get('includeObject') ?? 'Metadata',
            },
          )
    return Buffer.from(`${JSON.stringify({ type: event, object })}\n`)
  }

  #bookmark(annotations?: Readonly<Record<string, string>>): Buffer {
    const { type } = this.#request.target
    const metadata = {
      resourceVersion: String(this.#store.revision),
      creationTimestamp: null,
      ...(annotations === undefined ? {} : { annotations }),
    }
    const object =
      this.#view === 'table'
        ? tableOf(type, [], metadata, {
            now: 0,
            version: tableVersionOf(this.#request.accept),
            includeObject: 'None',
          })
        : { kind: type.kind, apiVersion: apiVersionOf(type), metadata }
    return Buffer.from(`${JSON.stringify({ type: 'BOOKMARK', object })}\n`)
  }

  /** A client that does not read is cut off rather than kept in memory without end. */
  #write(frame: Buffer): void {
    this.#response.write(frame)
    if (this.#response.writableLength > MAX_UNSENT_BYTES) this.#response.destroy()
  }

  #end(): void {
    this.#stop()
    this.#response.end()
  }

  #stop(): void {
    for (const stop of this.#stops) stop()
    this.#stops = []
  }
}

/** What a client last saw of an object that left its selection, at the revision of leaving. */
function lastSelected({ before, after }: Change): Entry {
  const object = before!.object
  const metadata = { ...object.metadata, resourceVersion: String(after.revision) }
  return new Entry(after.key, { ...object, metadata }, after.revision)
}

function transition({ type, before, after }: Change, matches: Matcher): ChangeType | null {
  const was = before !== null && matches(before.object)
  const is = type !== 'DELETED' && matches(after.object)
  if (type === 'DELETED') return was || matches(after.object) ? 'DELETED' : null
  if (is) return was ? 'MODIFIED' : 'ADDED'
  return was ? 'DELETED' : null
}
