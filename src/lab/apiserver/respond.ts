import type { ServerResponse } from 'node:http'
import type { Entry } from './entry.ts'
import { headLength } from './entry.ts'
import type { ApiObject } from './json.ts'
import { apiVersionOf } from './resources.ts'
import type { ResourceType } from './resources.ts'
import type { FailureStatus } from './status.ts'
import { TABLE_VERSION, tableOf } from './table.ts'

/** How the client wants objects shown. */
export type View = 'full' | 'table' | 'metadata'

/** Reads `Accept`: the first part that this server can serve wins; protobuf is not offered, JSON always is. */
export function viewOf(accept: string): View {
  for (const part of accept.split(',')) {
    const [media, ...params] = part.split(';').map((piece) => piece.trim())
    if (media !== 'application/json' && media !== '*/*' && media !== 'application/*') continue
    if (params.includes('as=Table')) {
      if (params.includes('v=v1') || params.includes('v=v1beta1')) return 'table'
      continue
    }
    if (params.some((param) => param.startsWith('as=PartialObjectMetadata'))) return 'metadata'
    return 'full'
  }
  return 'full'
}

/** Which version of Table a client asked for; the two differ in name only. */
export function tableVersionOf(accept: string): string {
  return accept.includes('as=Table;v=v1beta1') && !accept.includes('as=Table;v=v1;')
    ? 'meta.k8s.io/v1beta1'
    : TABLE_VERSION
}

export function sendBytes(response: ServerResponse, code: number, bytes: Buffer): void {
  response.writeHead(code, { 'content-type': 'application/json', 'content-length': bytes.length })
  response.end(bytes)
}

export function sendJson(response: ServerResponse, code: number, value: unknown): void {
  sendBytes(response, code, Buffer.from(`${JSON.stringify(value)}\n`))
}

export function sendStatus(response: ServerResponse, status: FailureStatus): void {
  if (response.headersSent) {
    response.destroy()
    return
  }
  if (status.details?.retryAfterSeconds !== undefined) {
    response.setHeader('retry-after', String(status.details.retryAfterSeconds))
  }
  sendJson(response, status.code, status)
}

/** One object in the client's view. */
export function sendEntry(
  response: ServerResponse,
  code: number,
  entry: Entry,
  how: { readonly type: ResourceType; readonly accept: string; readonly now: number },
): void {
  const { type, accept, now } = how
  const view = viewOf(accept)
  if (view === 'full') sendBytes(response, code, entry.as(type).json())
  else if (view === 'metadata') sendJson(response, code, partial(entry.as(type).object))
  else {
    const options = { now, version: tableVersionOf(accept), includeObject: 'Metadata' }
    sendJson(
      response,
      code,
      tableOf(type, [entry], { resourceVersion: entry.object.metadata.resourceVersion }, options),
    )
  }
}

/** `PartialObjectMetadata`: who only wants metadata gets only that. */
export function partial(object: ApiObject): object {
  return { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata: object.metadata }
}

export interface ListMeta {
  readonly resourceVersion?: string | undefined
  readonly continue?: string
  readonly remainingItemCount?: number
}

/** A list made of the entries' shared bytes; items carry no kind and apiVersion, as upstream's typed lists. */
export function listBytes(type: ResourceType, entries: readonly Entry[], meta: ListMeta): Buffer {
  const head = `{"kind":"${type.kind}List","apiVersion":"${apiVersionOf(type)}","metadata":${JSON.stringify(meta)},"items":[`
  const skip = headLength(type)
  const open = Buffer.from('{')
  const comma = Buffer.from(',{')
  const parts: Buffer[] = [Buffer.from(head)]
  for (const [i, entry] of entries.entries()) {
    parts.push(i === 0 ? open : comma, entry.as(type).json().subarray(skip))
  }
  parts.push(Buffer.from(']}\n'))
  return Buffer.concat(parts)
}
