import { createInterface } from 'node:readline'
import type { RequestSummary } from '../programs/requests.ts'
import { runCommand, startCommand } from '../command.ts'
import { enterArgv, kubectlArgv, parseTarget } from '../enter.ts'
import { requireRunning } from '../instance.ts'
import type { LabInstance } from '../instance.ts'
import { ProxyError } from '../../shared/errors.ts'

const COMMAND_TIMEOUT_MS = 60_000

/** How many requests were answered so far, and by whom; see programs/requests.ts. */
export interface LoadProgress {
  readonly progress: number
  readonly failed: number
  readonly pods: RequestSummary['pods']
}

/** A steady stream of requests under way. */
export interface Load {
  /** Resolves at the first progress that satisfies the condition; rejects if the stream ends before. */
  until(condition: (now: LoadProgress) => boolean): Promise<LoadProgress>
  /** Stops sending and gives what it came to, open requests included. */
  stop(): Promise<RequestSummary>
}

/** Runs programs at places of one lab and collects what they print. */
export class LabSession {
  readonly #instance: LabInstance
  readonly #requests: string

  /** `programs`: where the lab's compiled programs are, if not beside this file. */
  constructor(instance: LabInstance, programs = path('../programs')) {
    this.#instance = instance
    this.#requests = `${programs}/requests.js`
  }

  /** Runs a program at a place (as `lab exec` names them); gives its stdout. */
  async run(place: string, argv: readonly string[], input?: string): Promise<string> {
    const options = { timeoutMs: COMMAND_TIMEOUT_MS, ...(input === undefined ? {} : { input }) }
    return (await runCommand(this.#enter(place, argv), options)).stdout
  }

  kubectl(args: readonly string[], input?: string): Promise<string> {
    return this.run('control', [...kubectlArgv(this.#instance), ...args], input)
  }

  /** This program's own command line beside the API server, e.g. `trace`. */
  switchback(args: readonly string[]): Promise<string> {
    const program = [process.execPath, path('../../../bin/switchback')]
    return this.run('control', [...program, ...args, '--kubeconfig', this.#instance.kubeconfig])
  }

  /** Sends `count` requests over one family, each on a connection of its own. */
  async requests(place: string, url: string, count: number, family: 4 | 6): Promise<RequestSummary> {
    const out = await this.run(place, [
      process.execPath,
      this.#requests,
      `--url=${url}`,
      `--count=${count}`,
      `--family=${family}`,
    ])
    return JSON.parse(out) as RequestSummary
  }

  /** Sends requests to the URL until as many different pods have answered: proof that all of them are reached. */
  async reachAll(place: string, url: string, podCount: number, family: 4 | 6): Promise<void> {
    const load = this.load(place, url, 200, family)
    try {
      await load.until(({ pods }) => Object.keys(pods).length >= podCount)
    } finally {
      await load.stop()
    }
  }

  /** Starts a steady stream of requests. */
  load(place: string, url: string, perSecond: number, family: 4 | 6): Load {
    const argv = this.#enter(place, [
      process.execPath,
      this.#requests,
      `--url=${url}`,
      `--family=${family}`,
      `--rate=${perSecond}`,
      '--concurrency=16',
    ])
    const child = startCommand(argv, { stdio: ['pipe', 'pipe', 'inherit'] })
    const waiters = new Set<{ check(now: LoadProgress): void; fail(error: Error): void }>()
    let last: RequestSummary | null = null
    const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
    createInterface({ input: child.stdout! }).on('line', (line) => {
      const value = JSON.parse(line) as LoadProgress | RequestSummary
      if ('sent' in value) last = value
      else for (const waiter of waiters) waiter.check(value)
    })
    void ended.then(() => {
      for (const waiter of waiters)
        waiter.fail(new ProxyError('LAB_FAILED', `the requests to ${url} ended early`))
    })
    return {
      until: (condition) =>
        new Promise((resolve, reject) => {
          const timer = setTimeout(
            () =>
              waiter.fail(
                new ProxyError('LAB_FAILED', `the requests to ${url} did not come to what was expected`),
              ),
            COMMAND_TIMEOUT_MS,
          )
          const settle = (): void => {
            clearTimeout(timer)
            waiters.delete(waiter)
          }
          const waiter = {
            check(now: LoadProgress): void {
              if (!condition(now)) return
              settle()
              resolve(now)
            },
            fail(error: Error): void {
              settle()
              reject(error)
            },
          }
          waiters.add(waiter)
        }),
      async stop() {
        child.stdin!.end()
        await ended
        if (last === null) throw new ProxyError('LAB_FAILED', `the requests to ${url} ended without a result`)
        return last
      },
    }
  }

  #enter(place: string, argv: readonly string[]): readonly string[] {
    return enterArgv(this.#instance, requireRunning(this.#instance), parseTarget(place), argv)
  }
}

function path(relative: string): string {
  return new URL(relative, import.meta.url).pathname
}
