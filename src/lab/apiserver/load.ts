import { readFileSync } from 'node:fs'
import { parseAllDocuments, visit } from 'yaml'
import type { ConfigProblem } from '../../shared/errors.ts'
import { ConfigError } from '../../shared/errors.ts'
import type { Dict } from './json.ts'
import { isDict } from './json.ts'
import { looseAliases } from '../../shared/yaml-aliases.ts'

/**
 * Reads the objects of a YAML (any number of documents) or JSON file; empty documents are left out.
 * @throws ConfigError LAB_OBJECTS_UNREADABLE with every problem and its line.
 */
export function readObjects(file: string): Dict[] {
  const problem = (message: string, line: number | null, column: number | null): ConfigProblem => ({
    file,
    line,
    column,
    path: '',
    message,
  })
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (cause) {
    throw new ConfigError('LAB_OBJECTS_UNREADABLE', [problem((cause as Error).message, null, null)], {
      cause,
    })
  }
  const documents = parseAllDocuments(text, { logLevel: 'silent' })
  const problems = documents.flatMap((document) =>
    document.errors.map((error) =>
      problem(error.message.split('\n')[0]!, error.linePos?.[0].line ?? null, error.linePos?.[0].col ?? null),
    ),
  )
  const loose = documents.flatMap((document) => looseAliases(document, visit))
  problems.push(...loose.map(({ message }) => problem(message, null, null)))
  if (problems.length > 0) throw new ConfigError('LAB_OBJECTS_UNREADABLE', problems)
  const values = documents.map((document): unknown => document.toJS()).filter((value) => value !== null)
  const wrong = values.filter((value) => !isDict(value))
  if (wrong.length > 0) {
    throw new ConfigError('LAB_OBJECTS_UNREADABLE', [problem('a document is not an object', null, null)])
  }
  return values as Dict[]
}
