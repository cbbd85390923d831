import type { ChildProcess } from 'node:child_process'
import { open, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ProxyError } from '../../shared/errors.ts'
import { spawnIn } from '../namespaces.ts'
import { endProcess } from './child.ts'

const READY_WITHIN_MS = 30_000
const LOOK_EVERY_MS = 100

/** The real node agent on the node under test. */
export class FixtureAgent implements AsyncDisposable {
  readonly #child: ChildProcess
  readonly #log: string

  private constructor(child: ChildProcess, log: string) {
    this.#child = child
    this.#log = log
  }

  static async start(
    namespace: string,
    directory: string,
    argv: readonly string[],
    config: Readonly<Record<string, unknown>>,
  ): Promise<FixtureAgent> {
    const file = join(directory, 'config.json')
    await writeFile(file, JSON.stringify(config))
    const log = join(directory, 'agent.log')
    const handle = await open(log, 'a')
    try {
      const stdio = ['ignore', handle.fd, handle.fd] as const
      const child = spawnIn(namespace, [...argv, `--config=${file}`], { stdio: [...stdio] })
      child.once('error', () => undefined) // seen as an end without exit status
      return new FixtureAgent(child, log)
    } finally {
      await handle.close()
    }
  }

  /** Waits for a condition while the agent runs; rejects with the agent's last words when it ends or takes too long. */
  async waitUntil(condition: () => Promise<boolean>): Promise<void> {
    const end = performance.now() + READY_WITHIN_MS
    while (!(await condition())) {
      const ended = this.#child.exitCode !== null || this.#child.signalCode !== null
      if (ended || performance.now() > end) {
        const words = (await readFile(this.#log, 'utf8')).trim().split('\n').slice(-8).join('\n')
        const what = ended ? 'ended' : `did not install its rules within ${READY_WITHIN_MS / 1000} s`
        throw new ProxyError('LAB_AGENT', `The agent of a packet test ${what}. Its last words:\n${words}`)
      }
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS))
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await endProcess(this.#child)
  }
}
