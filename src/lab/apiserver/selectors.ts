import type { ApiObject } from './json.ts'
import { valueAt } from './json.ts'
import type { ResourceType } from './resources.ts'
import { badRequest } from './status.ts'

/** Says whether an object is selected. */
export type Matcher = (object: ApiObject) => boolean

type Labels = Readonly<Record<string, string>>
type LabelTest = (labels: Labels) => boolean

const SET = /^\s*([^\s!=(),]+)\s+(in|notin)\s*\(([^()]*)\)\s*$/
const EQUALITY = /^\s*([^\s!=(),]+)\s*(==|=|!=)\s*([^\s!=(),]*)\s*$/
const EXISTS = /^\s*(!?)\s*([^\s!=(),]+)\s*$/

/** Reads `a=b,c!=d,e in (f,g),h notin (i),j,!k`; fails with 400. */
export function parseLabelSelector(text: string): LabelTest | null {
  if (text.trim() === '') return null
  const tests = splitOutsideParentheses(text).map(parseRequirement)
  return (labels) => tests.every((test) => test(labels))
}

function splitOutsideParentheses(text: string): string[] {
  return text.split(/,(?![^(]*\))/)
}

function parseRequirement(text: string): LabelTest {
  const set = SET.exec(text)
  if (set !== null) {
    const [, key, operator, list] = set as unknown as [string, string, string, string]
    const values = new Set(list.split(',').map((value) => value.trim()))
    if (operator === 'in') return (labels) => labels[key] !== undefined && values.has(labels[key])
    return (labels) => labels[key] === undefined || !values.has(labels[key])
  }
  const equality = EQUALITY.exec(text)
  if (equality !== null) {
    const [, key, operator, value] = equality as unknown as [string, string, string, string]
    return operator === '!=' ? (labels) => labels[key] !== value : (labels) => labels[key] === value
  }
  const exists = EXISTS.exec(text)
  if (exists !== null) {
    const [, not, key] = exists as unknown as [string, string, string]
    return (labels) => (labels[key] !== undefined) === (not === '')
  }
  throw badRequest(
    `unable to parse requirement: found ${JSON.stringify(text.trim())}, expected: a label requirement`,
  )
}

const EVERY_RESOURCE = ['metadata.name', 'metadata.namespace']
const FIELDS: Readonly<Record<string, readonly string[]>> = {
  services: ['spec.clusterIP', 'spec.type'],
  nodes: ['spec.unschedulable'],
  namespaces: ['status.phase'],
  pods: [
    'spec.nodeName',
    'spec.restartPolicy',
    'spec.schedulerName',
    'spec.serviceAccountName',
    'spec.hostNetwork',
    'status.phase',
    'status.podIP',
    'status.nominatedNodeName',
  ],
  events: [
    'involvedObject.kind',
    'involvedObject.namespace',
    'involvedObject.name',
    'involvedObject.uid',
    'involvedObject.apiVersion',
    'involvedObject.resourceVersion',
    'involvedObject.fieldPath',
    'regarding.kind',
    'regarding.namespace',
    'regarding.name',
    'regarding.uid',
    'reason',
    'reportingComponent',
    'reportingController',
    'source',
    'type',
  ],
}

/** The metadata.name that a field selector demands, if it does: lets a watch on one object be cheap. */
export interface FieldSelector {
  readonly matches: Matcher
  readonly name: string | null
}

/** Reads `metadata.name=a,status.phase!=Failed`; an unknown field fails with 400, as upstream. */
export function parseFieldSelector(type: ResourceType, text: string): FieldSelector | null {
  if (text.trim() === '') return null
  let name: string | null = null
  const tests = text
    .split(',')
    .filter((part) => part.trim() !== '')
    .map((part): Matcher => {
      const match = /^\s*([\w.]+)\s*(==|=|!=)(.*)$/.exec(part)
      if (match === null) throw badRequest(`invalid selector: '${text}'; can't understand '${part}'`)
      const [, path, operator, raw] = match as unknown as [string, string, string, string]
      if (!EVERY_RESOURCE.includes(path) && FIELDS[type.resource]?.includes(path) !== true) {
        throw badRequest(`field label not supported: ${path}`)
      }
      const value = raw.trim()
      const wanted = operator !== '!='
      if (path === 'metadata.name' && wanted) name = value
      const stored = path.replace(/^regarding\./, 'involvedObject.')
      return (object) => (fieldText(object, stored) === value) === wanted
    })
  return { matches: (object) => tests.every((test) => test(object)), name }
}

function fieldText(object: ApiObject, path: string): string {
  if (path === 'source') return String(valueAt(object, 'source.component') ?? '')
  const value = valueAt(object, path)
  return value === undefined || value === null ? '' : String(value as string | number | boolean)
}

/** Both selectors of a list or watch together; null selects everything. */
export function matcherOf(type: ResourceType, query: URLSearchParams): Matcher | null {
  const labels = parseLabelSelector(query.get('labelSelector') ?? '')
  const fields = parseFieldSelector(type, query.get('fieldSelector') ?? '')
  if (labels === null) return fields === null ? null : fields.matches
  return (object) => labels(object.metadata.labels ?? {}) && (fields === null || fields.matches(object))
}

/** True if all of `selector` is in `labels`; an empty selector selects nothing here, as for Services. */
export function selects(selector: Labels | undefined, labels: Labels | undefined): boolean {
  if (selector === undefined) return false
  const wanted = Object.entries(selector)
  return wanted.length > 0 && wanted.every(([key, value]) => labels?.[key] === value)
}
