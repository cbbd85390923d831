import type { ApiObject } from './json.ts'
import { RESOURCES, apiVersionOf } from './resources.ts'
import type { ResourceType } from './resources.ts'
import { eventToV1Events } from './event-versions.ts'

export type ChangeType = 'ADDED' | 'MODIFIED' | 'DELETED'

/**
 * One version of one object and its bytes. Each form is serialised at most once, on first use, and shared by every
 * list and watch after that: this is what makes one patch to ten thousand watched objects cheap.
 */
export class Entry {
  readonly key: string
  readonly object: ApiObject
  readonly revision: number
  #json: Buffer | null = null
  #otherVersion: Entry | null = null
  readonly #frames = new Map<ChangeType, Buffer>()

  constructor(key: string, object: ApiObject, revision: number) {
    this.key = key
    this.object = object
    this.revision = revision
  }

  /** The object as JSON, `kind` and `apiVersion` first. */
  json(): Buffer {
    this.#json ??= Buffer.from(JSON.stringify(this.object))
    return this.#json
  }

  /** One line of a watch stream. */
  frame(type: ChangeType): Buffer {
    let frame = this.#frames.get(type)
    if (frame === undefined) {
      frame = Buffer.concat([Buffer.from(`{"type":"${type}","object":`), this.json(), Buffer.from('}\n')])
      this.#frames.set(type, frame)
    }
    return frame
  }

  /** This object in the version that `type` names; itself for the version it is stored in. */
  as(type: ResourceType): Entry {
    if (type !== RESOURCES.eventsV1) return this
    this.#otherVersion ??= new Entry(this.key, eventToV1Events(this.object), this.revision)
    return this.#otherVersion
  }
}

/** Something that happened to a collection. `before` is null for ADDED; `after` carries the last state for DELETED. */
export interface Change {
  readonly type: ChangeType
  readonly revision: number
  readonly before: Entry | null
  readonly after: Entry
}

/** The bytes of `{"kind":…,"apiVersion":…,` that items of a list do without. */
export function headLength(type: ResourceType): number {
  return Buffer.byteLength(
    JSON.stringify({ kind: type.kind, apiVersion: apiVersionOf(type) }).slice(0, -1) + ',',
  )
}
