import type { Dict } from './json.ts'
import { isDict } from './json.ts'
import type { Field } from './schema.ts'
import { fieldOf } from './schema.ts'

/**
 * The fields of an object as paths, as server-side apply counts them (KEP-555): `f:NAME` for a field, `k:{…}` for an
 * item of a list that has keys, `v:…` for an item of a set, `.` for the item itself. Parts are joined by line feeds,
 * which no part contains.
 */
export type FieldPath = string

const JOIN = '\n'
const ITEM = '.'
/** Metadata that nobody owns: the server sets it, or it says which object is meant. */
const UNOWNED = new Set(
  (
    'name namespace uid resourceVersion generation creationTimestamp selfLink deletionTimestamp ' +
    'deletionGracePeriodSeconds generateName managedFields'
  ).split(' '),
)

/** Every field of an object and its value; `subresource` decides whether that is all but the status, or only that. */
export function flatten(kind: string, object: Dict, subresource: string): Map<FieldPath, unknown> {
  const paths = new Map<FieldPath, unknown>()
  for (const [name, value] of Object.entries(object)) {
    if (name === 'apiVersion' || name === 'kind') continue
    if ((name === 'status') !== (subresource === 'status')) continue
    if (name === 'metadata' && isDict(value)) {
      const owned = Object.entries(value).filter(([key]) => !UNOWNED.has(key))
      if (owned.length > 0) walk(Object.fromEntries(owned), 'ObjectMeta', 'f:metadata', paths)
    } else walkField(value, fieldOf(kind, name), `f:${name}`, paths)
  }
  return paths
}

function walk(value: Dict, shape: string | null, path: string, paths: Map<FieldPath, unknown>): void {
  const entries = Object.entries(value).filter(([, item]) => item !== undefined && item !== null)
  if (entries.length === 0) paths.set(path, {})
  for (const [name, item] of entries) walkField(item, fieldOf(shape, name), `${path}${JOIN}f:${name}`, paths)
}

function walkField(value: unknown, field: Field | null, path: string, paths: Map<FieldPath, unknown>): void {
  if (isDict(value)) walk(value, field?.type ?? null, path, paths)
  else if (Array.isArray(value) && field?.mapKeys != null) {
    for (const item of value as Dict[]) {
      const at = `${path}${JOIN}${itemKey(item, field.mapKeys)}`
      paths.set(`${at}${JOIN}${ITEM}`, ITEM)
      walk(item, field.type, at, paths)
    }
  } else if (Array.isArray(value) && field?.set === true) {
    for (const item of value) paths.set(`${path}${JOIN}v:${JSON.stringify(item)}`, item)
  } else paths.set(path, value)
}

/** `k:{"port":80,"protocol":"TCP"}`; a port without protocol is TCP. */
export function itemKey(item: Dict, keys: readonly string[]): string {
  const parts = keys.map((key) => [key, item[key] ?? (key === 'protocol' ? 'TCP' : null)])
  return `k:${JSON.stringify(Object.fromEntries(parts))}`
}

/** Paths as `managedFields[].fieldsV1` has them: nested maps. */
export function encodeFields(paths: Iterable<FieldPath>): Dict {
  const root: Dict = {}
  for (const path of [...paths].sort()) {
    let at = root
    for (const part of path.split(JOIN)) {
      at[part] ??= {}
      at = at[part] as Dict
    }
  }
  return root
}

/** The reverse of {@link encodeFields}. */
export function decodeFields(fields: unknown): Set<FieldPath> {
  const paths = new Set<FieldPath>()
  const visit = (tree: Dict, path: string): void => {
    const entries = Object.entries(tree)
    if (entries.length === 0 && path !== '') paths.add(path)
    for (const [part, below] of entries)
      visit(isDict(below) ? below : {}, path === '' ? part : `${path}${JOIN}${part}`)
  }
  if (isDict(fields)) visit(fields, '')
  return paths
}

/** Removes fields from an object, which is changed; list items go when the item itself is among the paths. */
export function removeFields(object: Dict, paths: Iterable<FieldPath>): void {
  for (const path of paths) removeOne(object, path.split(JOIN))
}

function removeOne(container: unknown, parts: readonly string[]): void {
  const [part, ...rest] = parts as [string, ...string[]]
  if (Array.isArray(container)) {
    const index = container.findIndex((item) => isItem(item, part))
    if (index < 0) return
    if (part.startsWith('v:') || rest[0] === ITEM) container.splice(index, 1)
    else removeOne(container[index], rest)
    return
  }
  if (!isDict(container)) return
  const name = part.slice('f:'.length)
  if (rest.length === 0) {
    delete container[name]
    return
  }
  removeOne(container[name], rest)
  const left = container[name]
  if (left !== undefined && left !== null && typeof left === 'object' && Object.keys(left).length === 0) {
    delete container[name]
  }
}

function isItem(item: unknown, part: string): boolean {
  const wanted: unknown = JSON.parse(part.slice(2))
  if (part.startsWith('v:')) return item === wanted
  return isDict(item) && isDict(wanted) && itemKey(item, Object.keys(wanted)) === part
}

/** `.spec.ports[port=80,protocol="TCP"].targetPort`, as conflicts are told. */
export function showPath(path: FieldPath): string {
  return path
    .split(JOIN)
    .map((part) => {
      if (part === ITEM) return ''
      if (part.startsWith('f:')) return `.${part.slice(2)}`
      if (part.startsWith('v:')) return `[=${part.slice(2)}]`
      const keys = Object.entries(JSON.parse(part.slice(2)) as Dict)
      return `[${keys.map(([key, value]) => `${key}=${JSON.stringify(value)}`).join(',')}]`
    })
    .join('')
}
