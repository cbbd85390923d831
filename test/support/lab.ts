import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect } from 'vitest'
import { processStart, readState } from '../../src/lab/instance.ts'
import type { LabInstance, LabState } from '../../src/lab/instance.ts'

export const ROOT = resolve(import.meta.dirname, '../..')

/** Where the build has the programs that run in a lab's pods. */
export const PROGRAMS = join(ROOT, 'dist/lab/programs')

export interface Outcome {
  readonly status: number | null
  readonly stdout: string
  readonly stderr: string
}

/** The output of a command that must have succeeded. */
export function ok(outcome: Outcome): string {
  expect(outcome, outcome.stderr).toMatchObject({ status: 0 })
  return outcome.stdout
}

/** Labs of one test file: in a directory of their own, so that they meet no other lab of this machine. */
export interface TestLabs extends Disposable {
  readonly dir: string
  readonly env: NodeJS.ProcessEnv
  /** Runs `switchback lab …` from the build, as a person would. */
  readonly lab: (
    args: readonly string[],
    options?: { readonly input?: string; readonly prefix?: readonly string[] },
  ) => Outcome
  /** The output of `switchback lab kubectl --name NAME …`, which must succeed. */
  readonly kubectl: (name: string, args: readonly string[], input?: string) => string
}

export function testLabs(): TestLabs {
  const dir = mkdtempSync('/tmp/sb-lab-')
  const env = { ...process.env, SWITCHBACK_LAB_DIR: join(dir, 'lab'), XDG_RUNTIME_DIR: '' }
  const lab: TestLabs['lab'] = (args, options = {}) => {
    const argv = [...(options.prefix ?? []), process.execPath, join(ROOT, 'bin/switchback'), 'lab', ...args]
    return spawnSync(argv[0]!, argv.slice(1), {
      cwd: ROOT,
      env,
      encoding: 'utf8',
      input: options.input ?? '',
      timeout: 120_000,
    })
  }
  return {
    dir,
    env,
    lab,
    kubectl: (name, args, input = '') => ok(lab(['kubectl', '--name', name, ...args], { input })),
    [Symbol.dispose]: () => rmSync(dir, { recursive: true, force: true }),
  }
}

/** Builds the program that labs run, unless the build is newer than every source file. */
export function buildProgram(): void {
  const built = join(ROOT, 'dist/cli/lab.js')
  if (existsSync(built) && statSync(built).mtimeMs >= newest(join(ROOT, 'src'))) return
  expect(spawnSync('npm', ['run', '--silent', 'build'], { cwd: ROOT, encoding: 'utf8' }).stdout).toBe('')
}

function newest(path: string): number {
  return readdirSync(path, { recursive: true, encoding: 'utf8' }).reduce(
    (latest, file) => Math.max(latest, statSync(join(path, file)).mtimeMs),
    0,
  )
}

/** The state of a lab that must be running. */
export function running(instance: LabInstance): LabState {
  const state = readState(instance)
  if (state === null || state === 'stale') throw new Error('the lab does not run')
  return state
}

export interface LabProcess {
  readonly pid: number
  readonly start: string | null
}

/** Every process in the lab's PID namespace, as the machine sees them. */
export function processesOf(instance: LabInstance): LabProcess[] {
  const pidNamespace = readlinkSync(`/proc/${running(instance).supervisorPid}/ns/pid`)
  return readdirSync('/proc')
    .filter((name) => {
      try {
        return /^\d+$/.test(name) && readlinkSync(`/proc/${name}/ns/pid`) === pidNamespace
      } catch {
        return false
      }
    })
    .map((name) => ({ pid: Number(name), start: processStart(Number(name)) }))
}

/** Those that still run. Namespaces' numbers are used again at once, so processes are told by id and start. */
export function alive(processes: readonly LabProcess[]): LabProcess[] {
  return processes.filter(({ pid, start }) => start !== null && processStart(pid) === start)
}

/** The agent's process on a node. */
export function agentPid(instance: LabInstance, node: string): number {
  const agent = processesOf(instance).find(({ pid }) =>
    commandLine(pid).includes(`--hostname-override=${node}`),
  )
  if (agent === undefined) throw new Error(`no agent runs on ${node}`)
  return agent.pid
}

/** What runs in the lab, by the names of the programs. */
export function programNames(instance: LabInstance): readonly string[] {
  return processesOf(instance).map(({ pid }) => commandLine(pid)[0] ?? '')
}

function commandLine(pid: number): readonly string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
  } catch {
    return []
  }
}
