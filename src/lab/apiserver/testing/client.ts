import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import type { ApiObject, Dict } from '../json.ts'

/** What a test sees of an answer. */
export interface Answer {
  readonly code: number
  readonly body: Dict & { items?: ApiObject[]; metadata?: Dict; message?: string; reason?: string }
  readonly headers: Headers
}

/** One line of a watch. */
export interface WatchEvent {
  readonly type: string
  readonly object: ApiObject & { code?: number; reason?: string }
}

/** A plain HTTP client of the API server under test; knows nothing about Kubernetes. */
export class TestClient {
  readonly #url: string

  constructor(url: string) {
    this.#url = url
  }

  async send(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Answer> {
    const response = await fetch(this.#url + path, {
      method,
      headers: { 'content-type': 'application/json', 'user-agent': 'test/1', ...headers },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    const text = await response.text()
    return { code: response.status, body: text === '' ? {} : JSON.parse(text), headers: response.headers }
  }

  get(path: string, headers: Record<string, string> = {}): Promise<Answer> {
    return this.send('GET', path, undefined, headers)
  }

  post(path: string, body: unknown): Promise<Answer> {
    return this.send('POST', path, body)
  }

  patch(path: string, type: string, body: unknown): Promise<Answer> {
    return this.send('PATCH', path, body, { 'content-type': `application/${type}` })
  }

  /** Opens a watch; its events come in order, and `close` ends it. */
  async watch(path: string, headers: Record<string, string> = {}): Promise<TestWatch> {
    const abort = new AbortController()
    const response = await fetch(this.#url + path, { signal: abort.signal, headers })
    return new TestWatch(response, abort)
  }
}

export class TestWatch implements AsyncDisposable {
  readonly code: number
  readonly #abort: AbortController
  readonly #lines: AsyncIterator<string>

  constructor(response: Response, abort: AbortController) {
    this.code = response.status
    this.#abort = abort
    const input = Readable.fromWeb(response.body as never)
    input.on('error', () => {})
    this.#lines = createInterface({ input })[Symbol.asyncIterator]()
  }

  /** The next event; null when the server ended the stream. */
  async next(): Promise<WatchEvent | null> {
    const { value, done } = await this.#lines.next()
    return done === true ? null : (JSON.parse(value) as WatchEvent)
  }

  /** The next events as `TYPE name`. */
  async take(count: number): Promise<string[]> {
    const seen: string[] = []
    for (let i = 0; i < count; i++) {
      const event = await this.next()
      seen.push(event === null ? 'END' : `${event.type} ${event.object.metadata?.name ?? ''}`.trim())
    }
    return seen
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#abort.abort()
  }
}

export function service(name: string, spec: Dict = {}, labels: Record<string, string> = {}): Dict {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, labels },
    spec: { selector: { app: name }, ports: [{ port: 80 }], ...spec },
  }
}

export function configMap(
  name: string,
  data: Record<string, string> = {},
  labels: Record<string, string> = {},
): Dict {
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, labels }, data }
}

export function node(name: string, zone = ''): Dict {
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name, labels: zone === '' ? {} : { 'topology.kubernetes.io/zone': zone } },
  }
}

/** A pod that runs on `nodeName`, ready or not. */
export function pod(name: string, app: string, nodeName: string, ips: readonly string[], ready = true): Dict {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: 'default', labels: { app } },
    spec: {
      nodeName,
      containers: [
        { name: 'main', image: 'echo', ports: [{ name: 'web', containerPort: 8080, protocol: 'TCP' }] },
      ],
    },
    status: {
      phase: 'Running',
      podIP: ips[0],
      podIPs: ips.map((ip) => ({ ip })),
      conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }],
    },
  }
}
