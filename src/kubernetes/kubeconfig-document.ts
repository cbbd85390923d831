import { LineCounter, isMap, isNode, isScalar, isSeq, parseDocument, visit } from 'yaml'
import type { Document, Node } from 'yaml'
import { ConfigError } from '../shared/errors.ts'
import type { ConfigProblem } from '../shared/errors.ts'
import { looseAliases } from '../shared/yaml-aliases.ts'

/** A place in the document: a node, its path for messages, and where it stands. */
export interface Place {
  readonly node: Node | null
  readonly path: string
}

/** A YAML file with positions; collects everything that is wrong with it, to be said at once. */
export class KubeconfigDocument {
  readonly file: string
  readonly root: Place
  readonly problems: ConfigProblem[] = []
  readonly #document: Document
  readonly #lines = new LineCounter()

  /** @throws ConfigError KUBECONFIG_MALFORMED if the text is not one YAML document. */
  constructor(file: string, text: string) {
    this.file = file
    this.#document = parseDocument(text, { lineCounter: this.#lines, prettyErrors: false, uniqueKeys: true })
    const loose = looseAliases(this.#document, visit).map(({ offset, message }) => ({
      pos: [offset] as const,
      message,
    }))
    const errors = [...this.#document.errors, ...loose]
    if (errors.length > 0) {
      throw new ConfigError(
        'KUBECONFIG_MALFORMED',
        errors.map((error) => ({
          file,
          ...this.#position(error.pos[0]),
          path: '',
          message: `not valid YAML: ${firstSentence(error.message)}`,
        })),
      )
    }
    this.root = { node: this.#document.contents, path: '' }
  }

  /** Notes a problem at a place; with a missing node, at the nearest thing that is there. */
  complain(place: Place, message: string, parent: Place = this.root): void {
    const offset = place.node?.range?.[0] ?? parent.node?.range?.[0] ?? 0
    this.problems.push({ file: this.file, ...this.#position(offset), path: place.path, message })
  }

  /** @throws ConfigError with all problems noted so far, if any. */
  throwProblems(): void {
    if (this.problems.length > 0) throw new ConfigError('KUBECONFIG_INVALID', this.problems)
  }

  /** The field of a map; a place without a node if it is absent or null. */
  field(place: Place, name: string): Place {
    const path = place.path === '' ? name : `${place.path}.${name}`
    if (place.node === null) return { node: null, path }
    if (!isMap(place.node)) {
      if (!isNullScalar(place.node)) this.complain(place, 'must be a map')
      return { node: null, path }
    }
    const node = this.#resolve(place.node.get(name, true))
    return { node: node === null || isNullScalar(node) ? null : node, path }
  }

  /** The items of a list; empty if it is absent. */
  items(place: Place): Place[] {
    if (place.node === null) return []
    if (!isSeq(place.node)) {
      this.complain(place, 'must be a list')
      return []
    }
    return place.node.items.map((item, index) => ({
      node: this.#resolve(item),
      path: `${place.path}[${index}]`,
    }))
  }

  /** The text of a field; '' if it is absent. */
  text(place: Place): string {
    if (place.node === null) return ''
    if (isScalar(place.node) && typeof place.node.value === 'string') return place.node.value
    if (isScalar(place.node) && place.node.source !== undefined) return place.node.source
    this.complain(place, 'must be text')
    return ''
  }

  /** The truth of a field; false if it is absent. */
  truth(place: Place): boolean {
    if (place.node === null) return false
    if (isScalar(place.node) && typeof place.node.value === 'boolean') return place.node.value
    this.complain(place, 'must be true or false')
    return false
  }

  /** The plain value beneath a place; null if it is absent. */
  value(place: Place): unknown {
    return place.node === null ? null : (place.node.toJS(this.#document) as unknown)
  }

  #resolve(node: unknown): Node | null {
    if (!isNode(node)) return null
    return 'source' in node && !isScalar(node) ? (node.resolve(this.#document) ?? null) : node
  }

  #position(offset: number): { line: number; column: number } {
    const { line, col } = this.#lines.linePos(offset)
    return { line, column: col }
  }
}

function isNullScalar(node: Node): boolean {
  return isScalar(node) && node.value === null
}

function firstSentence(message: string): string {
  return message.split('\n')[0] ?? message
}
