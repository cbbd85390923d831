import { spawn } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import { toolEnvironment } from '../lab/command.ts'
import { readStatus } from '../lab/control.ts'
import type { LabStatus } from '../lab/control.ts'
import { enterArgv, kubectlArgv, parseTarget } from '../lab/enter.ts'
import { labInstance, readState, requireRunning } from '../lab/instance.ts'
import type { LabInstance } from '../lab/instance.ts'
import { startLab, stopLab } from '../lab/start.ts'
import { modeByName } from '../modes/registry.ts'
import { ProxyError, UnsupportedError, UsageError } from '../shared/errors.ts'
import type { Io } from './io.ts'
import { parse, table } from './lab-terminal.ts'

const USAGE = `usage: switchback lab COMMAND [--name LAB]

  up [--mode nftables | --no-agents]   start a cluster of network namespaces on this machine
  down                                 end it; nothing stays
  status [-o json]                     what runs in it, and where the logs are
  exec PLACE -- COMMAND...             run a program at pod:NAMESPACE/NAME, node-1, node-2, node-3, outside or control
  kubectl ARGUMENTS...                 kubectl against its API server
  logs [NAME]                          print a log: node-1, supervisor, pod:NAMESPACE/NAME
  demo                                 show Services at work, from start to end (about a minute)
`

type Handler = (argv: readonly string[], io: Io) => Promise<number>

const COMMANDS: Readonly<Record<string, Handler>> = {
  up,
  down,
  status,
  exec,
  kubectl,
  logs,
  demo: async (argv, io) => (await import('./lab-demo.ts')).demo(argv, io),
  supervise,
}

/** `switchback lab …`: a small cluster on this machine, in namespaces of its own. */
export async function run(argv: readonly string[], io: Io): Promise<number> {
  const [name, ...rest] = argv
  if (name === undefined || name === 'help' || name === '--help' || name === '-h') {
    const isAsked = name !== undefined
    ;(isAsked ? io.stdout : io.stderr).write(USAGE)
    return isAsked ? 0 : 2
  }
  const handler = COMMANDS[name]
  if (handler === undefined) throw new UsageError(`lab has no command "${name}"\n${USAGE}`)
  return handler(rest, io)
}

const NAME_OPTION = { name: { type: 'string', default: 'lab' } } as const

async function up(argv: readonly string[], io: Io): Promise<number> {
  const { values } = parse({
    args: [...argv],
    options: {
      ...NAME_OPTION,
      mode: { type: 'string', default: 'nftables' },
      'no-agents': { type: 'boolean' },
    },
  })
  const mode = values['no-agents'] === true ? null : modeByName(values.mode).name
  const instance = labInstance(values.name, io.env)
  const before = readState(instance)
  if (before === 'stale') io.stderr.write('lab: removing what a lab that ended without "down" left\n')
  else if (before !== null) {
    io.stderr.write(`lab: runs already, since ${before.startedAt}\n`)
    return 0
  }
  const interrupted = new AbortController()
  const stop = (): void => interrupted.abort()
  process.once('SIGINT', stop)
  process.once('SIGTERM', stop)
  const startedAt = performance.now()
  await startLab(instance, {
    mode,
    ephemeral: false,
    onStep: (step) => io.stderr.write(`lab: ${step}\n`),
    signal: interrupted.signal,
  })
  io.stderr.write(`lab: up in ${((performance.now() - startedAt) / 1000).toFixed(1)} s\n`)
  io.stdout.write(firstSteps(instance))
  return 0
}

function firstSteps(instance: LabInstance): string {
  const which = instance.name === 'lab' ? '' : ` --name ${instance.name}`
  return `Try:
  switchback lab kubectl${which} get nodes,services,pods -A
  switchback lab exec${which} node-1 -- nft list ruleset
  switchback lab status${which}
  switchback lab down${which}
`
}

async function down(argv: readonly string[], io: Io): Promise<number> {
  const { values } = parse({ args: [...argv], options: NAME_OPTION })
  const stopped = await stopLab(labInstance(values.name, io.env))
  io.stderr.write(stopped ? 'lab: down\n' : 'lab: none is running\n')
  return 0
}

async function status(argv: readonly string[], io: Io): Promise<number> {
  const { values } = parse({
    args: [...argv],
    options: { ...NAME_OPTION, output: { type: 'string', short: 'o', default: 'text' } },
  })
  if (values.output !== 'text' && values.output !== 'json') throw new UsageError('--output is text or json')
  const instance = labInstance(values.name, io.env)
  const state = readState(instance)
  if (state === 'stale') {
    throw new ProxyError(
      'LAB_NOT_RUNNING',
      `the lab ended without "down"; "switchback lab up" or "down" removes what it left in ${instance.dir}`,
    )
  }
  requireRunning(instance)
  const answer = await readStatus(instance.socket)
  io.stdout.write(values.output === 'json' ? `${JSON.stringify(answer)}\n` : statusText(answer))
  return 0
}

function statusText(status: LabStatus): string {
  const nodes = status.nodes.map(({ node, zone, addresses, agent, restarts, log }) => [
    node,
    zone,
    addresses.join(' '),
    agent + (restarts > 0 ? ` (${restarts} restarts)` : ''),
    log ?? '-',
  ])
  const pods = status.pods.map(({ namespace, name, node, addresses, phase, ready }) => [
    `${namespace}/${name}`,
    node ?? '-',
    addresses.join(' '),
    phase + (ready ? '' : ', not ready'),
  ])
  return [
    `lab "${status.name}", ${status.state} since ${status.startedAt}`,
    `API server  ${status.apiServer} (inside)   kubeconfig ${status.kubeconfig}`,
    `logs        ${status.logs}`,
    '',
    table(['NODE', 'ZONE', 'ADDRESSES', 'AGENT', 'LOG'], nodes),
    table(['POD', 'NODE', 'ADDRESSES', 'STATE'], pods),
  ].join('\n')
}

async function exec(argv: readonly string[], io: Io): Promise<number> {
  const split = argv.indexOf('--')
  const command = split < 0 ? [] : argv.slice(split + 1)
  const { values, positionals } = parse({
    args: split < 0 ? [...argv] : argv.slice(0, split),
    options: NAME_OPTION,
    allowPositionals: true,
  })
  const [place, ...more] = positionals
  if (place === undefined || more.length > 0 || command.length === 0) {
    throw new UsageError(
      'lab exec wants a place and, after "--", a command: lab exec node-1 -- nft list ruleset',
    )
  }
  const instance = labInstance(values.name, io.env)
  const entered = enterArgv(instance, requireRunning(instance), parseTarget(place), command)
  return attach(entered, { ...io, env: { ...io.env, KUBECONFIG: instance.kubeconfig } })
}

async function kubectl(argv: readonly string[], io: Io): Promise<number> {
  const [name, rest] = argv[0] === '--name' ? [argv[1] ?? '', argv.slice(2)] : ['lab', argv]
  const instance = labInstance(name, io.env)
  const state = requireRunning(instance)
  const env = toolEnvironment(io.env)
  if (!(env['PATH'] ?? '').split(':').some((dir) => existsSync(join(dir, 'kubectl')))) {
    throw new UnsupportedError(
      'LAB_KUBECTL',
      'lab kubectl',
      'the program kubectl on PATH',
      'Install the Debian package kubernetes-client, or kubectl as https://kubernetes.io/docs/tasks/tools/ describes.',
    )
  }
  const command = [...kubectlArgv(instance), ...rest]
  return attach(enterArgv(instance, state, { kind: 'namespace', name: 'control' }, command), io)
}

const ENDING = ['SIGTERM', 'SIGHUP'] as const

/** Runs a program on this process's own terminal and gives its exit status; it ends with this process. */
function attach(argv: readonly string[], io: Io): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(argv[0]!, argv.slice(1), { stdio: 'inherit', env: toolEnvironment(io.env) })
    const ignore = (): void => undefined // the terminal sends it to the child as well, whose end is ours
    const passOn = (signal: NodeJS.Signals): void => void child.kill(signal)
    process.on('SIGINT', ignore)
    for (const signal of ENDING) process.on(signal, passOn)
    child.once('error', reject)
    child.once('exit', (code, signal) => {
      process.off('SIGINT', ignore)
      for (const ending of ENDING) process.off(ending, passOn)
      resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal]))
    })
  })
}

async function logs(argv: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parse({ args: [...argv], options: NAME_OPTION, allowPositionals: true })
  const instance = labInstance(values.name, io.env)
  requireRunning(instance)
  const [what] = positionals
  const files = readdirSync(instance.logs)
  if (what === undefined) {
    io.stdout.write(files.map((file) => `${join(instance.logs, file)}\n`).join(''))
    return 0
  }
  const file = `${what.replace(/^pod:(?:([^/]+)\/)?/, (_all, namespace?: string) => `pod.${namespace ?? 'default'}.`)}.log`
  if (!files.includes(file)) {
    throw new UsageError(
      `the lab has no log of "${what}"; there are: ${files.map((name) => name.replace(/\.log$/, '')).join(', ')}`,
    )
  }
  io.stdout.write(readFileSync(join(instance.logs, file)))
  return 0
}

/** Runs inside the sandbox as its first process; started by `up` and `demo` only. */
async function supervise(argv: readonly string[]): Promise<number> {
  const { values } = parse({
    args: [...argv],
    options: { dir: { type: 'string' }, mode: { type: 'string' }, 'no-agents': { type: 'boolean' } },
  })
  if (process.pid !== 1 || values.dir === undefined) {
    throw new UsageError('lab supervise is started by "switchback lab up", not by hand')
  }
  const { supervise: serve } = await import('../lab/supervisor.ts')
  return serve({ dir: values.dir, mode: values['no-agents'] === true ? null : (values.mode ?? 'nftables') })
}
