import { mkdirSync, readdirSync, readFileSync, rmdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { ProxyError, UsageError } from '../shared/errors.ts'

/**
 * A lab as the machine outside sees it: a directory of this user with its state, logs and kubeconfig. Several can run
 * side by side under different names.
 */
export interface LabInstance {
  readonly name: string
  readonly dir: string
  readonly kubeconfig: string
  readonly logs: string
  /** Unix socket of the supervisor (see control.ts). */
  readonly socket: string
  readonly stateFile: string
}

/** What `up` writes down so that later commands find the lab. Process ids are those of the machine. */
export interface LabState {
  /** The process outside the sandbox whose child is the supervisor. */
  readonly outerPid: number
  readonly outerStart: string
  /** The supervisor, first process of the sandbox. */
  readonly supervisorPid: number
  readonly userNamespace: boolean
  readonly startedAt: string
}

/** Where this user's labs keep their state: /run/switchback/lab for root, else below $XDG_RUNTIME_DIR or /tmp. */
export function labsDirectory(env: NodeJS.ProcessEnv): string {
  const own = env['SWITCHBACK_LAB_DIR']
  if (own !== undefined && own !== '') return own
  const uid = process.getuid?.() ?? 0
  if (uid === 0) return '/run/switchback/lab'
  const runtime = env['XDG_RUNTIME_DIR']
  if (runtime !== undefined && isOwnDirectory(runtime, uid)) return join(runtime, 'switchback/lab')
  return `/tmp/switchback-${uid}/lab`
}

export function labInstance(name: string, env: NodeJS.ProcessEnv): LabInstance {
  if (!/^[a-z0-9][a-z0-9-]{0,40}$/.test(name)) {
    throw new UsageError(`--name: "${name}" cannot name a lab: use lower-case letters, digits and hyphens`)
  }
  const dir = join(labsDirectory(env), name)
  return {
    name,
    dir,
    kubeconfig: join(dir, 'kubeconfig'),
    logs: join(dir, 'logs'),
    socket: join(dir, 'control.sock'),
    stateFile: join(dir, 'state.json'),
  }
}

/** Makes the lab's directory anew, readable by its owner only; what a lab that is gone left there is removed. */
export function prepareDirectory(instance: LabInstance): void {
  const parent = join(instance.dir, '..')
  mkdirSync(parent, { recursive: true, mode: 0o700 })
  const uid = process.getuid?.() ?? 0
  if (!isOwnDirectory(parent, uid)) {
    throw new ProxyError(
      'LAB_DIRECTORY',
      `${parent} belongs to another user, so the lab cannot keep its state there. Set SWITCHBACK_LAB_DIR to a directory of your own`,
    )
  }
  rmSync(instance.dir, { recursive: true, force: true })
  mkdirSync(instance.logs, { recursive: true, mode: 0o700 })
}

/** Removes the lab's directory, and those above it that labs made and that are empty now. */
export function removeDirectory(instance: LabInstance): void {
  rmSync(instance.dir, { recursive: true, force: true })
  for (const parent of [join(instance.dir, '..'), join(instance.dir, '../..')]) {
    if (!/^(lab|switchback(-\d+)?)$/.test(basename(parent))) return
    try {
      rmdirSync(parent)
    } catch {
      return // another lab's directory is in it
    }
  }
}

/** Removes the directories of demos that were killed: their labs ended with them, their names hold the process id. */
export function removeOrphans(instance: LabInstance): void {
  const parent = join(instance.dir, '..')
  if (!directoryExists(parent)) return
  for (const name of readdirSync(parent)) {
    const pid = /^demo-(\d+)$/.exec(name)?.[1]
    if (pid !== undefined && processStart(Number(pid)) === null) {
      rmSync(join(parent, name), { recursive: true, force: true })
    }
  }
}

export function writeState(instance: LabInstance, state: LabState): void {
  writeFileSync(instance.stateFile, `${JSON.stringify(state, null, 2)}\n`, { mode: 0o600 })
}

/** The lab's state if it runs; `stale` if one was left by a lab that ended without `down`; null if there is none. */
export function readState(instance: LabInstance): LabState | 'stale' | null {
  let text: string
  try {
    text = readFileSync(instance.stateFile, 'utf8')
  } catch {
    return directoryExists(instance.dir) ? 'stale' : null
  }
  try {
    const state = JSON.parse(text) as LabState
    return processStart(state.outerPid) === state.outerStart ? state : 'stale'
  } catch {
    return 'stale'
  }
}

/** The state of a running lab, or an error that says how to start one. */
export function requireRunning(instance: LabInstance): LabState {
  const state = readState(instance)
  if (state !== null && state !== 'stale') return state
  const which = instance.name === 'lab' ? '' : ` --name ${instance.name}`
  throw new ProxyError(
    'LAB_NOT_RUNNING',
    `no lab is running${which === '' ? '' : ` under the name "${instance.name}"`}. Start one with "switchback lab up${which}"`,
  )
}

/**
 * When a process started, in clock ticks since boot; null if it has ended. Guards against reused process ids. A zombie
 * has ended only when its other threads have: the first process of a sandbox waits in one of those for all the rest.
 */
export function processStart(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const [state, threads, start] = [fields[0], Number(fields[17]), fields[19]]
    return (state === 'Z' || state === 'X') && threads <= 1 ? null : (start ?? null)
  } catch {
    return null
  }
}

/** The children of a process, by reading /proc. */
export function childrenOf(pid: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, 'utf8')
        return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === pid
      } catch {
        return false
      }
    })
    .map(Number)
}

function isOwnDirectory(path: string, uid: number): boolean {
  try {
    const stat = statSync(path)
    return stat.isDirectory() && stat.uid === uid
  } catch {
    return false
  }
}

function directoryExists(path: string): boolean {
  try {
    return statSync(path).isDirectory()
  } catch {
    return false
  }
}

/** The last lines of a log, for people; empty if there is none. */
export function lastLines(file: string, count = 15): string {
  try {
    return readFileSync(file, 'utf8').trimEnd().split('\n').slice(-count).join('\n')
  } catch {
    return ''
  }
}
