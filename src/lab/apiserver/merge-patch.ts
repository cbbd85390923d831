import type { Dict } from './json.ts'
import { clone, equal, isDict, listOf } from './json.ts'
import type { Field } from './schema.ts'
import { fieldOf } from './schema.ts'
import { badRequest } from './status.ts'

/** Applies an RFC 7386 merge patch; null removes. Neither argument is changed. */
export function applyMergePatch(target: unknown, patch: unknown): unknown {
  if (!isDict(patch)) return clone(patch)
  const result: Dict = isDict(target) ? { ...target } : {}
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key]
    else result[key] = applyMergePatch(result[key], value)
  }
  return result
}

const DIRECTIVE = '$patch'
const DELETE_PRIMITIVES = '$deleteFromPrimitiveList/'
const ORDER = '$setElementOrder/'
const RETAIN_KEYS = '$retainKeys'

/**
 * Applies a strategic merge patch: like a merge patch, but lists that have a merge key are joined by it, and `$patch`,
 * `$deleteFromPrimitiveList/…`, `$setElementOrder/…` and `$retainKeys` are obeyed. `shape` says which lists those are.
 */
export function applyStrategicPatch(target: Dict, patch: Dict, shape: string | null): Dict {
  const directive = patch[DIRECTIVE]
  if (directive === 'replace') return clone(without(patch, DIRECTIVE))
  if (directive === 'delete') return {}
  const result: Dict = { ...target }
  if (Array.isArray(patch[RETAIN_KEYS])) {
    const keep = new Set(patch[RETAIN_KEYS])
    for (const key of Object.keys(result)) if (!keep.has(key)) delete result[key]
  }
  for (const [key, value] of Object.entries(patch)) {
    if (key.startsWith('$')) continue
    if (value === null) delete result[key]
    else result[key] = mergeValue(result[key], value, fieldOf(shape, key))
  }
  for (const [key, value] of Object.entries(patch)) applyListDirective(result, key, value)
  arrangeLists(result, target, patch, shape)
  return result
}

function without(patch: Dict, key: string): Dict {
  const { [key]: _, ...rest } = patch
  return rest
}

function mergeValue(old: unknown, value: unknown, field: Field | null): unknown {
  if (isDict(value)) return applyStrategicPatch(isDict(old) ? old : {}, value, field?.type ?? null)
  if (!Array.isArray(value)) return value
  if (field?.patchKey != null)
    return mergeByKey(listOf<Dict>(old), value as Dict[], field.patchKey, field.type)
  if (field?.set === true && field.type === 'string') {
    return [...listOf(old), ...value.filter((item) => !listOf(old).includes(item))]
  }
  return clone(value)
}

function mergeByKey(old: readonly Dict[], patch: readonly Dict[], key: string, shape: string): Dict[] {
  const replaceAll = patch.some((item) => item[DIRECTIVE] === 'replace')
  let result = replaceAll ? [] : [...old]
  for (const item of patch) {
    if (item[DIRECTIVE] === 'replace') continue
    if (!isDict(item) || item[key] === undefined) {
      throw badRequest(`map: ${JSON.stringify(item)} does not contain declared merge key: ${key}`)
    }
    const same = (each: Dict): boolean => equal(each[key], item[key])
    if (item[DIRECTIVE] === 'delete') {
      result = result.filter((each) => !same(each))
      continue
    }
    const index = result.findIndex(same)
    if (index < 0) result.push(applyStrategicPatch({}, item, shape))
    else result[index] = applyStrategicPatch(result[index]!, item, shape)
  }
  return result
}

function applyListDirective(result: Dict, key: string, value: unknown): void {
  if (!key.startsWith(DELETE_PRIMITIVES)) return
  const name = key.slice(DELETE_PRIMITIVES.length)
  const gone = listOf(value)
  result[name] = listOf(result[name]).filter((item) => !gone.includes(item))
}

/** Joined lists get the order that the patch names, or else that of the patch's own items. */
function arrangeLists(result: Dict, target: Dict, patch: Dict, shape: string | null): void {
  const names = new Set(
    Object.keys(patch).map((key) => (key.startsWith(ORDER) ? key.slice(ORDER.length) : key)),
  )
  for (const name of names) {
    const field = fieldOf(shape, name)
    const list = result[name]
    if (!Array.isArray(list) || field === null || (field.patchKey === null && !field.set)) continue
    const order = patch[ORDER + name] ?? patch[name]
    result[name] = arranged(list, listOf(target[name]), listOf(order), field.patchKey)
  }
}

/**
 * Items that the patch names, in its order, with the others woven in: one of those comes before a named item only if
 * it did so before. New items therefore come first, as people know it from `kubectl patch`.
 */
function arranged(
  items: readonly unknown[],
  before: readonly unknown[],
  order: readonly unknown[],
  key: string | null,
): unknown[] {
  const idOf = (item: unknown): unknown => (key !== null && isDict(item) ? item[key] : item)
  const rank = new Map(order.map((item, i) => [idOf(item), i]))
  const place = new Map(before.map((item, i) => [idOf(item), i]))
  const named = items.filter((item) => rank.has(idOf(item)))
  named.sort((a, b) => rank.get(idOf(a))! - rank.get(idOf(b))!)
  const others = items.filter((item) => !rank.has(idOf(item)))
  const result: unknown[] = []
  for (const item of named) {
    const limit = place.get(idOf(item)) ?? -1
    while (others.length > 0 && (place.get(idOf(others[0])) ?? Infinity) < limit) result.push(others.shift())
    result.push(item)
  }
  return [...result, ...others]
}
