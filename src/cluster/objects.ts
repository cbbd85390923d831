import type { Decoded } from './decoded.ts'
import { decodeEndpointSlice } from './decode-slice.ts'
import { decodeNode, decodeServiceCidr } from './decode-node.ts'
import { decodeService } from './decode-service.ts'
import type { Intern } from './fields.ts'
import { createInterner, isObject } from './fields.ts'
import type { ClusterState, ObjectProblem } from './state.ts'
import type { ClusterKind, RecordsByKind } from './store.ts'
import { ClusterStore } from './store.ts'

/** How to reduce the objects of each kind; a null record is an object of no use (remove what is known of it). */
export type Decoders = {
  readonly [K in ClusterKind]: (json: unknown) => Decoded<RecordsByKind[K] | null>
}

/** Decoders that share one interner, for records that are kept. */
export function createDecoders(intern: Intern = createInterner()): Decoders {
  return {
    services: (json) => decodeService(json, intern),
    endpointslices: (json) => decodeEndpointSlice(json, intern),
    nodes: (json) => decodeNode(json, intern),
    servicecidrs: (json) => decodeServiceCidr(json, intern),
  }
}

const KIND_OF: Readonly<Record<string, ClusterKind>> = {
  Service: 'services',
  EndpointSlice: 'endpointslices',
  Node: 'nodes',
  ServiceCIDR: 'servicecidrs',
}

/** Which part of the state an object of this `kind:` belongs to; null if none. */
export function clusterKind(kind: string): ClusterKind | null {
  return KIND_OF[kind] ?? null
}

/** A state and everything that had to be left out or mended in the objects it was made from. */
export interface StateFromObjects {
  readonly state: ClusterState
  readonly problems: readonly ObjectProblem[]
}

/**
 * The state that these API objects describe, as read from files: lists are unpacked, kinds that a proxy does not use
 * are passed over, a later object replaces an earlier one of the same name.
 * @throws UndecodableObjectError at the first object that is not understood
 */
export function clusterStateFromObjects(objects: readonly unknown[], nodeName: string): StateFromObjects {
  const decoders = createDecoders()
  const store = new ClusterStore(nodeName)
  const problems: ObjectProblem[] = []
  const records = { services: [], endpointslices: [], nodes: [], servicecidrs: [] } as {
    [K in ClusterKind]: RecordsByKind[K][]
  }
  for (const object of objects.flatMap(unpack)) {
    const kind = isObject(object) && typeof object['kind'] === 'string' ? clusterKind(object['kind']) : null
    if (kind === null) continue
    const decoded = decoders[kind](object)
    problems.push(...decoded.problems)
    if (decoded.record !== null) (records[kind] as unknown[]).push(decoded.record)
  }
  store.replace('services', records.services)
  store.replace('endpointslices', records.endpointslices)
  store.replace('nodes', records.nodes)
  store.replace('servicecidrs', records.servicecidrs)
  return { state: store.snapshot(), problems }
}

function unpack(object: unknown): readonly unknown[] {
  if (!isObject(object)) return [object]
  const { kind, items } = object
  if (typeof kind !== 'string' || !kind.endsWith('List') || !Array.isArray(items)) return [object]
  const itemKind = kind === 'List' ? {} : { kind: kind.slice(0, -'List'.length) }
  return items.flatMap((item: unknown) => unpack(isObject(item) ? { ...itemKind, ...item } : item))
}
