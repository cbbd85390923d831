import { ConfigError, ProxyError, UnsupportedError, UsageError } from '../shared/errors.ts'
import { COMMANDS } from './commands.ts'
import type { Io } from './io.ts'

const PROCESS_IO: Io = { stdout: process.stdout, stderr: process.stderr, env: process.env }

/** Runs one command line (without `node` and the script) and gives the exit status. */
export async function main(argv: readonly string[], io: Io = PROCESS_IO): Promise<number> {
  const [name, ...rest] = argv
  if (name === undefined || name === 'help' || name === '--help' || name === '-h') {
    const isAsked = name !== undefined
    ;(isAsked ? io.stdout : io.stderr).write(usage())
    return isAsked ? 0 : 2
  }
  const command = name === '--version' ? COMMANDS['version'] : COMMANDS[name]
  if (command === undefined) {
    io.stderr.write(`switchback: there is no command "${name}". Run "switchback help" for the list.\n`)
    return 2
  }
  try {
    return await (await command.load()).run(rest, io)
  } catch (error) {
    return reportFailure(error, io)
  }
}

/** One message per failure, and the exit status of its kind; an unexpected error keeps its stack, to be reported as a bug. */
export function reportFailure(error: unknown, io: Io): number {
  if (!(error instanceof ProxyError)) {
    io.stderr.write(`switchback: unexpected error: ${error instanceof Error ? error.stack : String(error)}\n`)
    return 1
  }
  io.stderr.write(`switchback: ${error.message}\n`)
  if (error instanceof UsageError || error instanceof ConfigError) return 2
  return error instanceof UnsupportedError ? 3 : 1
}

function usage(): string {
  const width = Math.max(...Object.keys(COMMANDS).map((name) => name.length))
  const lines = Object.entries(COMMANDS).map(([name, { summary }]) => `  ${name.padEnd(width)}  ${summary}`)
  return `usage: switchback COMMAND [arguments]\n\n${lines.join('\n')}\n`
}
