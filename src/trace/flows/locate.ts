import type { Node } from 'yaml'
import { LineCounter, parseDocument } from 'yaml'
import type { ConfigProblem } from '../../shared/errors.ts'

/** The same problems with line and column, found by reading the JSON once more as YAML; a missing field is at what should hold it. */
export function located(problems: readonly ConfigProblem[], text: string): readonly ConfigProblem[] {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, logLevel: 'silent' })
  return problems.map((problem) => {
    const path = [...problem.path.matchAll(/[^.[\]]+/g)].map(([key]) =>
      /^\d+$/.test(key) ? Number(key) : key,
    )
    for (let length = path.length; length >= 0; length--) {
      const node = (
        length === 0 ? document.contents : document.getIn(path.slice(0, length), true)
      ) as Node | null
      const offset = node?.range?.[0]
      if (offset === undefined) continue
      const { line, col } = lines.linePos(offset)
      return { ...problem, line, column: col }
    }
    return problem
  })
}

/** Where `JSON.parse` stopped, by its message; the end of the text if the message names no place. */
export function placeOfJsonError(
  text: string,
  message: string,
): { readonly line: number; readonly column: number } {
  const position = /at position (\d+)/.exec(message)?.[1]
  const before = text.slice(0, position === undefined ? text.length : Number(position))
  return { line: before.split('\n').length, column: before.length - before.lastIndexOf('\n') }
}
