import { request as httpRequest } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import type { KubernetesObject } from '../kubernetes/objects.ts'
import { ProxyError } from '../shared/errors.ts'

/** How the lab's own parts reach its API server. */
export interface ApiAccess {
  readonly url: string
  readonly ca?: string
  readonly token?: string
}

/** The API server's refusal of a request. */
export class ApiRefusal extends ProxyError {
  readonly status: number

  constructor(status: number, what: string, message: string) {
    super('LAB_API', `the lab's API server answered ${status} to ${what}: ${message}`)
    this.status = status
  }
}

type PatchType = 'merge' | 'strategic-merge'

/** A small REST client of the lab: independent of the product's, so that a misreading of the protocol shows. */
export class ApiClient {
  readonly #access: ApiAccess

  constructor(access: ApiAccess) {
    this.#access = access
  }

  /** GET, as JSON. */
  get<T>(path: string): Promise<T> {
    return this.#json<T>('GET', path)
  }

  create<T>(path: string, object: unknown): Promise<T> {
    return this.#json<T>('POST', path, object)
  }

  update<T>(path: string, object: unknown): Promise<T> {
    return this.#json<T>('PUT', path, object)
  }

  patch<T>(path: string, patch: unknown, type: PatchType = 'merge'): Promise<T> {
    return this.#json<T>('PATCH', path, patch, `application/${type}-patch+json`)
  }

  /** Deletes an object; one that is gone is no error. `graceSeconds` 0 removes it at once. */
  async delete(path: string, graceSeconds?: number): Promise<void> {
    const query = graceSeconds === undefined ? '' : `?gracePeriodSeconds=${graceSeconds}`
    try {
      await this.#json('DELETE', path + query)
    } catch (error) {
      if (!(error instanceof ApiRefusal && error.status === 404)) throw error
    }
  }

  /** Opens a request and gives the answer once its head is there; rejects if the status is not 2xx. */
  async open(
    method: string,
    path: string,
    body?: string,
    type?: string,
    signal?: AbortSignal,
  ): Promise<IncomingMessage> {
    const { url, ca, token } = this.#access
    const target = new URL(path, url)
    const send = target.protocol === 'https:' ? httpsRequest : httpRequest
    const headers: Record<string, string> = { accept: 'application/json', 'user-agent': 'switchback-lab' }
    if (token !== undefined) headers['authorization'] = `Bearer ${token}`
    if (body !== undefined) headers['content-type'] = type ?? 'application/json'
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const request = send(target, {
        method,
        headers,
        ...(ca === undefined ? {} : { ca }),
        ...(signal === undefined ? {} : { signal }),
      })
      request.once('response', resolve)
      request.once('error', reject)
      request.end(body)
    })
    const status = response.statusCode ?? 0
    if (status >= 200 && status < 300) return response
    throw new ApiRefusal(status, `${method} ${path}`, messageOf(await textOf(response)))
  }

  async #json<T>(method: string, path: string, body?: unknown, type?: string): Promise<T> {
    const text = body === undefined ? undefined : JSON.stringify(body)
    return JSON.parse(await textOf(await this.open(method, path, text, type))) as T
  }
}

async function textOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of response as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks).toString('utf8')
}

function messageOf(body: string): string {
  try {
    return (JSON.parse(body) as { message?: string }).message ?? body
  } catch {
    return body
  }
}

/** A collection of the API server kept in step by list and watch; calls back after every change. */
export interface Mirror<T extends KubernetesObject> {
  /** By `namespace/name`, or `name` where the kind has no namespaces. */
  readonly objects: ReadonlyMap<string, T>
  /** Resolves when the first list is in. */
  readonly synced: Promise<void>
}

export function keyOf(object: KubernetesObject): string {
  const { namespace, name } = object.metadata
  return namespace === undefined || namespace === '' ? name : `${namespace}/${name}`
}

interface WatchEvent<T> {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR'
  readonly object: T
}

/** Mirrors the collection at `path` until the signal aborts; failures are tried again after a second. */
export function mirror<T extends KubernetesObject>(
  client: ApiClient,
  path: string,
  signal: AbortSignal,
  onChange: () => void,
  onFailure: (error: unknown) => void = () => undefined,
): Mirror<T> {
  const objects = new Map<string, T>()
  let markSynced = (): void => undefined
  const synced = new Promise<void>((resolve) => (markSynced = resolve))

  const list = async (): Promise<string> => {
    const answer = await client.get<{ metadata: { resourceVersion: string }; items: T[] }>(path)
    objects.clear()
    for (const item of answer.items) objects.set(keyOf(item), item)
    markSynced()
    onChange()
    return answer.metadata.resourceVersion
  }
  const apply = (event: WatchEvent<T>): string => {
    if (event.type === 'ERROR') throw new ApiRefusal(410, `watch ${path}`, JSON.stringify(event.object))
    if (event.type === 'DELETED') objects.delete(keyOf(event.object))
    else if (event.type !== 'BOOKMARK') objects.set(keyOf(event.object), event.object)
    if (event.type !== 'BOOKMARK') onChange()
    return event.object.metadata.resourceVersion ?? ''
  }
  const follow = async (): Promise<void> => {
    let version = await list()
    while (!signal.aborted) {
      const query = `${path}?watch=1&allowWatchBookmarks=true&resourceVersion=${version}`
      const response = await client.open('GET', query, undefined, undefined, signal)
      for await (const line of createInterface({ input: response })) {
        version = apply(JSON.parse(line) as WatchEvent<T>) || version
      }
    }
  }
  const run = async (): Promise<void> => {
    while (!signal.aborted) {
      try {
        await follow()
      } catch (error) {
        if (signal.aborted) return
        onFailure(error)
        await sleep(1000, undefined, { signal }).catch(() => undefined)
      }
    }
  }
  void run()
  return { objects, synced }
}
