import type { ApiObject } from './json.ts'
import type { NameRule } from './names.ts'
import type { Causes } from './status.ts'

/** What is particular to one kind when it is written. All functions may change `object`, which is a private copy. */
export interface Strategy {
  readonly nameRule: NameRule
  /** Writes to the object itself leave its status alone; only /status changes it. */
  readonly ownStatus: boolean
  /** Status a new object begins with; null: what the client sent. */
  readonly initialStatus: object | null
  /** Whether `metadata.generation` counts the changes of everything but metadata and status. */
  readonly generation: boolean
  /** Whether an update must say which version it is based on. */
  readonly versionedUpdates: boolean
  /** Fills in what the client left out; `old` is null on creation. */
  readonly prepare: (object: ApiObject, old: ApiObject | null) => void
  readonly validate: (object: ApiObject, old: ApiObject | null, causes: Causes) => void
  /** Gives out addresses and ports once everything else is found right. */
  readonly allocate: (object: ApiObject, old: ApiObject | null, causes: Causes) => void
}

const nothing = (): void => {}

/** A kind without anything particular. */
export const PLAIN: Strategy = {
  nameRule: 'subdomain',
  ownStatus: false,
  initialStatus: null,
  generation: false,
  versionedUpdates: false,
  prepare: nothing,
  validate: nothing,
  allocate: nothing,
}
