import { closeSync, openSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Readable } from 'node:stream'
import type { ChildProcess } from 'node:child_process'
import { ProxyError } from '../shared/errors.ts'
import { startCommand } from './command.ts'
import {
  childrenOf,
  lastLines,
  prepareDirectory,
  processStart,
  readState,
  removeDirectory,
  removeOrphans,
  writeState,
} from './instance.ts'
import type { LabInstance } from './instance.ts'
import { LAB } from './plan.ts'
import { probeSandbox, sandboxArgv } from './sandbox.ts'
import type { Progress } from './supervisor.ts'
import { hostsFile } from './topology.ts'

export interface StartOptions {
  /** Proxy mode of the agents; null: no agents. */
  readonly mode: string | null
  /** True: the lab ends with this process, however that ends. */
  readonly ephemeral: boolean
  readonly onStep: (step: string) => void
  /** Aborting it before the lab is up takes it down again. */
  readonly signal?: AbortSignal
}

/** The supervisor's file descriptor for its reports. */
const PROGRESS = 3
const DOWN_TIMEOUT_MS = 10_000
const POLL_MS = 20

/** Starts a lab and resolves when it works: agents healthy, cluster DNS answering through its Service on every node. */
export async function startLab(instance: LabInstance, options: StartOptions): Promise<void> {
  const state = readState(instance)
  if (state !== null && state !== 'stale') {
    throw new ProxyError(
      'LAB_RUNNING',
      `a lab named "${instance.name}" runs already (since ${state.startedAt})`,
    )
  }
  const { userNamespace } = await probeSandbox()
  removeOrphans(instance)
  prepareDirectory(instance)
  const hosts = join(instance.dir, 'hosts')
  writeFileSync(hosts, hostsFile(LAB))
  const argv = sandboxArgv(
    [
      process.execPath,
      new URL('../../bin/switchback', import.meta.url).pathname,
      'lab',
      'supervise',
      '--dir',
      instance.dir,
      ...(options.mode === null ? ['--no-agents'] : ['--mode', options.mode]),
    ],
    { keep: instance.dir, binds: [[hosts, '/etc/hosts']], userNamespace },
  )
  const log = openSync(join(instance.logs, 'supervisor.log'), 'a', 0o600)
  const outer = startCommand(options.ephemeral ? ['setpriv', '--pdeathsig', 'KILL', ...argv] : argv, {
    stdio: ['ignore', log, log, 'pipe'],
    detached: true,
  })
  closeSync(log)
  const outerPid = outer.pid ?? 0
  const write = (supervisorPid: number): void =>
    writeState(instance, {
      outerPid,
      outerStart: processStart(outerPid) ?? '',
      supervisorPid,
      userNamespace,
      startedAt: new Date().toISOString(),
    })
  write(0)
  try {
    await followStart(outer, instance, options)
    write(childrenOf(outerPid)[0] ?? 0)
    outer.unref()
  } catch (error) {
    await stopLab(instance)
    if (!(error instanceof ProxyError)) throw error
    throw new ProxyError('LAB_FAILED', `the lab did not start: ${error.message}`, { cause: error })
  }
}

/** Follows the supervisor's reports until it is ready, failed or gone. */
async function followStart(outer: ChildProcess, instance: LabInstance, options: StartOptions): Promise<void> {
  const reports = outer.stdio[PROGRESS] as Readable
  const abort = (): void => void reports.destroy()
  options.signal?.addEventListener('abort', abort, { once: true })
  try {
    for await (const line of createInterface({ input: reports })) {
      const progress = JSON.parse(line) as Progress
      if ('ready' in progress) return
      if ('failed' in progress) throw new ProxyError('LAB_FAILED', progress.failed)
      options.onStep(progress.step)
    }
  } finally {
    options.signal?.removeEventListener('abort', abort)
    reports.destroy()
  }
  if (options.signal?.aborted === true) throw new ProxyError('LAB_FAILED', 'interrupted')
  const words = lastLines(join(instance.logs, 'supervisor.log'))
  throw new ProxyError('LAB_FAILED', `its supervisor ended. Its last words:\n${words}`)
}

/** Ends a lab and everything in it, also one that crashed or hangs; true if there was one. */
export async function stopLab(instance: LabInstance): Promise<boolean> {
  const state = readState(instance)
  if (state === null) return false
  if (state !== 'stale') {
    const inside = childrenOf(state.outerPid)
    // The kernel ends all processes of the sandbox with its first one; its parent outside collects it and ends as well.
    for (const pid of inside.length > 0 ? inside : [state.outerPid]) kill(pid)
    await waitForEnd([...inside, state.outerPid])
  }
  removeDirectory(instance)
  return true
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // it has ended by itself
  }
}

async function waitForEnd(pids: readonly number[]): Promise<void> {
  const deadline = performance.now() + DOWN_TIMEOUT_MS
  while (pids.some((pid) => processStart(pid) !== null)) {
    if (performance.now() > deadline) {
      throw new ProxyError('LAB_FAILED', `processes ${pids.join(', ')} of the lab do not end`)
    }
    await sleep(POLL_MS)
  }
}
