import type { Entry } from './entry.ts'
import type { ApiObject, Dict } from './json.ts'
import { clone, dictOf, textOf, valueAt } from './json.ts'
import type { OwnerIndex } from './owners.ts'
import { RESOURCES } from './resources.ts'
import type { ResourceType } from './resources.ts'
import { conflict } from './status.ts'
import type { Store } from './store.ts'

/** meta/v1 DeleteOptions, from the body and the query. */
export interface DeleteOptions {
  readonly graceSeconds: number | null
  /** What becomes of dependents. */
  readonly policy: 'Background' | 'Foreground' | 'Orphan'
  readonly uid: string | null
  readonly resourceVersion: string | null
  readonly dryRun: boolean
}

export function deleteOptionsOf(body: Dict, query: URLSearchParams, dryRun: boolean): DeleteOptions {
  const grace = query.get('gracePeriodSeconds') ?? body['gracePeriodSeconds'] ?? null
  const orphan = query.get('orphanDependents') ?? body['orphanDependents']
  const policy = textOf(query.get('propagationPolicy') ?? body['propagationPolicy'])
  const preconditions = dictOf(body['preconditions'])
  return {
    graceSeconds: grace === null ? null : Number(grace),
    policy:
      policy === 'Orphan' || orphan === 'true' || orphan === true
        ? 'Orphan'
        : policy === 'Foreground'
          ? 'Foreground'
          : 'Background',
    uid: textOf(preconditions['uid']) || null,
    resourceVersion: textOf(preconditions['resourceVersion']) || null,
    dryRun: dryRun || JSON.stringify(body['dryRun'] ?? []).includes('All'),
  }
}

/** What a deletion led to: `gone` false when the object waits for its grace period or its finalizers. */
export interface Deletion {
  readonly gone: boolean
  readonly entry: Entry
}

/** Deletes objects: gracefully for pods that run somewhere, in two steps for namespaces and what has finalizers. */
export class Deleter {
  readonly #store: Store
  readonly #owners: OwnerIndex

  constructor(store: Store, owners: OwnerIndex) {
    this.#store = store
    this.#owners = owners
  }

  delete(type: ResourceType, entry: Entry, options: DeleteOptions): Deletion {
    const { object } = entry
    const { name, namespace = '' } = object.metadata
    checkPreconditions(type, object, options)
    const grace = graceOf(type, object, options)
    const waits = grace > 0 || type === RESOURCES.namespace || (object.metadata.finalizers ?? []).length > 0
    if (options.dryRun) return { gone: !waits, entry }
    if (options.policy === 'Orphan') this.#owners.orphan(object.metadata.uid ?? '')
    if (!waits) {
      this.#store.remove(type, namespace, name)
      return { gone: true, entry }
    }
    return { gone: false, entry: this.#mark(type, entry, grace) }
  }

  /** Sets the deletion time; a shorter grace period than the one already running counts. */
  #mark(type: ResourceType, entry: Entry, grace: number): Entry {
    const { metadata } = entry.object
    if (metadata.deletionTimestamp !== undefined && grace >= (metadata.deletionGracePeriodSeconds ?? 0))
      return entry
    const object = clone(entry.object)
    const due = this.#store.clock.now() + grace * 1000
    object.metadata.deletionTimestamp = new Date(due).toISOString().replace(/\.\d+Z$/, 'Z')
    object.metadata.deletionGracePeriodSeconds = grace
    if (type === RESOURCES.namespace) object['status'] = { ...dictOf(object['status']), phase: 'Terminating' }
    return this.#store.write(type, object)
  }
}

function checkPreconditions(type: ResourceType, { metadata }: ApiObject, options: DeleteOptions): void {
  if (options.uid !== null && options.uid !== metadata.uid) {
    const why = `Precondition failed: UID in precondition: ${options.uid}, UID in object meta: ${metadata.uid}`
    throw conflict(type, metadata.name, why)
  }
  if (options.resourceVersion !== null && options.resourceVersion !== metadata.resourceVersion) {
    const why = `Precondition failed: ResourceVersion in precondition: ${options.resourceVersion}, ResourceVersion in object meta: ${metadata.resourceVersion}`
    throw conflict(type, metadata.name, why)
  }
}

/** Seconds until the object goes: only pods that were given to a node get any. */
function graceOf(type: ResourceType, object: ApiObject, { graceSeconds }: DeleteOptions): number {
  if (type !== RESOURCES.pod || textOf(valueAt(object, 'spec.nodeName')) === '') return 0
  const phase = textOf(valueAt(object, 'status.phase'))
  if (phase === 'Succeeded' || phase === 'Failed') return 0
  return graceSeconds ?? Number(valueAt(object, 'spec.terminationGracePeriodSeconds') ?? 30)
}
