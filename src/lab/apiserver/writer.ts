import { randomUUID } from 'node:crypto'
import { keyOf } from './collection.ts'
import { Entry } from './entry.ts'
import { eventFromV1Events } from './event-versions.ts'
import type { ApiObject, Dict } from './json.ts'
import { clone, equal } from './json.ts'
import { trackUpdate } from './managed-fields.ts'
import { checkMetadata, subdomainProblem } from './names.ts'
import { RESOURCES } from './resources.ts'
import type { ResourceType } from './resources.ts'
import {
  Causes,
  alreadyExists,
  badRequest,
  conflict,
  forbidden,
  invalid,
  notFound,
  staleObject,
} from './status.ts'
import type { Store } from './store.ts'
import type { Strategy } from './strategy.ts'

/** Who writes, and whether it is only a rehearsal. */
export interface WriteContext {
  readonly manager: string
  readonly dryRun: boolean
  /** Empty for the object itself. */
  readonly subresource: string
  /** False when the caller has already recorded who owns what (server-side apply). */
  readonly track: boolean
}

/** Creates and updates objects by the rules of their kind: defaults, validation, allocation, versions. */
export class Writer {
  readonly #store: Store
  readonly #strategyOf: (type: ResourceType) => Strategy

  constructor(store: Store, strategyOf: (type: ResourceType) => Strategy) {
    this.#store = store
    this.#strategyOf = strategyOf
  }

  /** @throws ApiError 404 for an unknown namespace, 409 when the name is taken, 422 with all causes. */
  create(type: ResourceType, namespace: string, given: ApiObject, context: WriteContext): Entry {
    const strategy = this.#strategyOf(type)
    const object = stored(type, clone(given))
    this.#settleNamespace(type, namespace, object)
    const { metadata } = object
    if (metadata.resourceVersion !== undefined && metadata.resourceVersion !== '') {
      throw badRequest('resourceVersion should not be set on objects to be created')
    }
    if ((metadata.name ?? '') === '' && metadata.generateName !== undefined) {
      metadata.name = metadata.generateName + randomSuffix()
    }
    metadata.uid = randomUUID()
    metadata.creationTimestamp = this.#store.timestamp()
    delete metadata.deletionTimestamp
    delete metadata.deletionGracePeriodSeconds
    dropEmpty(metadata)
    if (strategy.generation) metadata.generation = 1
    if (strategy.initialStatus !== null) object['status'] = clone(strategy.initialStatus)
    strategy.prepare(object, null)
    this.#check(type, strategy, object, null)
    if (this.#store.get(type, namespace, metadata.name) !== undefined)
      throw alreadyExists(type, metadata.name)
    if (context.track) trackUpdate(type, object, null, context, this.#store.timestamp())
    return this.#commit(type, object, context)
  }

  /** @throws ApiError 404, 409 when the object has moved on, 422 with all causes. */
  update(type: ResourceType, old: Entry, given: ApiObject, context: WriteContext): Entry {
    const strategy = this.#strategyOf(type)
    const before = old.object
    let object = stored(type, clone(given))
    this.#checkSameObject(type, strategy, before, object)
    if (context.subresource === 'status') {
      const managedFields = object.metadata.managedFields
      object = { ...clone(before), status: object['status'] }
      if (managedFields !== undefined) object.metadata.managedFields = managedFields
    } else if (strategy.ownStatus && before['status'] !== undefined)
      object['status'] = clone(before['status'])
    else if (strategy.ownStatus) delete object['status']
    keepSystemMetadata(object, before)
    if (context.subresource === '') strategy.prepare(object, before)
    this.#check(type, strategy, object, before)
    if (strategy.generation && !equal(specOf(object), specOf(before))) {
      object.metadata.generation = (before.metadata.generation ?? 0) + 1
    }
    if (equal(unmanaged(object), unmanaged(before)) && sameOwners(object, before)) return old
    if (context.track) trackUpdate(type, object, before, context, this.#store.timestamp())
    if (object.metadata.deletionTimestamp !== undefined && (object.metadata.finalizers ?? []).length === 0) {
      if (before.metadata.finalizers?.length && object.metadata.deletionGracePeriodSeconds === 0) {
        return this.#finish(type, object, context)
      }
    }
    return this.#commit(type, object, context)
  }

  #settleNamespace(type: ResourceType, namespace: string, object: ApiObject): void {
    const { metadata } = object
    if (!type.namespaced) {
      delete metadata.namespace
      return
    }
    metadata.namespace ??= namespace
    if (metadata.namespace !== namespace) {
      throw badRequest(
        `the namespace of the provided object does not match the namespace sent on the request`,
      )
    }
    const home = this.#store.get(RESOURCES.namespace, '', namespace)
    if (home === undefined) throw notFound(RESOURCES.namespace, namespace)
    if (home.object.metadata.deletionTimestamp !== undefined) {
      throw forbidden(
        type,
        metadata.name ?? '',
        `unable to create new content in namespace ${namespace} because it is being terminated`,
      )
    }
  }

  #checkSameObject(type: ResourceType, strategy: Strategy, before: ApiObject, object: ApiObject): void {
    const { metadata } = object
    metadata.name ??= before.metadata.name
    if (metadata.name !== before.metadata.name) {
      throw badRequest(
        `the name of the object (${metadata.name}) does not match the name on the URL (${before.metadata.name})`,
      )
    }
    if (type.namespaced && (metadata.namespace ?? before.metadata.namespace) !== before.metadata.namespace) {
      throw badRequest(
        `the namespace of the object (${metadata.namespace}) does not match the namespace on the URL (${before.metadata.namespace})`,
      )
    }
    if (metadata.uid !== undefined && metadata.uid !== '' && metadata.uid !== before.metadata.uid) {
      const why = `Precondition failed: UID in precondition: ${metadata.uid}, UID in object meta: ${before.metadata.uid}`
      throw conflict(type, metadata.name, why)
    }
    const version = metadata.resourceVersion ?? ''
    if (version === '' && strategy.versionedUpdates) {
      const causes = new Causes()
      causes.invalid('metadata.resourceVersion', 0, 'must be specified for an update')
      throw invalid(type, metadata.name, causes.all)
    }
    if (version !== '' && version !== before.metadata.resourceVersion) throw staleObject(type, metadata.name)
  }

  #check(type: ResourceType, strategy: Strategy, object: ApiObject, old: ApiObject | null): void {
    const causes = new Causes()
    checkMetadata(object.metadata, strategy.nameRule, causes)
    if (old === null && type.namespaced && subdomainProblem(object.metadata.namespace ?? '') !== null) {
      causes.required('metadata.namespace')
    }
    strategy.validate(object, old, causes)
    if (causes.all.length === 0) strategy.allocate(object, old, causes)
    if (causes.all.length > 0) throw invalid(type, object.metadata.name ?? '', causes.all)
  }

  #commit(type: ResourceType, object: ApiObject, context: WriteContext): Entry {
    if (!context.dryRun) return this.#store.write(type, object)
    return new Entry(
      keyOf(object.metadata.namespace ?? '', object.metadata.name),
      object,
      this.#store.revision,
    )
  }

  /** The last finalizer of an object that waits for its deletion is gone, and so is the object. */
  #finish(type: ResourceType, object: ApiObject, context: WriteContext): Entry {
    const entry = this.#commit(type, object, context)
    if (!context.dryRun) this.#store.remove(type, object.metadata.namespace ?? '', object.metadata.name)
    return entry
  }
}

/** The object in the version it is stored in. */
function stored(type: ResourceType, object: ApiObject): ApiObject {
  return type === RESOURCES.eventsV1 ? eventFromV1Events(object) : object
}

function keepSystemMetadata(object: ApiObject, before: ApiObject): void {
  const { metadata } = object
  const fixed = ['namespace', 'uid', 'creationTimestamp', 'generation', 'deletionTimestamp'] as const
  for (const key of [...fixed, 'deletionGracePeriodSeconds', 'generateName', 'selfLink'] as const) {
    const value = before.metadata[key]
    if (value === undefined) delete metadata[key]
    else (metadata as Dict)[key] = value
  }
  metadata.managedFields ??= clone(before.metadata.managedFields ?? [])
  dropEmpty(metadata)
}

/** Empty maps and lists of metadata are not kept, as upstream's `omitempty`. */
function dropEmpty(metadata: ApiObject['metadata']): void {
  for (const key of ['labels', 'annotations', 'finalizers', 'ownerReferences', 'managedFields'] as const) {
    const value = metadata[key]
    if (value !== undefined && Object.keys(value ?? {}).length === 0) delete metadata[key]
  }
}

function specOf({ kind: _k, apiVersion: _a, metadata: _m, status: _s, ...rest }: ApiObject): Dict {
  return rest
}

function unmanaged(object: ApiObject): Dict {
  const { resourceVersion: _v, managedFields: _f, generation: _g, ...metadata } = object.metadata
  const { apiVersion: _a, kind: _k, ...rest } = object
  return { ...rest, metadata }
}

function sameOwners(object: ApiObject, before: ApiObject): boolean {
  return equal(object.metadata.managedFields ?? [], before.metadata.managedFields ?? [])
}

/** Five characters that make no words and are not mistaken for one another, as upstream appends. */
export function randomSuffix(): string {
  const letters = 'bcdfghjklmnpqrstvwxz2456789'
  return Array.from({ length: 5 }, () => letters[Math.floor(Math.random() * letters.length)]).join('')
}
