import type { ObjectProblem } from './state.ts'
import type { Intern, JsonObject } from './fields.ts'
import { FieldReader, isObject, UndecodableObjectError } from './fields.ts'

/** An API object reduced to what is used, and what had to be left out or mended on the way. */
export interface Decoded<R> {
  readonly record: R
  readonly problems: readonly ObjectProblem[]
}

/** The head of an API object and the reader of its fields. */
export interface DecodedHead {
  readonly json: JsonObject
  readonly metadata: JsonObject
  readonly namespace: string
  readonly name: string
  readonly labels: JsonObject
  readonly fields: FieldReader
}

/**
 * Reads `metadata` of any API object. A namespaced object without a namespace is one of `default`, as kubectl reads
 * files.
 * @throws UndecodableObjectError if it is no object or has no name
 */
export function decodeHead(kind: string, json: unknown, intern: Intern): DecodedHead {
  if (!isObject(json)) throw new UndecodableObjectError(kind, 'the document', 'an object')
  const metadata = json['metadata']
  if (!isObject(metadata)) throw new UndecodableObjectError(kind, 'metadata', 'an object')
  const name = metadata['name']
  if (typeof name !== 'string' || name === '') {
    throw new UndecodableObjectError(kind, 'metadata.name', 'a name')
  }
  const clusterWide = kind === 'Node' || kind === 'ServiceCIDR'
  const namespace = clusterWide
    ? ''
    : intern(new FieldReader(kind).text(metadata, 'namespace', 'metadata.namespace', '') || 'default')
  const fields = new FieldReader(`${kind} ${clusterWide ? name : `${namespace}/${name}`}`)
  return {
    json,
    metadata,
    namespace,
    name,
    labels: fields.record(metadata, 'labels', 'metadata.labels'),
    fields,
  }
}

/** For callers that do not keep records for long. */
export const keepAsIs: Intern = (text) => text
