import { createHash } from 'node:crypto'
import type { Dict } from './json.ts'
import { encodeOpenApiV2 } from './openapi-protobuf.ts'
import { ALL_RESOURCES, apiVersionOf } from './resources.ts'
import type { ResourceType } from './resources.ts'
import type { Field } from './schema.ts'
import { fieldsOf } from './schema.ts'
import { SHAPES } from './schema-types.ts'

/** Name of a shape in OpenAPI documents; clients show the last part. */
const PREFIX = 'io.k8s.api.lab.'

const ABOUT: Readonly<Record<string, string>> = {
  Service: 'A named abstraction of a service: addresses and ports that clients dial, and what they lead to.',
  EndpointSlice: 'A part of the endpoints behind a Service.',
  Pod: 'Containers that run together on one node.',
  Node: 'A machine that runs pods.',
  Namespace: 'A scope for names.',
  ConfigMap: 'Configuration data as key-value pairs.',
  Lease: 'A lock that must be renewed.',
  Deployment: 'Keeps a number of like pods running.',
  Event: 'A report of something that happened.',
  ServiceCIDR: 'A range of addresses for the cluster IPs of Services.',
}

export type Dialect = 2 | 3

/** A document, its Content-Type and its bytes. */
export interface OpenApiAnswer {
  readonly contentType: string
  readonly bytes: Buffer
}

/** Answers paths under /openapi; null for those that do not exist. */
export function openApiDocument(path: string, accept: string): OpenApiAnswer | null {
  if (path === '/openapi/v2') return answerV2(accept)
  if (path === '/openapi/v3') return json({ paths: indexV3() })
  const apiVersion = /^\/openapi\/v3\/apis?\/(.+)$/.exec(path)?.[1] ?? null
  const types = apiVersion === null ? [] : typesOf(apiVersion)
  return types.length === 0 ? null : json(documentV3(types))
}

function json(value: object): OpenApiAnswer {
  return { contentType: 'application/json', bytes: Buffer.from(JSON.stringify(value)) }
}

function answerV2(accept: string): OpenApiAnswer {
  const document = {
    swagger: '2.0',
    info: { title: 'Kubernetes', version: 'lab' },
    paths: pathsOf(ALL_RESOURCES, 2),
    definitions: schemasOf(ALL_RESOURCES, 2),
  }
  const wanted = accept.split(',')[0]!.trim()
  if (!wanted.startsWith('application/com.github.')) return json(document)
  // The media type asked for has an `@`, which clients cannot read back in an answer.
  return { contentType: 'application/octet-stream', bytes: encodeOpenApiV2(document) }
}

function versions(): string[] {
  return [...new Set(ALL_RESOURCES.map(apiVersionOf))]
}

function typesOf(apiVersion: string): ResourceType[] {
  return ALL_RESOURCES.filter((type) => apiVersionOf(type) === apiVersion)
}

function rootOf(apiVersion: string): string {
  return apiVersion.includes('/') ? `apis/${apiVersion}` : `api/${apiVersion}`
}

/** Where each version's document is; the hash lets clients keep it. */
function indexV3(): Dict {
  return Object.fromEntries(
    versions().map((apiVersion) => {
      const text = JSON.stringify(documentV3(typesOf(apiVersion)))
      const hash = createHash('sha256').update(text).digest('hex').slice(0, 32).toUpperCase()
      const root = rootOf(apiVersion)
      return [root, { serverRelativeURL: `/openapi/v3/${root}?hash=${hash}` }]
    }),
  )
}

function documentV3(types: readonly ResourceType[]): Dict {
  return {
    openapi: '3.0.0',
    info: { title: 'Kubernetes', version: 'lab' },
    paths: pathsOf(types, 3),
    components: { schemas: schemasOf(types, 3) },
  }
}

/** The shapes that these kinds are made of. */
function schemasOf(types: readonly ResourceType[], dialect: Dialect): Dict {
  const schemas: Dict = {}
  const add = (shape: string): void => {
    const fields = fieldsOf(shape)
    if (fields === null || schemas[PREFIX + shape] !== undefined) return
    schemas[PREFIX + shape] = schemaOf(shape, fields, dialect, types)
    for (const { type } of fields.values()) add(type)
  }
  for (const { kind } of types) add(kind)
  return schemas
}

function schemaOf(
  shape: string,
  fields: ReadonlyMap<string, Field>,
  dialect: Dialect,
  types: readonly ResourceType[],
): Dict {
  const kinds = types.filter(({ kind }) => kind === shape)
  const own = kinds.length > 0 ? { apiVersion: { type: 'string' }, kind: { type: 'string' } } : {}
  const properties = [...fields].map(([name, field]) => [name, fieldSchema(field, dialect)] as const)
  return {
    description: ABOUT[shape] ?? shape,
    type: 'object',
    properties: { ...own, ...Object.fromEntries(properties) },
    ...(kinds.length > 0 ? { 'x-kubernetes-group-version-kind': kinds.map(gvk) } : {}),
  }
}

function fieldSchema(field: Field, dialect: Dialect): Dict {
  const one = valueSchema(field.type, dialect)
  if (!field.list) return one
  return {
    type: 'array',
    items: one,
    ...(field.patchKey === null
      ? {}
      : { 'x-kubernetes-patch-merge-key': field.patchKey, 'x-kubernetes-patch-strategy': 'merge' }),
    ...(field.set ? { 'x-kubernetes-list-type': 'set' } : {}),
    ...(field.mapKeys === null
      ? {}
      : { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': field.mapKeys }),
    ...(field.set || field.mapKeys !== null ? {} : { 'x-kubernetes-list-type': 'atomic' }),
  }
}

function valueSchema(type: string, dialect: Dialect): Dict {
  switch (type) {
    case 'string':
      return { type: 'string' }
    case 'time':
      return { type: 'string', format: 'date-time' }
    case 'int':
      return { type: 'integer', format: 'int32' }
    case 'bool':
      return { type: 'boolean' }
    case 'intstr':
      return dialect === 2
        ? { type: 'string', format: 'int-or-string' }
        : { format: 'int-or-string', oneOf: [{ type: 'integer' }, { type: 'string' }] }
    case 'map':
      return { type: 'object', additionalProperties: { type: 'string' } }
    case 'any':
      return dialect === 2 ? {} : { type: 'object', 'x-kubernetes-preserve-unknown-fields': true }
    default:
      if (SHAPES[type] === undefined) return {}
      return dialect === 2
        ? { $ref: `#/definitions/${PREFIX}${type}` }
        : { allOf: [{ $ref: `#/components/schemas/${PREFIX}${type}` }], default: {} }
  }
}

function gvk({ group, version, kind }: ResourceType): Dict {
  return { group, version, kind }
}

/** Just what clients look for: which kind a path is about, and that it takes dryRun and fieldValidation. */
function pathsOf(types: readonly ResourceType[], dialect: Dialect): Dict {
  const paths: Dict = {}
  for (const type of types) {
    const root = `/${rootOf(apiVersionOf(type))}`
    const home = type.namespaced ? `${root}/namespaces/{namespace}` : root
    const operation = (action: string): Dict => ({
      description: '',
      operationId: `${action}${type.group}${type.version}${type.kind}`,
      parameters: ['dryRun', 'fieldManager', 'fieldValidation'].map((name) => query(name, dialect)),
      responses: { '200': { description: 'OK' } },
      'x-kubernetes-action': action,
      'x-kubernetes-group-version-kind': gvk(type),
    })
    if (type.namespaced) paths[`${root}/${type.resource}`] = { get: operation('list') }
    paths[`${home}/${type.resource}`] = { get: operation('list'), post: operation('post') }
    paths[`${home}/${type.resource}/{name}`] = {
      get: operation('get'),
      put: operation('put'),
      patch: operation('patch'),
      delete: operation('delete'),
    }
  }
  return paths
}

function query(name: string, dialect: Dialect): Dict {
  const where = { name, in: 'query', description: '' }
  return dialect === 2 ? { ...where, type: 'string' } : { ...where, schema: { type: 'string' } }
}
