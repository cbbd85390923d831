import { spawn } from 'node:child_process'
import type { ChildProcess, StdioOptions } from 'node:child_process'
import { run } from '../kernel/shell.ts'
import type { RunOptions, RunResult } from '../kernel/shell.ts'

export type CommandOptions = RunOptions
export type CommandResult = RunResult

/** The environment with the directories of system tools on PATH: an ordinary user's shell often lacks them. */
export function toolEnvironment(env: NodeJS.ProcessEnv = process.env): NodeJS.ProcessEnv {
  return { ...env, PATH: toolPath(env['PATH'] ?? '') }
}

function toolPath(path: string): string {
  const dirs = path.split(':').filter((dir) => dir !== '')
  const tools = ['/usr/local/sbin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']
  return [...dirs, ...tools.filter((dir) => !dirs.includes(dir))].join(':')
}

/** Runs a program to its end, as {@link run} does, with system tools on PATH. */
export function runCommand(argv: readonly string[], options: CommandOptions = {}): Promise<CommandResult> {
  const path = toolPath(options.env?.['PATH'] ?? process.env['PATH'] ?? '')
  return run(argv, { ...options, env: { ...options.env, PATH: path } })
}

/** Starts a program that stays; the caller owns its life. */
export function startCommand(
  argv: readonly string[],
  options: { readonly stdio: StdioOptions; readonly env?: NodeJS.ProcessEnv; readonly detached?: boolean },
): ChildProcess {
  return spawn(argv[0]!, argv.slice(1), {
    stdio: options.stdio,
    env: toolEnvironment(options.env),
    detached: options.detached ?? false,
  })
}
