import type { Node, YAMLMap } from 'yaml'
import type { ConfigProblem } from '../shared/errors.ts'
import { FIELDS } from './fields.ts'
import { didYouMean } from '../shared/suggest.ts'
import type { Given, Values } from './values.ts'
import { fromDocument } from './values.ts'
import { looseAliases } from '../shared/yaml-aliases.ts'

export const API_VERSION = 'kubeproxy.config.k8s.io/v1alpha1'
export const KIND = 'KubeProxyConfiguration'

/** What a file says: the values it sets, what makes it unusable, and what was passed over. */
export interface ParsedFile {
  readonly values: Values
  readonly problems: readonly ConfigProblem[]
  /**
   * Unknown and repeated fields. kube-proxy reads v1alpha1 strictly, then once more leniently with a warning, because
   * old and tool-made files hold such fields (kubernetes/kubernetes#84143); so do we.
   */
  readonly warnings: readonly ConfigProblem[]
}

const BY_PATH = new Map(FIELDS.map((field) => [field.path, field]))
const SECTIONS = new Set(
  FIELDS.filter(({ path }) => path.includes('.')).map(({ path }) => path.split('.')[0]!),
)

/** Reads a KubeProxyConfiguration file (YAML or JSON). Nothing is thrown: all problems come back together. */
export async function parseConfigFile(text: string, file: string): Promise<ParsedFile> {
  const yaml = await import('yaml')
  const lineCounter = new yaml.LineCounter()
  const documents = yaml.parseAllDocuments(text, { lineCounter, uniqueKeys: false, merge: true })
  const at = (offset: number | undefined): { file: string; line: number | null; column: number | null } => {
    if (offset === undefined) return { file, line: null, column: null }
    const { line, col } = lineCounter.linePos(offset)
    return { file, line, column: col }
  }
  const document = Array.isArray(documents) ? documents[0] : undefined
  if (document === undefined || document.contents === null) {
    return { values: new Map(), problems: [{ ...at(0), path: '', message: EMPTY }], warnings: [] }
  }
  const loose = looseAliases(document, yaml.visit).map(({ offset, message }) => ({ pos: [offset], message }))
  const errors = [...document.errors, ...loose]
  if (errors.length > 0) {
    const problems = errors.map(({ pos, message }) => ({
      ...at(pos[0]),
      path: '',
      message: `not YAML: ${message.split('\n')[0]!.replace(/ at line \d+, column \d+:?$/, '')}`,
    }))
    return { values: new Map(), problems, warnings: [] }
  }
  if (!yaml.isMap(document.contents)) {
    return { values: new Map(), problems: [{ ...at(0), path: '', message: NOT_A_MAP }], warnings: [] }
  }
  const reading: Reading = {
    values: new Map(),
    problems: [],
    warnings: [],
    at,
    isMap: yaml.isMap,
    toJs: (node) => node.toJS(document) as unknown,
  }
  readMap(reading, document.contents, '')
  checkType(reading, document.contents)
  return reading
}

const EMPTY = `the file is empty; it must be a ${KIND} of ${API_VERSION}`
const NOT_A_MAP = `the document is no mapping; it must be a ${KIND} of ${API_VERSION}`

interface Reading {
  readonly values: Map<string, Given>
  readonly problems: ConfigProblem[]
  readonly warnings: ConfigProblem[]
  readonly at: (offset: number | undefined) => { file: string; line: number | null; column: number | null }
  readonly isMap: (node: unknown) => node is YAMLMap
  readonly toJs: (node: Node) => unknown
}

function readMap(reading: Reading, map: YAMLMap, prefix: string): void {
  const seen = new Set<string>()
  for (const pair of map.items) {
    const key = pair.key as Node & { readonly value?: unknown }
    const name = String(key.value ?? key)
    const path = prefix === '' ? name : `${prefix}.${name}`
    const origin = reading.at(key.range?.[0])
    if (seen.has(name)) {
      reading.warnings.push({ ...origin, path, message: 'is given more than once; the last value counts' })
    }
    seen.add(name)
    readField(reading, path, pair.value as Node | null, origin)
  }
}

function readField(reading: Reading, path: string, node: Node | null, origin: Given['origin']): void {
  if (path === 'apiVersion' || path === 'kind') return
  const field = BY_PATH.get(path)
  const raw = node === null ? null : reading.toJs(node)
  if (field === undefined && SECTIONS.has(path)) {
    if (reading.isMap(node)) readMap(reading, node, path)
    else if (raw !== null)
      reading.problems.push({ ...origin, path, message: `${JSON.stringify(raw)} is no mapping of fields` })
    return
  }
  if (field === undefined) {
    const known = [...BY_PATH.keys(), ...SECTIONS].map((other) => other.split('.').at(-1)!)
    const hint = didYouMean(path.split('.').at(-1)!, known)
    reading.warnings.push({ ...origin, path, message: `is no field of ${KIND} and is passed over${hint}` })
    return
  }
  if (raw === null) {
    reading.values.delete(path) // null selects the default, as upstream's decoder does
    return
  }
  const converted = fromDocument(field.kind, raw)
  const valueOrigin = reading.at(node?.range?.[0])
  if (converted.ok) reading.values.set(path, { value: converted.value, origin: valueOrigin })
  else reading.problems.push({ ...valueOrigin, path, message: converted.why })
}

function checkType(reading: Reading, root: YAMLMap): void {
  for (const [name, wanted] of [
    ['apiVersion', API_VERSION],
    ['kind', KIND],
  ] as const) {
    const pair = root.items.find(({ key }) => (key as { readonly value?: unknown }).value === name)
    const node = pair?.value as Node | null | undefined
    const found = node ? reading.toJs(node) : undefined
    if (found === wanted) continue
    const message =
      found === undefined
        ? `is missing; it must be ${wanted}`
        : `${JSON.stringify(found)} is not known; it must be ${wanted}`
    reading.problems.unshift({ ...reading.at(node?.range?.[0] ?? 0), path: name, message })
  }
}
