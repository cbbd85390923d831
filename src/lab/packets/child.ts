import type { ChildProcess } from 'node:child_process'

/** Ends a process that was started here: SIGTERM, then SIGKILL when it does not listen; resolves when it has ended. */
export async function endProcess(child: ChildProcess, patienceMs = 10_000): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  child.kill('SIGTERM')
  const timer = setTimeout(() => child.kill('SIGKILL'), patienceMs)
  await ended
  clearTimeout(timer)
}
