import { ProxyError } from '../shared/errors.ts'

/** Any JSON object. */
export type JsonObject = Readonly<Record<string, unknown>>

/** Returns one shared copy of equal strings, so that names repeated in thousands of objects are kept once. */
export type Intern = (text: string) => string

/** An object whose shape is not that of its kind, so that nothing of it can be trusted. */
export class UndecodableObjectError extends ProxyError {
  readonly object: string
  readonly field: string
  /** What the field should be, e.g. `a number`. */
  readonly expected: string

  constructor(object: string, field: string, expected: string) {
    super(
      'OBJECT_UNDECODABLE',
      `${object}: ${field} is not ${expected}; the object is not understood and the state is read again from the API server`,
    )
    this.object = object
    this.field = field
    this.expected = expected
  }
}

/**
 * An interner that remembers up to `limit` strings and then starts anew, so that names that come and go do not pile
 * up for ever.
 */
export function createInterner(limit = 100_000): Intern {
  const seen = new Map<string, string>()
  return (text) => {
    const known = seen.get(text)
    if (known !== undefined) return known
    if (seen.size >= limit) seen.clear()
    seen.set(text, text)
    return text
  }
}

/** Reads typed fields of one API object; each reader throws {@link UndecodableObjectError} on a value of another type. */
export class FieldReader {
  /** e.g. `Service default/web`; for messages. */
  readonly object: string

  constructor(object: string) {
    this.object = object
  }

  /** The field as an object; empty if absent or null. */
  record(from: JsonObject, key: string, path: string): JsonObject {
    const value = from[key]
    if (value === undefined || value === null) return NOTHING
    if (!isObject(value)) throw this.#wrong(path, 'an object')
    return value
  }

  /** The field as text; `fallback` if absent or null. */
  text<F extends string | null>(from: JsonObject, key: string, path: string, fallback: F): string | F {
    const value = from[key]
    if (value === undefined || value === null) return fallback
    if (typeof value !== 'string') throw this.#wrong(path, 'text')
    return value
  }

  /** The field as a whole number; `fallback` if absent or null. */
  integer<F extends number | null>(from: JsonObject, key: string, path: string, fallback: F): number | F {
    const value = from[key]
    if (value === undefined || value === null) return fallback
    if (typeof value !== 'number' || !Number.isInteger(value)) throw this.#wrong(path, 'a whole number')
    return value
  }

  /** The field as true or false; `fallback` if absent or null. */
  flag(from: JsonObject, key: string, path: string, fallback: boolean): boolean {
    const value = from[key]
    if (value === undefined || value === null) return fallback
    if (typeof value !== 'boolean') throw this.#wrong(path, 'true or false')
    return value
  }

  /** The field as a list of objects; empty if absent or null. */
  records(from: JsonObject, key: string, path: string): readonly JsonObject[] {
    const list = this.#list(from, key, path)
    for (const item of list) if (!isObject(item)) throw this.#wrong(path, 'a list of objects')
    return list as readonly JsonObject[]
  }

  /** The field as a list of text; empty if absent or null. */
  texts(from: JsonObject, key: string, path: string): readonly string[] {
    const list = this.#list(from, key, path)
    for (const item of list) if (typeof item !== 'string') throw this.#wrong(path, 'a list of text')
    return list as readonly string[]
  }

  #list(from: JsonObject, key: string, path: string): readonly unknown[] {
    const value = from[key]
    if (value === undefined || value === null) return EMPTY_LIST
    if (!Array.isArray(value)) throw this.#wrong(path, 'a list')
    return value
  }

  #wrong(path: string, expected: string): UndecodableObjectError {
    return new UndecodableObjectError(this.object, path, expected)
  }
}

/** True for JSON objects; lists and null are none. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

const NOTHING: JsonObject = Object.freeze({})
const EMPTY_LIST: readonly never[] = Object.freeze([])
