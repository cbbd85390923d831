import type { ChildProcess } from 'node:child_process'
import { closeSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { spawnIn } from './namespaces.ts'
import type { LabPlan, NodePlan } from './plan.ts'

const FIRST_RESTART_MS = 500
const MAX_RESTART_MS = 10_000
/** An agent that ran this long is taken to work: the next restart is quick again. */
const STEADY_MS = 10_000

export interface AgentOptions {
  readonly plan: LabPlan
  readonly kubeconfig: string
  readonly logs: string
  readonly mode: string
}

/** The real node agent of one node, started again when it ends. */
export class NodeAgent {
  readonly node: NodePlan
  readonly log: string
  readonly #options: AgentOptions
  #child: ChildProcess | null = null
  restarts = 0
  #delayMs = FIRST_RESTART_MS

  constructor(node: NodePlan, options: AgentOptions) {
    this.node = node
    this.#options = options
    this.log = join(options.logs, `${node.name}.log`)
  }

  get isRunning(): boolean {
    return this.#child !== null
  }

  start(): void {
    const log = openSync(this.log, 'a', 0o600)
    const startedAt = performance.now()
    const child = spawnIn(this.node.name, this.#argv(), { stdio: ['ignore', log, log] })
    this.#child = child
    child.once('error', () => undefined)
    child.once('exit', (code, signal) => {
      this.#child = null
      this.restarts++
      this.#delayMs =
        performance.now() - startedAt > STEADY_MS
          ? FIRST_RESTART_MS
          : Math.min(MAX_RESTART_MS, this.#delayMs * 2)
      writeSync(
        log,
        `[lab] the agent ended (${signal ?? `exit status ${code}`}); next start in ${this.#delayMs} ms\n`,
      )
      closeSync(log)
      setTimeout(() => this.start(), this.#delayMs)
    })
  }

  #argv(): readonly string[] {
    const { plan, kubeconfig, mode } = this.#options
    return [
      process.execPath,
      new URL('../../bin/switchback', import.meta.url).pathname,
      'run',
      `--kubeconfig=${kubeconfig}`,
      `--hostname-override=${this.node.name}`,
      `--cluster-cidr=${plan.clusterCidr.ipv4},${plan.clusterCidr.ipv6}`,
      `--proxy-mode=${mode}`,
    ]
  }
}
