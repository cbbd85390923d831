import type { IncomingMessage, ServerResponse } from 'node:http'

type Request = IncomingMessage
type Response = ServerResponse

export interface FakeObject {
  readonly metadata: { readonly namespace: string; readonly name: string; readonly resourceVersion: string }
  readonly value: unknown
}

interface HistoryEntry {
  readonly version: number
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'
  readonly object: FakeObject
}

interface Watcher {
  readonly response: Response
  sent: number
}

/** One request that reached the server. */
export interface Seen {
  readonly at: number
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: Request['headers']
}

/**
 * One collection of an API server, for tests of the client: lists in pages, streaming lists, watches with history and
 * compaction. Every request can be answered by the test instead ({@link intercept}).
 */
export class FakeCollection {
  readonly seen: Seen[] = []
  /** Answers a request itself and returns true, or leaves it to the collection. */
  intercept: (seen: Seen, response: Response) => boolean = () => false
  streamingLists = true
  /** So many of the next events reach their watchers as rubbish. */
  garbled = 0
  /** Sends the end mark of streaming lists. */
  endMarks = true
  #version = 100
  #compactedTo = 0
  #objects = new Map<string, FakeObject>()
  #history: HistoryEntry[] = []
  #watchers = new Set<Watcher>()
  #continues = new Map<string, { readonly version: number; readonly rest: readonly FakeObject[] }>()

  get version(): number {
    return this.#version
  }

  get watchers(): number {
    return this.#watchers.size
  }

  /** What a client in step must have: key → value. */
  get state(): ReadonlyMap<string, unknown> {
    return new Map([...this.#objects].map(([key, object]) => [key, object.value]))
  }

  set(name: string, value: unknown, namespace = 'default'): void {
    const key = `${namespace}/${name}`
    this.#version++
    const object = { metadata: { namespace, name, resourceVersion: String(this.#version) }, value }
    const type = this.#objects.has(key) ? 'MODIFIED' : 'ADDED'
    this.#objects.set(key, object)
    this.#record({ version: this.#version, type, object })
  }

  delete(name: string, namespace = 'default'): void {
    const key = `${namespace}/${name}`
    const object = this.#objects.get(key)
    if (object === undefined) return
    this.#version++
    this.#objects.delete(key)
    const metadata = { ...object.metadata, resourceVersion: String(this.#version) }
    this.#record({ version: this.#version, type: 'DELETED', object: { ...object, metadata } })
  }

  /** Forgets the history: watches from older versions get 410, continue tokens too. */
  compact(): void {
    this.#compactedTo = this.#version
    this.#history = []
    this.#continues.clear()
  }

  /** Ends all watches as a server does that is done with them. */
  endWatches(): void {
    for (const { response } of this.#watchers) response.end()
    this.#watchers.clear()
  }

  /** Breaks all watches. */
  breakWatches(): void {
    for (const { response } of this.#watchers) response.destroy()
    this.#watchers.clear()
  }

  /** Writes raw bytes to all watches. */
  write(text: string | Buffer): void {
    for (const { response } of this.#watchers) response.write(text)
  }

  bookmark(): void {
    this.write(bookmarkLine(this.#version, false))
  }

  /** For servers of node:http and node:https, and for the compatible side of node:http2 (with a cast). */
  readonly handle = (request: Request, response: Response): void => {
    const url = new URL(request.url ?? '/', 'http://server')
    const seen = {
      at: performance.now(),
      method: request.method ?? '',
      path: url.pathname,
      query: url.searchParams,
      headers: request.headers,
    }
    this.seen.push(seen)
    response.on('error', () => {})
    if (this.intercept(seen, response)) return
    if (seen.query.get('watch') === 'true') this.#watch(seen.query, response)
    else this.#list(seen.query, response)
  }

  #record(entry: HistoryEntry): void {
    this.#history.push(entry)
    for (const watcher of this.#watchers) this.#catchUp(watcher)
  }

  #catchUp(watcher: Watcher): void {
    for (const { version, type, object } of this.#history) {
      if (version <= watcher.sent) continue
      watcher.response.write(this.garbled-- > 0 ? '{"type":\n' : `${JSON.stringify({ type, object })}\n`)
      watcher.sent = version
    }
  }

  #watch(query: URLSearchParams, response: Response): void {
    const initial = query.get('sendInitialEvents') === 'true'
    if (initial && !this.streamingLists) {
      sendStatus(
        response,
        422,
        'Invalid',
        'sendInitialEvents is forbidden for watch unless the feature is on',
      )
      return
    }
    const from = Number(query.get('resourceVersion') ?? '0')
    if (!initial && from < this.#compactedTo) {
      sendStatus(response, 410, 'Expired', `too old resource version: ${from} (${this.#version})`)
      return
    }
    response.writeHead(200, { 'content-type': 'application/json' })
    const watcher = { response, sent: initial ? this.#version : from }
    this.#watchers.add(watcher)
    response.on('close', () => this.#watchers.delete(watcher))
    if (!initial) {
      response.flushHeaders()
      this.#catchUp(watcher)
      return
    }
    for (const object of this.#objects.values()) {
      response.write(`${JSON.stringify({ type: 'ADDED', object })}\n`)
    }
    if (this.endMarks) response.write(bookmarkLine(this.#version, true))
    else response.flushHeaders()
  }

  #list(query: URLSearchParams, response: Response): void {
    const token = query.get('continue')
    const kept = token === null ? null : (this.#continues.get(token) ?? 'expired')
    if (kept === 'expired') {
      sendStatus(response, 410, 'Expired', 'The provided continue parameter is too old')
      return
    }
    const all = kept?.rest ?? [...this.#objects.values()]
    const version = kept?.version ?? this.#version
    const limit = Number(query.get('limit') ?? '0')
    const page = limit > 0 ? all.slice(0, limit) : all
    const rest = all.slice(page.length)
    const next = rest.length === 0 ? '' : `token-${version}-${rest.length}`
    if (next !== '') this.#continues.set(next, { version, rest })
    sendJson(response, 200, {
      kind: 'ThingList',
      apiVersion: 'v1',
      metadata: { resourceVersion: String(version), ...(next === '' ? {} : { continue: next }) },
      items: page,
    })
  }
}

export function bookmarkLine(version: number | string, end: boolean): string {
  const metadata = {
    resourceVersion: String(version),
    ...(end ? { annotations: { 'k8s.io/initial-events-end': 'true' } } : {}),
  }
  return `${JSON.stringify({ type: 'BOOKMARK', object: { kind: 'Thing', metadata } })}\n`
}

export function sendJson(response: Response, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(body))
}

export function sendStatus(response: Response, code: number, reason: string, message: string): void {
  sendJson(response, code, { kind: 'Status', apiVersion: 'v1', status: 'Failure', code, reason, message })
}
