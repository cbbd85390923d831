import type { AnyMode } from '../modes/registry.ts'
import { modeByName, MODES } from '../modes/registry.ts'
import { UsageError } from '../shared/errors.ts'
import type { CaseResult, ExpectReport, Level } from '../trace/expectations.ts'
import { checkCase, expectReport, LEVELS, prepareCase } from '../trace/expectations.ts'
import type { FlowsFile } from '../trace/flows/flows-file.ts'
import { readText } from '../trace/object-files.ts'
import { parseFlows } from '../trace/flows/flows-file.ts'
import { commandParser, isJson, parseArguments } from './arguments.ts'
import { checkWithPackets } from './expect-packets.ts'
import type { Io } from './io.ts'

interface Options {
  readonly mode: string
  readonly level: string
  readonly only?: readonly string[]
  readonly output: string
}

/** `switchback expect`: checks files of packet-flow cases on the model, on compiled rules, and with real packets. */
export async function run(argv: readonly string[], io: Io): Promise<number> {
  const parser = commandParser('expect', 'Check packet-flow expectations (schema kube-proxy-flows/1).', io)
    .argument('<file...>', 'files of cases')
    .option('--mode <mode>', 'a proxy mode, or all', 'all')
    .option('--level <levels>', 'of decide, trace, packets, with commas between', 'decide,trace')
    .option('--only <id...>', 'only these cases')
    .option('-o, --output <form>', 'text or json', 'text')
  const parsed = parseArguments<Options>(parser, argv)
  if (parsed === null) return 0
  const { options, operands } = parsed
  const json = isJson(options.output)
  const levels = levelsOf(options.level)
  const modes = modesOf(options.mode)
  const files = await Promise.all(operands.map(readFlows))
  refuseUnknownCases(files, options.only)
  const results: CaseResult[] = []
  for (const file of files) {
    for (const mode of modes) {
      for (const level of levels) {
        const done = await checkFile(selected(file, options.only), mode, level, io)
        results.push(...done)
        if (!json) io.stdout.write(levelText(done, mode.name, level))
      }
    }
  }
  const report = expectReport(results)
  if (json) io.stdout.write(`${JSON.stringify(report, null, 2)}\n`)
  else io.stdout.write(totalText(report))
  return report.failed === 0 ? 0 : 1
}

function levelsOf(text: string): readonly Level[] {
  return text.split(',').map((word) => {
    const level = LEVELS.find((known) => known === word.trim())
    if (level !== undefined) return level
    throw new UsageError(`--level: "${word}" is not allowed; the levels are ${LEVELS.join(', ')}`)
  })
}

function modesOf(text: string): readonly AnyMode[] {
  return text === 'all' ? Object.values(MODES) : [modeByName(text)]
}

async function readFlows(path: string): Promise<FlowsFile> {
  return parseFlows(await readText(path), path)
}

/** A check of nothing must not look like one that passed. */
function refuseUnknownCases(files: readonly FlowsFile[], only: readonly string[] | undefined): void {
  const ids = new Set(files.flatMap(({ cases }) => cases.map(({ id }) => id)))
  if (ids.size === 0) throw new UsageError('There is no case in these files: nothing was checked.')
  const unknown = (only ?? []).filter((id) => !ids.has(id))
  if (unknown.length > 0)
    throw new UsageError(`--only: there is no case ${unknown.join(', ')} in these files.`)
}

function selected(file: FlowsFile, only: readonly string[] | undefined): FlowsFile {
  return only === undefined ? file : { ...file, cases: file.cases.filter(({ id }) => only.includes(id)) }
}

async function checkFile(
  file: FlowsFile,
  mode: AnyMode,
  level: Level,
  io: Io,
): Promise<readonly CaseResult[]> {
  const cases = file.cases.map((flow) => prepareCase(file, flow, mode.name))
  if (level !== 'packets') return cases.map((prepared) => checkCase(prepared, mode, level))
  let done = 0
  return checkWithPackets(file, cases, mode, ({ id, ok }) => {
    done++
    const word = ok === null ? 'not run' : ok ? 'passed' : 'FAILED'
    io.stderr.write(`[expect] packets ${done}/${cases.length}: ${id} ${word}\n`)
  })
}

function levelText(results: readonly CaseResult[], mode: string, level: Level): string {
  const passed = results.filter(({ ok }) => ok === true).length
  const lines = [`${mode} ${level}: ${passed} of ${results.length} passed`]
  for (const { id, ok, want, got, note } of results) {
    if (ok === false) lines.push(`  ${id} FAILED: ${note}`, `    want ${want}`, `    got  ${got ?? ''}`)
    if (ok === null) lines.push(`  ${id} not run: ${note}`)
  }
  return `${lines.join('\n')}\n`
}

function totalText({ total, passed, failed, notRun }: ExpectReport): string {
  return `${total} checks: ${passed} passed, ${failed} failed, ${notRun} not run\n`
}
