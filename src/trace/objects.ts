import type { Document, LineCounter, Node } from 'yaml'
import { clusterStateFromObjects } from '../cluster/objects.ts'
import { UndecodableObjectError } from '../cluster/fields.ts'
import type { ClusterState, ObjectProblem } from '../cluster/state.ts'
import type { ConfigProblem } from '../shared/errors.ts'
import { ConfigError } from '../shared/errors.ts'
import { looseAliases } from '../shared/yaml-aliases.ts'

/** A file of API objects: YAML (one or more documents) or JSON. */
export interface ObjectFile {
  /** As the user named it, for messages. */
  readonly file: string
  readonly text: string
}

/** What a set of files describes. */
export interface LoadedObjects {
  readonly state: ClusterState
  /** Fields that had to be left out or mended. */
  readonly problems: readonly ObjectProblem[]
  /** Every object of every file, as it stands there; lists are taken apart. */
  readonly objects: readonly unknown[]
}

/**
 * The cluster that these files describe, as seen by one node.
 *
 * @throws ConfigError OBJECTS_INVALID with everything that is wrong, each at its file, line and column
 */
export async function loadObjects(files: readonly ObjectFile[], nodeName: string): Promise<LoadedObjects> {
  const yaml = await import('yaml')
  const problems: ConfigProblem[] = []
  const objects: unknown[] = []
  for (const { file, text } of files) {
    const lines = new yaml.LineCounter()
    const documents = yaml.parseAllDocuments(text, { lineCounter: lines, merge: true })
    if (!Array.isArray(documents)) continue
    for (const document of documents) {
      const found = readDocument(document as Document, { file, lines, nodeName, visit: yaml.visit })
      if (found.problems.length > 0) problems.push(...found.problems)
      else if (found.object !== null) objects.push(...itemsOf(found.object))
    }
  }
  if (problems.length > 0) throw new ConfigError('OBJECTS_INVALID', problems)
  return { ...clusterStateFromObjects(objects, nodeName), objects }
}

function isList(object: unknown): object is { readonly kind: string; readonly items: readonly unknown[] } {
  const { kind, items } = (object ?? {}) as { readonly kind?: unknown; readonly items?: unknown }
  return typeof kind === 'string' && kind.endsWith('List') && Array.isArray(items)
}

/** The items of a list as `kubectl get -o yaml` prints it; any other object is its own and only item. */
function itemsOf(object: unknown): readonly unknown[] {
  if (!isList(object)) return [object]
  const kind = object.kind.slice(0, -'List'.length)
  return object.items.map((item) =>
    kind === '' || typeof item !== 'object' || item === null ? item : { kind, ...item },
  )
}

interface Place {
  readonly file: string
  readonly lines: LineCounter
  readonly nodeName: string
  readonly visit: (typeof import('yaml'))['visit']
}

function readDocument(
  document: Document,
  place: Place,
): { readonly object: unknown; readonly problems: readonly ConfigProblem[] } {
  if (document.errors.length > 0) {
    const problems = document.errors.map(({ pos, message }) =>
      problemAt(
        place,
        pos[0],
        '',
        `not YAML: ${message.split('\n')[0]!.replace(/ at line \d+, column \d+:?$/, '')}`,
      ),
    )
    return { object: null, problems }
  }
  const loose = looseAliases(document, place.visit)
  if (loose.length > 0) {
    return {
      object: null,
      problems: loose.map(({ offset, message }) => problemAt(place, offset, '', message)),
    }
  }
  const object: unknown = document.toJS()
  if (object === null) return { object: null, problems: [] }
  const problems = checkAll(object, place.nodeName).map(({ at, field, message }) => {
    const path = [...at, ...field.replace(/\[.*$/, '').split('.')]
    return problemAt(place, nearest(document, path), [listPath(at), field].filter(Boolean).join('.'), message)
  })
  return problems.length === 0 ? { object, problems } : { object: null, problems }
}

interface Wrong {
  /** Where the object stands in its document: empty, or `items` and a number. */
  readonly at: readonly (string | number)[]
  readonly field: string
  readonly message: string
}

/** What is wrong with an object, or with each item of a list. */
function checkAll(object: unknown, nodeName: string): readonly Wrong[] {
  const items = isList(object) ? itemsOf(object) : [object]
  return items.flatMap((item, i) => {
    const wrong = checkObject(item, nodeName)
    return wrong === null ? [] : [{ ...wrong, at: isList(object) ? ['items', i] : [] }]
  })
}

function listPath([list, i]: readonly (string | number)[]): string {
  return list === undefined ? '' : `${list}[${i}]`
}

function checkObject(
  object: unknown,
  nodeName: string,
): { readonly field: string; readonly message: string } | null {
  const kind = typeof object === 'object' && object !== null ? (object as { kind?: unknown }).kind : undefined
  if (typeof kind !== 'string') {
    return { field: '', message: 'not a Kubernetes object: there is no "kind"' }
  }
  try {
    clusterStateFromObjects([object], nodeName)
    return null
  } catch (error) {
    if (!(error instanceof UndecodableObjectError)) throw error
    return { field: error.field, message: `${error.object}: must be ${error.expected}` }
  }
}

function problemAt(place: Place, offset: number | undefined, path: string, message: string): ConfigProblem {
  const at = offset === undefined ? null : place.lines.linePos(offset)
  return { file: place.file, line: at?.line ?? null, column: at?.col ?? null, path, message }
}

/** Where a field (`spec.ports[].port`) stands, or else the nearest thing around it: the list, for a list's item. */
function nearest(document: Document, path: readonly (string | number)[]): number | undefined {
  for (let length = path.length; length >= 0; length--) {
    const node = (
      length === 0 ? document.contents : document.getIn(path.slice(0, length), true)
    ) as Node | null
    const start = node?.range?.[0]
    if (start !== undefined) return start
  }
  return undefined
}
