import type { ResourceType } from './resources.ts'

/** One wrong field, as in `Status.details.causes`. */
export interface Cause {
  readonly reason: string
  readonly message: string
  readonly field: string
}

interface StatusDetails {
  readonly name?: string
  readonly group?: string
  readonly kind?: string
  readonly uid?: string
  readonly causes?: readonly Partial<Cause>[]
  readonly retryAfterSeconds?: number
}

/** The body of every failure (meta/v1 Status). */
export interface FailureStatus {
  readonly kind: 'Status'
  readonly apiVersion: 'v1'
  readonly metadata: Readonly<Record<string, never>>
  readonly status: 'Failure'
  readonly message: string
  readonly reason: string
  readonly details?: StatusDetails
  readonly code: number
}

/** A request the server refuses: carries the Status that the client gets. Never leaves the lab's API server. */
export class ApiError extends Error {
  readonly status: FailureStatus

  constructor(code: number, reason: string, message: string, details?: StatusDetails) {
    super(message)
    this.name = 'ApiError'
    this.status = {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      message,
      reason,
      ...(details === undefined ? {} : { details }),
      code,
    }
  }
}

function detailsOf(type: ResourceType, name: string): StatusDetails {
  return { name, ...(type.group === '' ? {} : { group: type.group }), kind: type.resource }
}

/** `services` or `deployments.apps`, as messages name a resource. */
export function qualified(type: ResourceType): string {
  return type.group === '' ? type.resource : `${type.resource}.${type.group}`
}

export function notFound(type: ResourceType, name: string): ApiError {
  return new ApiError(404, 'NotFound', `${qualified(type)} "${name}" not found`, detailsOf(type, name))
}

export function noSuchPath(): ApiError {
  return new ApiError(404, 'NotFound', 'the server could not find the requested resource', {})
}

export function alreadyExists(type: ResourceType, name: string): ApiError {
  const message = `${qualified(type)} "${name}" already exists`
  return new ApiError(409, 'AlreadyExists', message, detailsOf(type, name))
}

export function conflict(type: ResourceType, name: string, why: string): ApiError {
  const message = `Operation cannot be fulfilled on ${qualified(type)} "${name}": ${why}`
  return new ApiError(409, 'Conflict', message, detailsOf(type, name))
}

export function staleObject(type: ResourceType, name: string): ApiError {
  return conflict(
    type,
    name,
    'the object has been modified; please apply your changes to the latest version and try again',
  )
}

export function forbidden(type: ResourceType, name: string, why: string): ApiError {
  const message = `${qualified(type)} "${name}" is forbidden: ${why}`
  return new ApiError(403, 'Forbidden', message, detailsOf(type, name))
}

export function badRequest(message: string): ApiError {
  return new ApiError(400, 'BadRequest', message)
}

export function methodNotAllowed(): ApiError {
  const message = 'the server does not allow this method on the requested resource'
  return new ApiError(405, 'MethodNotAllowed', message, {})
}

export function unsupportedMediaType(accepted: readonly string[]): ApiError {
  const message = `the body of the request was in an unknown format - accepted media types include: ${accepted.join(', ')}`
  return new ApiError(415, 'UnsupportedMediaType', message)
}

/** The history that the client asks for is gone; it must list again. */
export function expired(message: string): ApiError {
  return new ApiError(410, 'Expired', message)
}

export function revisionTooLarge(wanted: number, current: number): ApiError {
  return new ApiError(504, 'Timeout', `Too large resource version: ${wanted}, current: ${current}`, {
    causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
    retryAfterSeconds: 1,
  })
}

/** Everything wrong with an object, all at once. */
export function invalid(type: ResourceType, name: string, causes: readonly Cause[]): ApiError {
  const parts = causes.map(({ field, message }) => `${field}: ${message}`)
  const text = parts.length === 1 ? parts[0] : `[${parts.join(', ')}]`
  return new ApiError(422, 'Invalid', `${qualifiedKind(type)} "${name}" is invalid: ${text}`, {
    name,
    ...(type.group === '' ? {} : { group: type.group }),
    kind: type.kind,
    causes,
  })
}

function qualifiedKind(type: ResourceType): string {
  return type.group === '' ? type.kind : `${type.kind}.${type.group}`
}

/** Collects the causes of one {@link invalid} answer, in the wording clients know. */
export class Causes {
  readonly all: Cause[] = []

  required(field: string, detail = ''): void {
    this.#add('FieldValueRequired', field, join('Required value', detail))
  }

  invalid(field: string, value: unknown, detail: string): void {
    this.#add('FieldValueInvalid', field, join(`Invalid value: ${show(value)}`, detail))
  }

  notSupported(field: string, value: unknown, supported: readonly string[]): void {
    const list = supported.map((item) => JSON.stringify(item)).join(', ')
    this.#add('FieldValueNotSupported', field, `Unsupported value: ${show(value)}: supported values: ${list}`)
  }

  duplicate(field: string, value: unknown): void {
    this.#add('FieldValueDuplicate', field, `Duplicate value: ${show(value)}`)
  }

  forbidden(field: string, detail: string): void {
    this.#add('FieldValueForbidden', field, join('Forbidden', detail))
  }

  tooMany(field: string, count: number, max: number): void {
    this.#add('FieldValueTooMany', field, `Too many: ${count}: must have at most ${max} items`)
  }

  #add(reason: string, field: string, message: string): void {
    this.all.push({ reason, message, field })
  }
}

function join(head: string, detail: string): string {
  return detail === '' ? head : `${head}: ${detail}`
}

function show(value: unknown): string {
  return JSON.stringify(value) ?? 'null'
}
