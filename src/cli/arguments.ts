import { Command, CommanderError } from 'commander'
import { UsageError } from '../shared/errors.ts'
import type { Io } from './io.ts'

/** A command's parser: help goes to stdout, everything wrong becomes a UsageError. */
export function commandParser(name: string, summary: string, io: Io): Command {
  return new Command(`switchback ${name}`)
    .description(summary)
    .exitOverride()
    .showSuggestionAfterError()
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: () => undefined, // said by the UsageError
    })
}

/** Parses the arguments; null when only help was asked for. */
export function parseArguments<Options extends object>(
  parser: Command,
  argv: readonly string[],
): { readonly options: Options; readonly operands: readonly string[] } | null {
  try {
    parser.parse([...argv], { from: 'user' })
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    if (error.exitCode === 0) return null
    throw new UsageError(`${complaintOf(error)}. Run "${parser.name()} --help" for the arguments.`, {
      cause: error,
    })
  }
  return { options: parser.opts() as Options, operands: parser.args }
}

/** Commander's complaint as a part of a sentence: one line, without the full stop that some of them have. */
export function complaintOf(error: CommanderError): string {
  return error.message
    .replace(/^error: /, '')
    .replace(/\s*\n\s*/g, ' ')
    .replace(/\.$/, '')
}

/** `-o text|json`. */
export function isJson(output: string): boolean {
  if (output === 'text' || output === 'json') return output === 'json'
  throw new UsageError(`--output: "${output}" is not allowed; it must be text or json`)
}
