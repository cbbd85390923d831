import type { FieldPath } from './field-set.ts'
import { decodeFields, flatten, itemKey, removeFields, showPath } from './field-set.ts'
import type { ApiObject, Dict } from './json.ts'
import { clone, equal, isDict, listOf } from './json.ts'
import type { ManagedEntry, Writing } from './managed-fields.ts'
import { isSameManager, managedEntries, newEntry, withoutPaths } from './managed-fields.ts'
import type { ResourceType } from './resources.ts'
import { qualified, ApiError } from './status.ts'
import type { Field } from './schema.ts'
import { fieldOf } from './schema.ts'

export interface ApplyOptions extends Writing {
  /** Take over fields that others own. */
  readonly force: boolean
  readonly time: string
}

/**
 * Server-side apply (KEP-555): merges a configuration into what is there, removes what this manager applied before
 * and no longer does, and records who owns what.
 * @throws ApiError 409 listing the fields that others own, unless forced.
 */
export function serverSideApply(
  type: ResourceType,
  old: ApiObject | null,
  config: ApiObject,
  options: ApplyOptions,
): ApiObject {
  const applied = flatten(type.kind, config, options.subresource)
  const live = old === null ? new Map<FieldPath, unknown>() : flatten(type.kind, old, options.subresource)
  const entries = managedEntries(old)
  const previous = entries.find((entry) => isSameManager(entry, 'Apply', options)) ?? null
  const others = entries.filter((entry) => entry !== previous)
  const taken = conflicts(applied, live, others)
  if (taken.length > 0 && !options.force) throw conflictError(type, config.metadata.name, taken)

  const object = (old === null ? clone(config) : mergeDict(old, config, type.kind)) as ApiObject
  if (old !== null) object.metadata = { ...object.metadata, ...fixedMetadata(old, config) }
  if (previous !== null) {
    const owned = new Set(others.flatMap((entry) => [...decodeFields(entry.fieldsV1)]))
    const dropped = [...decodeFields(previous.fieldsV1)].filter(
      (path) => !applied.has(path) && !owned.has(path),
    )
    removeFields(object, dropped)
  }
  const lost = new Set(taken.map(({ path }) => path))
  const kept = others
    .map((entry) => withoutPaths(entry, (path) => lost.has(path)))
    .filter((entry) => entry !== null)
  const entry = newEntry(type, 'Apply', options, applied.keys(), options.time)
  const same = previous !== null && equal(previous.fieldsV1, entry.fieldsV1)
  object.metadata.managedFields = [...kept, same ? previous : entry]
  return object
}

interface Conflict {
  readonly path: FieldPath
  readonly entry: ManagedEntry
}

/** Fields whose value would change although somebody else owns them. */
function conflicts(
  applied: ReadonlyMap<FieldPath, unknown>,
  live: ReadonlyMap<FieldPath, unknown>,
  others: readonly ManagedEntry[],
): Conflict[] {
  return others.flatMap((entry) =>
    [...decodeFields(entry.fieldsV1)]
      .filter((path) => applied.has(path) && live.has(path) && !equal(applied.get(path), live.get(path)))
      .map((path) => ({ path, entry })),
  )
}

function conflictError(type: ResourceType, name: string, all: readonly Conflict[]): ApiError {
  const managers = [...new Set(all.map(({ entry }) => entry.manager))]
  const list = managers.map((manager) => {
    const paths = all.filter(({ entry }) => entry.manager === manager).map(({ path }) => showPath(path))
    return `conflict with ${JSON.stringify(manager)}: ${paths.join(', ')}`
  })
  const message =
    all.length === 1
      ? `Apply failed with 1 conflict: ${list[0]}`
      : `Apply failed with ${all.length} conflicts: ${list.join('; ')}`
  const causes = all.map(({ path, entry }) => ({
    reason: 'FieldManagerConflict',
    message: `conflict with ${JSON.stringify(entry.manager)} using ${entry.apiVersion}`,
    field: showPath(path),
  }))
  return new ApiError(409, 'Conflict', message, { name, kind: qualified(type), causes })
}

/** What an applied configuration cannot change of the metadata, and the version it may be based on. */
function fixedMetadata(old: ApiObject, config: ApiObject): Dict {
  const { uid, creationTimestamp } = old.metadata
  const resourceVersion = config.metadata.resourceVersion ?? old.metadata.resourceVersion
  return { uid, creationTimestamp, resourceVersion }
}

function mergeDict(live: Dict, config: Dict, shape: string | null): Dict {
  const result: Dict = clone(live)
  for (const [name, value] of Object.entries(config)) {
    if (value === null || value === undefined) continue
    const field = name === 'metadata' && isDict(value) ? METADATA : fieldOf(shape, name)
    result[name] = mergeValue(result[name], value, field)
  }
  return result
}

const METADATA: Field = { type: 'ObjectMeta', list: false, patchKey: null, mapKeys: null, set: false }

function mergeValue(live: unknown, value: unknown, field: Field | null): unknown {
  if (isDict(value)) return mergeDict(isDict(live) ? live : {}, value, field?.type ?? null)
  if (!Array.isArray(value)) return value
  if (field?.set === true) return [...listOf(live), ...value.filter((item) => !listOf(live).includes(item))]
  const keys = field?.mapKeys ?? null
  if (keys === null) return clone(value)
  const items = new Map(listOf<Dict>(live).map((item) => [itemKey(item, keys), item]))
  for (const item of value as Dict[]) {
    const key = itemKey(item, keys)
    items.set(key, mergeDict(items.get(key) ?? {}, item, field?.type ?? null))
  }
  return [...items.values()]
}
