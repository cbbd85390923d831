import type { ConfigProblem } from '../shared/errors.ts'
import { parseDuration } from './duration.ts'
import type { Field, FieldKind } from './fields.ts'

/** A field's value: durations in milliseconds, lists of text, free-form objects as they are. */
export type FieldValue =
  string | boolean | number | readonly string[] | Readonly<Record<string, unknown>> | null

/** Where a value was written. */
export interface Origin {
  /** The file, or the flag (`--proxy-mode`). */
  readonly file: string
  readonly line: number | null
  readonly column: number | null
}

export interface Given {
  readonly value: FieldValue
  readonly origin: Origin
}

/** Values by field path; a field that nobody set is not there. */
export type Values = ReadonlyMap<string, Given>

export type Converted =
  { readonly ok: true; readonly value: FieldValue } | { readonly ok: false; readonly why: string }

const WANTED: Readonly<Record<FieldKind, string>> = {
  string: 'text',
  bool: 'true or false',
  int: 'a whole number',
  number: 'a number',
  duration: 'a duration such as 30s or 1h0m0s',
  list: 'a list of texts',
  any: 'a value',
}

/** Brings what a file holds (a plain JavaScript value) into the field's type. */
export function fromDocument(kind: FieldKind, raw: unknown): Converted {
  const ok = (value: FieldValue): Converted => ({ ok: true, value })
  switch (kind) {
    case 'any':
      return ok(raw as FieldValue)
    case 'string':
      return typeof raw === 'string' ? ok(raw) : wrong(kind, raw)
    case 'bool':
      return typeof raw === 'boolean' ? ok(raw) : wrong(kind, raw)
    case 'int':
      return Number.isSafeInteger(raw) ? ok(raw as number) : wrong(kind, raw)
    case 'number':
      return typeof raw === 'number' && Number.isFinite(raw) ? ok(raw) : wrong(kind, raw)
    case 'duration': {
      const ms = typeof raw === 'string' ? parseDuration(raw) : null
      return ms === null ? wrong(kind, raw) : ok(ms)
    }
    case 'list':
      return Array.isArray(raw) && raw.every((item) => typeof item === 'string') ? ok(raw) : wrong(kind, raw)
  }
}

/** Brings a flag's text into the field's type. */
export function fromFlag(kind: FieldKind, text: string): Converted {
  switch (kind) {
    case 'bool':
      if (['true', 'True', 'TRUE', 't', 'T', '1'].includes(text)) return { ok: true, value: true }
      if (['false', 'False', 'FALSE', 'f', 'F', '0'].includes(text)) return { ok: true, value: false }
      return wrong(kind, text)
    case 'int':
    case 'number':
      return text.trim() === '' ? wrong(kind, text) : fromDocument(kind, Number(text))
    case 'list':
      return { ok: true, value: text === '' ? [] : text.split(',') }
    default:
      return fromDocument(kind, text)
  }
}

function wrong(kind: FieldKind, raw: unknown): Converted {
  return { ok: false, why: `${JSON.stringify(raw) ?? String(raw)} is not ${WANTED[kind]}` }
}

/** Everything that is wrong with the given values, field by field. */
export function checkValues(fields: readonly Field[], values: Values): ConfigProblem[] {
  return fields.flatMap((field) => {
    const given = values.get(field.path)
    const why = given === undefined ? null : field.check(given.value)
    return why === null || given === undefined ? [] : [{ ...given.origin, path: field.path, message: why }]
  })
}
