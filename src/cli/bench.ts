import { Command, CommanderError, InvalidArgumentError } from 'commander'
import { ProxyError, UsageError } from '../shared/errors.ts'
import { modeByName } from '../modes/registry.ts'
import { complaintOf, isJson } from './arguments.ts'
import type { BenchReport } from './bench/figures.ts'
import { describeMachine, renderReport } from './bench/figures.ts'
import { measureChange, measureSync } from './bench/measure.ts'
import type { Io } from './io.ts'

interface BenchOptions {
  readonly mode: string
  readonly services: number
  readonly endpoints: number
  readonly runs?: number
  readonly output: string
}

/** `switchback bench sync|change`: figures of this machine, from real processes in a network namespace of their own. */
export async function run(argv: readonly string[], io: Io): Promise<number> {
  let report: BenchReport | null = null
  let output = 'text'
  const progress = (line: string): void => void io.stderr.write(`${line}\n`)
  const program = new Command('switchback bench')
    .exitOverride()
    .configureOutput({ writeErr: () => undefined })
  const measured = (
    what: BenchReport['what'],
    summary: string,
    runs: number,
    measure: typeof measureSync,
  ): void => {
    withLoad(program.command(what).description(summary), runs).action(async (options: BenchOptions) => {
      isJson(options.output)
      modeByName(options.mode)
      requireRoot()
      const load = { ...options, runs: options.runs ?? runs }
      const figures = await measure(load, progress)
      output = options.output
      report = {
        what,
        mode: load.mode,
        services: load.services,
        endpoints: load.endpoints,
        runs: load.runs,
        figures,
        machine: describeMachine(),
      }
    })
  }
  measured('sync', 'start of the agent until the rules of a whole cluster are complete', 3, measureSync)
  measured('change', 'one EndpointSlice PATCH until the kernel has changed', 20, measureChange)
  try {
    await program.parseAsync([...argv], { from: 'user' })
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    if (error.exitCode === 0) return 0
    const missing = 'say what to measure: sync or change'
    throw new UsageError(
      `bench: ${error.code === 'commander.help' ? missing : complaintOf(error)}. Run "switchback bench --help" for the arguments.`,
      { cause: error },
    )
  }
  if (report !== null)
    io.stdout.write(output === 'json' ? `${JSON.stringify(report)}\n` : renderReport(report))
  return 0
}

function withLoad(command: Command, runs: number): Command {
  return command
    .option('--mode <mode>', 'proxy mode', 'nftables')
    .option('--services <n>', 'number of Services', wholeNumber, 1000)
    .option('--endpoints <n>', 'endpoints of each', wholeNumber, 5)
    .option('--runs <n>', `how many times (default: ${runs})`, wholeNumber)
    .option('-o, --output <form>', 'text or json', 'text')
    .exitOverride()
}

function wholeNumber(text: string): number {
  if (!/^[1-9]\d{0,6}$/.test(text))
    throw new InvalidArgumentError('expected a whole number from 1 to 9999999.')
  return Number(text)
}

function requireRoot(): void {
  if (process.getuid?.() === 0) return
  throw new ProxyError('NEEDS_ROOT', 'bench makes network namespaces and needs root. Run it with sudo.')
}
