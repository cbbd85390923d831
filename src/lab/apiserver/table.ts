import type { Entry } from './entry.ts'
import type { ApiObject } from './json.ts'
import type { ListMeta } from './respond.ts'
import { partial } from './respond.ts'
import type { ResourceType } from './resources.ts'
import { columnsOf } from './columns.ts'

export const TABLE_VERSION = 'meta.k8s.io/v1'

/** One column of the table that `kubectl get` prints. */
export interface Column {
  readonly name: string
  readonly type?: 'string' | 'integer'
  /** Shown only by `-o wide`. */
  readonly wide?: boolean
  readonly cell: (object: ApiObject, now: number) => string | number
}

export interface TableOptions {
  /** Milliseconds since the epoch: ages are counted to here. */
  readonly now: number
  /** apiVersion of the Table. */
  readonly version: string
  /** `Metadata`, `Object` or `None`: what each row carries besides its cells. */
  readonly includeObject: string
}

/** Entries as a server-side table (meta/v1 Table). */
export function tableOf(
  type: ResourceType,
  entries: readonly Entry[],
  meta: ListMeta,
  options: TableOptions,
): object {
  const columns = columnsOf(type)
  return {
    kind: 'Table',
    apiVersion: options.version,
    metadata: meta,
    columnDefinitions: columns.map((column) => ({
      name: column.name,
      type: column.type ?? 'string',
      format: column.name === 'Name' ? 'name' : '',
      description: '',
      priority: column.wide === true ? 1 : 0,
    })),
    rows: entries.map((entry) => {
      const { object } = entry.as(type)
      return {
        cells: columns.map((column) => cellOf(column, entry.object, options.now)),
        ...(options.includeObject === 'None' ? {} : { object: rowObject(object, options.includeObject) }),
      }
    }),
  }
}

/** Objects that were stored raw may lack what a column reads: one odd object must not spoil the whole table. */
function cellOf({ cell }: Column, object: ApiObject, now: number): string | number {
  try {
    return cell(object, now)
  } catch (error) {
    if (error instanceof TypeError) return '<malformed>'
    throw error
  }
}

function rowObject(object: ApiObject, include: string): object {
  return include === 'Object' ? object : partial(object)
}
