import type { FieldPath } from './field-set.ts'
import { decodeFields, encodeFields, flatten } from './field-set.ts'
import type { ApiObject } from './json.ts'
import { equal, listOf } from './json.ts'
import { apiVersionOf } from './resources.ts'
import type { ResourceType } from './resources.ts'

export interface Writing {
  readonly manager: string
  readonly subresource: string
}

/** One entry of `metadata.managedFields`. */
export interface ManagedEntry {
  readonly manager: string
  readonly operation: 'Apply' | 'Update'
  readonly apiVersion: string
  readonly time: string
  readonly fieldsType: 'FieldsV1'
  readonly fieldsV1: unknown
  readonly subresource?: string
}

export function managedEntries(object: ApiObject | null): ManagedEntry[] {
  return listOf<ManagedEntry>(object?.metadata.managedFields).filter((entry) => entry.manager !== undefined)
}

export function isSameManager(
  entry: ManagedEntry,
  operation: ManagedEntry['operation'],
  { manager, subresource }: Writing,
): boolean {
  return (
    entry.manager === manager && entry.operation === operation && (entry.subresource ?? '') === subresource
  )
}

export function newEntry(
  type: ResourceType,
  operation: ManagedEntry['operation'],
  { manager, subresource }: Writing,
  paths: Iterable<FieldPath>,
  time: string,
): ManagedEntry {
  return {
    manager,
    operation,
    apiVersion: apiVersionOf(type),
    time,
    fieldsType: 'FieldsV1',
    fieldsV1: encodeFields(paths),
    ...(subresource === '' ? {} : { subresource }),
  }
}

/** The entry without some paths; null when nothing is left of it. */
export function withoutPaths(entry: ManagedEntry, gone: (path: FieldPath) => boolean): ManagedEntry | null {
  const paths = decodeFields(entry.fieldsV1)
  const kept = [...paths].filter((path) => !gone(path))
  if (kept.length === paths.size) return entry
  return kept.length === 0 ? null : { ...entry, fieldsV1: encodeFields(kept) }
}

/**
 * Records what a plain write changed as owned by its manager: who changes a field takes it from everybody else, and
 * a field that is gone belongs to nobody.
 */
export function trackUpdate(
  type: ResourceType,
  object: ApiObject,
  old: ApiObject | null,
  writing: Writing,
  time: string,
): void {
  const before = old === null ? new Map<FieldPath, unknown>() : flatten(type.kind, old, writing.subresource)
  const after = flatten(type.kind, object, writing.subresource)
  const changed = new Set<FieldPath>()
  for (const [path, value] of after) {
    if (!before.has(path) || !equal(before.get(path), value)) changed.add(path)
  }
  const gone = (path: FieldPath): boolean => changed.has(path) || (before.has(path) && !after.has(path))
  const entries: ManagedEntry[] = []
  let own = changed
  for (const entry of managedEntries(object)) {
    if (isSameManager(entry, 'Update', writing)) {
      own = new Set([...decodeFields(entry.fieldsV1), ...changed].filter((path) => after.has(path)))
    } else {
      const kept = withoutPaths(entry, gone)
      if (kept !== null) entries.push(kept)
    }
  }
  if (own.size > 0) entries.push(newEntry(type, 'Update', writing, own, time))
  if (entries.length > 0) object.metadata.managedFields = entries
  else delete object.metadata.managedFields
}
