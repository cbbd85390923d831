import type { IncomingMessage } from 'node:http'
import { parse as parseYaml } from 'yaml'
import type { ApiObject, Dict } from './json.ts'
import { isDict } from './json.ts'
import type { ResourceType } from './resources.ts'
import { resourceByPath } from './resources.ts'
import { PROTOBUF_TYPE, decodeProtobuf } from './protobuf-object.ts'
import { ApiError, badRequest, noSuchPath, unsupportedMediaType } from './status.ts'

/** What a path names. */
export interface Target {
  readonly type: ResourceType
  /** Empty: all namespaces, or a resource that has none. */
  readonly namespace: string
  /** null: the whole collection. */
  readonly name: string | null
  /** Empty: the object itself. */
  readonly subresource: string
}

/** A request that is about objects, before its verb is known. */
export interface ApiRequest {
  readonly method: string
  readonly target: Target
  readonly query: URLSearchParams
  readonly accept: string
  readonly contentType: string
  readonly body: Buffer
  /** Who writes: `fieldManager`, or the first word of the user agent, as upstream. */
  readonly manager: string
  readonly dryRun: boolean
}

const MAX_BODY_BYTES = 3 * 1024 * 1024
const BODY_TYPES = ['application/json', 'application/yaml', PROTOBUF_TYPE]

/** Reads `/api/v1/namespaces/NS/RESOURCE/NAME/SUB` and its shorter forms; fails with 404. */
export function parseTarget(path: string): Target {
  const parts = path.split('/').slice(1).map(decodePart)
  if (parts.at(-1) === '') parts.pop()
  const version = parts[0] === 'api' ? parts.slice(1, 2) : parts.slice(1, 3)
  const rest = parts.slice(1 + version.length)
  const apiVersion = version.join('/')
  if (rest[0] === 'namespaces' && rest.length >= 3) {
    const type = resourceByPath(apiVersion, rest[2]!)
    if (type !== null && type.namespaced) return target(type, rest[1]!, rest.slice(3))
  }
  const type = resourceByPath(apiVersion, rest[0] ?? '')
  if (type === null || (type.namespaced && rest.length > 1)) throw noSuchPath()
  return target(type, '', rest.slice(1))
}

function target(type: ResourceType, namespace: string, rest: readonly string[]): Target {
  const [name = null, subresource = ''] = rest
  if (rest.length > 2 || (subresource !== '' && !type.subresources.includes(subresource))) throw noSuchPath()
  return { type, namespace, name, subresource }
}

function decodePart(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw badRequest(`the path has a malformed escape: ${part}`)
  }
}

/** The whole request; fails with 413 when the body is too large. */
export async function readRequest(
  message: IncomingMessage,
  path: string,
  query: URLSearchParams,
): Promise<ApiRequest> {
  const agent = message.headers['user-agent'] ?? 'unknown'
  return {
    method: message.method ?? 'GET',
    target: parseTarget(path),
    query,
    accept: message.headers.accept ?? '',
    contentType: (message.headers['content-type'] ?? '').split(';')[0]!.trim(),
    body: await readBody(message),
    manager: query.get('fieldManager') ?? agent.split(/[/ ]/)[0] ?? 'unknown',
    dryRun: isDryRun(query),
  }
}

function isDryRun(query: URLSearchParams): boolean {
  const values = query.getAll('dryRun').filter((value) => value !== '')
  if (values.some((value) => value !== 'All')) {
    throw badRequest(`Invalid value: ${JSON.stringify(values[0])}: dryRun supports only "All"`)
  }
  return values.length > 0
}

async function readBody(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of message as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > MAX_BODY_BYTES) {
      throw new ApiError(413, 'RequestEntityTooLarge', `limit is ${MAX_BODY_BYTES} bytes`)
    }
    chunks.push(chunk)
  }
  return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)
}

/** The body as JSON or YAML by its content type; fails with 415 or 400. */
export function decodeBody(request: ApiRequest): Dict {
  const { contentType } = request
  if (contentType !== '' && !BODY_TYPES.includes(contentType)) throw unsupportedMediaType(BODY_TYPES)
  if (contentType === PROTOBUF_TYPE) return decodeProtobuf(request.body)
  const value = decodeText(request.body, contentType === 'application/yaml')
  if (!isDict(value)) throw badRequest('the request body must be one object')
  return value
}

/** The body as JSON, or as YAML (of which JSON is a part); fails with 400. */
export function decodeText(body: Buffer, yaml: boolean): unknown {
  const text = body.toString('utf8')
  if (text.trim() === '') throw badRequest('the request has no body')
  try {
    return yaml ? parseYaml(text) : JSON.parse(text)
  } catch (cause) {
    throw badRequest(
      `couldn't get version/kind; ${yaml ? 'yaml' : 'json'} parse error: ${(cause as Error).message}`,
    )
  }
}

/** The body as an object of the target's kind, with metadata; fails with 400 when it is another kind's. */
export function decodeObject(body: Dict, type: ResourceType, apiVersion: string): ApiObject {
  const kind = body['kind'] ?? type.kind
  const version = body['apiVersion'] ?? apiVersion
  if (kind !== type.kind || version !== apiVersion) {
    throw badRequest(
      `${type.kind} in version ${JSON.stringify(apiVersion)} cannot be handled as a ${String(kind)}: ` +
        `the API version in the data (${String(version)}) does not match the expected API version (${apiVersion})`,
    )
  }
  const metadata = body['metadata'] ?? {}
  if (!isDict(metadata)) throw badRequest('metadata must be an object')
  return { ...body, kind: type.kind, apiVersion, metadata: { ...metadata } } as ApiObject
}
