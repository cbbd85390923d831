import type { Dict } from './json.ts'
import { clone, equal, isDict } from './json.ts'
import { ApiError, badRequest } from './status.ts'

interface Operation {
  readonly op: string
  readonly path: string
  readonly from?: string
  readonly value?: unknown
}

/** Applies an RFC 6902 patch to a copy of `target`; fails with 400 when malformed, 422 when it does not fit. */
export function applyJsonPatch(target: Dict, patch: unknown): Dict {
  if (!Array.isArray(patch)) throw badRequest('error decoding patch: a JSON patch is an array of operations')
  const holder: Dict = { root: clone(target) }
  for (const operation of patch as Operation[]) applyOne(holder, operation)
  if (!isDict(holder['root'])) throw unfit('', 'the patch replaces the object by something else')
  return holder['root']
}

function applyOne(holder: Dict, { op, path, from, value }: Operation): void {
  switch (op) {
    case 'add':
      return place(holder, path, clone(value))
    case 'remove':
      take(holder, path)
      return
    case 'replace':
      read(holder, path)
      return replace(holder, path, clone(value))
    case 'move':
      return place(holder, path, take(holder, from ?? ''))
    case 'copy':
      return place(holder, path, clone(read(holder, from ?? '')))
    case 'test':
      if (!equal(read(holder, path), value)) throw unfit(path, `testing value failed: test failed`)
      return
    default:
      throw badRequest(`error decoding patch: unexpected kind: ${op}`)
  }
}

function unfit(path: string, why: string): ApiError {
  return new ApiError(
    422,
    'Invalid',
    `the server rejected our request due to an error in our request: ${path}: ${why}`,
    {},
  )
}

function pointer(path: string): string[] {
  if (path !== '' && !path.startsWith('/')) throw badRequest(`error decoding patch: invalid pointer ${path}`)
  return [
    'root',
    ...path
      .split('/')
      .slice(1)
      .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~')),
  ]
}

/** The container that holds the last part of a path. */
function parentOf(holder: Dict, path: string): { parent: Dict | unknown[]; last: string } {
  const parts = pointer(path)
  let parent: unknown = holder
  for (const part of parts.slice(0, -1)) {
    parent = Array.isArray(parent)
      ? parent[indexOf(part, parent.length - 1, path)]
      : isDict(parent)
        ? parent[part]
        : undefined
  }
  if (!isDict(parent) && !Array.isArray(parent)) throw unfit(path, 'missing path')
  return { parent, last: parts.at(-1)! }
}

function indexOf(part: string, max: number, path: string): number {
  const index = /^(0|[1-9]\d*)$/.test(part) ? Number(part) : -1
  if (index < 0 || index > max) throw unfit(path, `invalid index ${part}`)
  return index
}

function read(holder: Dict, path: string): unknown {
  const { parent, last } = parentOf(holder, path)
  if (Array.isArray(parent)) return parent[indexOf(last, parent.length - 1, path)]
  if (!(last in parent)) throw unfit(path, 'missing path')
  return parent[last]
}

function place(holder: Dict, path: string, value: unknown): void {
  const { parent, last } = parentOf(holder, path)
  if (!Array.isArray(parent)) parent[last] = value
  else parent.splice(last === '-' ? parent.length : indexOf(last, parent.length, path), 0, value)
}

function replace(holder: Dict, path: string, value: unknown): void {
  const { parent, last } = parentOf(holder, path)
  if (Array.isArray(parent)) parent[indexOf(last, parent.length - 1, path)] = value
  else parent[last] = value
}

function take(holder: Dict, path: string): unknown {
  const value = read(holder, path)
  const { parent, last } = parentOf(holder, path)
  if (Array.isArray(parent)) parent.splice(Number(last), 1)
  else delete parent[last]
  return value
}
