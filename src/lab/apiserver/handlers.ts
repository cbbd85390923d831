import type { ServerResponse } from 'node:http'
import type { Deleter } from './deletion.ts'
import { deleteOptionsOf } from './deletion.ts'
import type { Entry } from './entry.ts'
import type { ApiObject, Dict } from './json.ts'
import { clone, dictOf, isDict, textOf } from './json.ts'
import { applyJsonPatch } from './json-patch.ts'
import { listPage, sendList } from './list.ts'
import { applyMergePatch, applyStrategicPatch } from './merge-patch.ts'
import { decodeBody, decodeObject, decodeText } from './request.ts'
import type { ApiRequest } from './request.ts'
import { RESOURCES, apiVersionOf } from './resources.ts'
import { listBytes, sendBytes, sendEntry, sendJson } from './respond.ts'
import { scaleOf, withScale } from './scale.ts'
import { checkFields } from './schema.ts'
import { serverSideApply } from './apply.ts'
import { badRequest, methodNotAllowed, notFound, unsupportedMediaType } from './status.ts'
import type { Store } from './store.ts'
import type { WatchOptions } from './watch.ts'
import { startWatch } from './watch.ts'
import type { WriteContext, Writer } from './writer.ts'

export interface Handling {
  readonly store: Store
  readonly writer: Writer
  readonly deleter: Deleter
  readonly watch: WatchOptions
}

const PATCH_TYPES = [
  'application/json-patch+json',
  'application/merge-patch+json',
  'application/strategic-merge-patch+json',
  'application/apply-patch+yaml',
]

/** Answers one request about objects. @throws ApiError for everything that is refused. */
export function handle(server: Handling, request: ApiRequest, response: ServerResponse): void {
  const { method, target, query } = request
  const watching = query.get('watch') === 'true' || query.get('watch') === '1'
  if (method === 'GET' && target.subresource === '' && watching) {
    return startWatch(server.store, request, response, server.watch)
  }
  if (target.name === null) return handleCollection(server, request, response)
  switch (method) {
    case 'GET':
      return sendTarget(server, request, response, 200, existing(server, request))
    case 'PUT':
      return replace(server, request, response)
    case 'PATCH':
      return patch(server, request, response)
    case 'DELETE':
      if (target.subresource !== '') throw methodNotAllowed()
      return remove(server, request, response)
    case 'POST':
      if (target.subresource !== 'binding') throw methodNotAllowed()
      return bind(server, request, response)
    default:
      throw methodNotAllowed()
  }
}

function handleCollection(server: Handling, request: ApiRequest, response: ServerResponse): void {
  switch (request.method) {
    case 'GET':
      return sendList(server.store, request, response)
    case 'POST':
      return create(server, request, response)
    case 'DELETE':
      return removeAll(server, request, response)
    default:
      throw methodNotAllowed()
  }
}

function existing({ store }: Handling, { target }: ApiRequest): Entry {
  const entry = store.get(target.type, target.namespace, target.name!)
  if (entry === undefined) throw notFound(target.type, target.name!)
  return entry
}

function contextOf(request: ApiRequest, track = true): WriteContext {
  const { manager, dryRun, target } = request
  return { manager, dryRun, subresource: target.subresource, track }
}

/** The object, or its scale where that is asked for. */
function sendTarget(
  { store }: Handling,
  request: ApiRequest,
  response: ServerResponse,
  code: number,
  entry: Entry,
): void {
  const { type, subresource } = request.target
  if (subresource === 'scale') return sendJson(response, code, scaleOf(entry.object))
  sendEntry(response, code, entry, { type, accept: request.accept, now: store.clock.now() })
}

/** Reads an object from a body that was parsed, telling of unknown fields as the client wishes. */
function readObject(request: ApiRequest, response: ServerResponse, body: Dict): ApiObject {
  const { type } = request.target
  const object = decodeObject(body, type, apiVersionOf(type))
  const { unknown, mistyped } = checkFields(type.kind, object)
  if (mistyped.length > 0) {
    throw badRequest(
      `${type.kind} in version ${JSON.stringify(type.version)} cannot be handled as a ${type.kind}: ${mistyped.join(', ')}`,
    )
  }
  const validation = request.query.get('fieldValidation') ?? 'Warn'
  if (unknown.length === 0 || validation === 'Ignore') return object
  const messages = unknown.map((path) => `unknown field ${JSON.stringify(path)}`)
  if (validation === 'Strict') {
    throw badRequest(
      `${type.kind} in version ${JSON.stringify(type.version)} cannot be handled as a ${type.kind}: strict decoding error: ${messages.join(', ')}`,
    )
  }
  for (const message of messages) response.appendHeader('warning', `299 - ${JSON.stringify(message)}`)
  return object
}

function create(server: Handling, request: ApiRequest, response: ServerResponse): void {
  const { type, namespace } = request.target
  const object = readObject(request, response, decodeBody(request))
  const home = type.namespaced && namespace === '' ? (object.metadata.namespace ?? 'default') : namespace
  const entry = server.writer.create(type, home, object, contextOf(request))
  sendTarget(server, request, response, 201, entry)
}

function replace(server: Handling, request: ApiRequest, response: ServerResponse): void {
  const { target } = request
  const old = existing(server, request)
  if (target.subresource === 'binding') throw methodNotAllowed()
  const body = decodeBody(request)
  if (target.subresource === 'finalize') return sendTarget(server, request, response, 200, old)
  if (target.subresource === 'scale') return rescale(server, request, response, old, body)
  const object = readObject(request, response, body)
  const entry = server.writer.update(target.type, old, object, contextOf(request))
  sendTarget(server, request, response, 200, entry)
}

function rescale(
  server: Handling,
  request: ApiRequest,
  response: ServerResponse,
  old: Entry,
  scale: Dict,
): void {
  const object = withScale(old.object, scale)
  const context = { ...contextOf(request), subresource: '' }
  sendTarget(server, request, response, 200, server.writer.update(request.target.type, old, object, context))
}

function patch(server: Handling, request: ApiRequest, response: ServerResponse): void {
  const { target, contentType, body } = request
  if (!PATCH_TYPES.includes(contentType)) throw unsupportedMediaType(PATCH_TYPES)
  if (contentType === 'application/apply-patch+yaml') return apply(server, request, response)
  const old = existing(server, request)
  const change = decodeText(body, false)
  if (target.subresource === 'scale') {
    return rescale(server, request, response, old, patched(contentType, scaleOf(old.object), change, 'Scale'))
  }
  const shown = old.as(target.type).object
  const object = readObject(request, response, patched(contentType, shown, change, target.type.kind))
  const entry = server.writer.update(target.type, old, object, contextOf(request))
  sendTarget(server, request, response, 200, entry)
}

function patched(contentType: string, target: Dict, change: unknown, shape: string): Dict {
  if (contentType === 'application/json-patch+json') return applyJsonPatch(target, change)
  if (!isDict(change)) throw badRequest('error decoding patch: the patch must be an object')
  if (contentType === 'application/merge-patch+json') return applyMergePatch(target, change) as Dict
  return applyStrategicPatch(target, change, shape)
}

/** Server-side apply: creates what is not there, else merges and settles who owns which field. */
function apply(server: Handling, request: ApiRequest, response: ServerResponse): void {
  const { target, query, body, manager } = request
  if (query.get('fieldManager') === null)
    throw badRequest(
      'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
    )
  const value = decodeText(body, true)
  if (!isDict(value)) throw badRequest('the applied configuration must be an object')
  const config = readObject(request, response, value)
  config.metadata.name ??= target.name!
  if (config.metadata.name !== target.name) {
    throw badRequest(
      `the name of the object (${config.metadata.name}) does not match the name on the URL (${target.name})`,
    )
  }
  const old = server.store.get(target.type, target.namespace, target.name) ?? null
  const object = serverSideApply(target.type, old?.object ?? null, config, {
    manager,
    subresource: target.subresource,
    force: query.get('force') === 'true',
    time: server.store.timestamp(),
  })
  const context = contextOf(request, false)
  const entry =
    old === null
      ? server.writer.create(target.type, target.namespace, object, context)
      : server.writer.update(target.type, old, object, context)
  sendTarget(server, request, response, old === null ? 201 : 200, entry)
}

function remove(server: Handling, request: ApiRequest, response: ServerResponse): void {
  const { type } = request.target
  const entry = existing(server, request)
  const options = deleteOptionsOf(optionalBody(request), request.query, request.dryRun)
  const result = server.deleter.delete(type, entry, options)
  if (!result.gone || type === RESOURCES.pod) return sendTarget(server, request, response, 200, result.entry)
  const { name, uid } = entry.object.metadata
  sendJson(response, 200, {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Success',
    details: { name, ...(type.group === '' ? {} : { group: type.group }), kind: type.resource, uid },
  })
}

function removeAll(server: Handling, request: ApiRequest, response: ServerResponse): void {
  const options = deleteOptionsOf(optionalBody(request), request.query, request.dryRun)
  const { type } = request.target
  if (type === RESOURCES.namespace || type === RESOURCES.service) throw methodNotAllowed()
  const page = listPage(server.store, request)
  for (const entry of page.entries) server.deleter.delete(type, entry, options)
  sendBytes(response, 200, listBytes(type, page.entries, page.meta))
}

function optionalBody(request: ApiRequest): Dict {
  return request.body.length === 0 ? {} : decodeBody(request)
}

/** pods/NAME/binding: gives a pod to a node, as a scheduler does. */
function bind(server: Handling, request: ApiRequest, response: ServerResponse): void {
  const old = existing(server, request)
  const node = textOf(dictOf(decodeBody(request)['target'])['name'])
  if (node === '') throw badRequest('target.name: Required value')
  const pod = clone(old.object)
  pod['spec'] = { ...dictOf(pod['spec']), nodeName: node }
  server.writer.update(request.target.type, old, pod, { ...contextOf(request), subresource: '' })
  sendJson(response, 201, { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', code: 201 })
}
