import type { Dict } from './json.ts'
import { isDict } from './json.ts'
import { SHAPES } from './schema-types.ts'

/** One field of a shape, read from its line in {@link SHAPES}. */
export interface Field {
  /** Scalar type or shape name, without `[]`. */
  readonly type: string
  readonly list: boolean
  /** Key of a strategic merge; null: the list is replaced. */
  readonly patchKey: string | null
  /** Keys of an associative list; null: atomic, unless `set`. */
  readonly mapKeys: readonly string[] | null
  readonly set: boolean
}

const FIELDS = new Map<string, ReadonlyMap<string, Field>>(
  Object.entries(SHAPES).map(([name, fields]) => [
    name,
    new Map(Object.entries(fields).map(([field, line]) => [field, parseField(line)])),
  ]),
)

function parseField(line: string): Field {
  const [type, ...options] = line.split(' ') as [string, ...string[]]
  const option = (name: string): string | null =>
    options.find((each) => each.startsWith(`${name}=`))?.slice(name.length + 1) ?? null
  return {
    type: type.replace('[]', ''),
    list: type.startsWith('[]'),
    patchKey: option('patch'),
    mapKeys: option('map')?.split(',') ?? null,
    set: options.includes('set'),
  }
}

/** The fields of a shape; null for scalars and what is not described. */
export function fieldsOf(shape: string | null): ReadonlyMap<string, Field> | null {
  return shape === null ? null : (FIELDS.get(shape) ?? null)
}

/** A field of a shape; every kind also has apiVersion and kind. */
export function fieldOf(shape: string | null, name: string): Field | null {
  return fieldsOf(shape)?.get(name) ?? null
}

export interface FieldProblems {
  /** Dotted paths that the kind does not have. */
  readonly unknown: string[]
  /** Values of a wrong type, said as the decoder says it. */
  readonly mistyped: string[]
}

/** Compares an object with the shape of its kind. */
export function checkFields(kind: string, object: Dict): FieldProblems {
  const problems: FieldProblems = { unknown: [], mistyped: [] }
  const { apiVersion: _a, kind: _k, ...rest } = object
  checkShape(kind, rest, '', kind, problems)
  return problems
}

function checkShape(shape: string, value: Dict, path: string, kind: string, problems: FieldProblems): void {
  const fields = fieldsOf(shape)
  if (fields === null) return
  for (const [name, item] of Object.entries(value)) {
    const at = path === '' ? name : `${path}.${name}`
    const field = fields.get(name)
    if (field === undefined) problems.unknown.push(at)
    else if (item !== null) checkValue(field, item, at, kind, problems)
  }
}

function checkValue(field: Field, value: unknown, path: string, kind: string, problems: FieldProblems): void {
  if (field.list) {
    if (!Array.isArray(value)) problems.mistyped.push(mistyped(value, kind, path, `list of ${field.type}`))
    else {
      const item = { ...field, list: false }
      for (const [i, each] of value.entries()) checkValue(item, each, `${path}[${i}]`, kind, problems)
    }
  } else if (!fits(field.type, value)) {
    problems.mistyped.push(mistyped(value, kind, path, field.type))
  } else if (isDict(value)) {
    checkShape(field.type, value, path, kind, problems)
  }
}

function fits(type: string, value: unknown): boolean {
  switch (type) {
    case 'any':
      return true
    case 'string':
    case 'time':
      return typeof value === 'string'
    case 'int':
      return typeof value === 'number' && Number.isInteger(value)
    case 'bool':
      return typeof value === 'boolean'
    case 'intstr':
      return typeof value === 'string' || (typeof value === 'number' && Number.isInteger(value))
    case 'map':
      return isDict(value) && Object.values(value).every((each) => typeof each === 'string')
    default:
      return isDict(value)
  }
}

function mistyped(value: unknown, kind: string, path: string, type: string): string {
  const what = Array.isArray(value) ? 'array' : isDict(value) ? 'object' : typeof value
  const field = path.replaceAll(/\[\d+\]/g, '')
  return `json: cannot unmarshal ${what} into Go struct field ${kind}.${field} of type ${type}`
}
