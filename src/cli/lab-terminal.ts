import { parseArgs } from 'node:util'
import type { ParseArgsConfig } from 'node:util'
import { UsageError } from '../shared/errors.ts'

/** parseArgs, with its complaints as usage errors. */
export function parse<const T extends ParseArgsConfig>(config: T): ReturnType<typeof parseArgs<T>> {
  try {
    return parseArgs(config)
  } catch (error) {
    const what = error instanceof Error ? error.message : String(error)
    throw new UsageError(`${what}. Run "switchback lab --help" for the arguments.`, { cause: error })
  }
}

/** Rows under their headings, columns aligned. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, i) => Math.max(title.length, ...rows.map((row) => (row[i] ?? '').length)))
  const lines = [head, ...rows].map((row) =>
    row
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join('  ')
      .trimEnd(),
  )
  return `${lines.join('\n')}\n`
}
