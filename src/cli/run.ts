import { readFile, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { flagHelp } from '../config/flags.ts'
import type { RunOptions } from '../config/load.ts'
import { loadRunOptions } from '../config/load.ts'
import { writeConfig } from '../config/write.ts'
import type { AnyMode } from '../modes/registry.ts'
import { modeByName } from '../modes/registry.ts'
import { systemClock } from '../shared/clock.ts'
import { UnsupportedError } from '../shared/errors.ts'
import type { Logger } from '../shared/logger.ts'
import { createLogger } from '../shared/logger.ts'
import type { Io } from './io.ts'
import { openKernel } from './open-kernel.ts'
import { limitYoungSpace, releaseMemory } from './release-memory.ts'
import { productVersion } from './version.ts'

/** `switchback run`, also installed as `kube-proxy`: the node agent, with kube-proxy's flags. */
export async function run(argv: readonly string[], io: Io): Promise<number> {
  const options = await loadRunOptions(argv, (path) => readFile(path, 'utf8'))
  if (options.show !== null) {
    io.stdout.write(options.show === 'help' ? flagHelp() : `switchback ${productVersion()}\n`)
    return 0
  }
  const log = createLogger({ sink: (line) => io.stderr.write(line), ...options.configuration.logging })
  for (const warning of options.warnings) log.warning(warning)
  if (options.writeConfigTo !== '') {
    await writeFile(options.writeConfigTo, await writeConfig(options))
    log.info('Wrote the configuration', { file: options.writeConfigTo })
    return 0
  }
  refuseWhatIsMissing(options)
  await runAgent(options, modeByName(options.configuration.mode), log)
  return 0
}

function refuseWhatIsMissing(options: RunOptions): void {
  for (const [given, flag] of [
    [options.cleanup, '--cleanup'],
    [options.initOnly, '--init-only'],
  ] as const) {
    if (given)
      throw new UnsupportedError(
        'FLAG_NOT_BUILT',
        flag,
        'a later version of Switchback',
        'Leave the flag out. Nothing was changed.',
      )
  }
}

/** The name of this node as the kubelet registers it: the override, or the host name in lower case. */
function nodeNameOf(options: RunOptions): string {
  const { hostnameOverride } = options.configuration
  return (hostnameOverride === '' ? hostname() : hostnameOverride).trim().toLowerCase()
}

/** Builds the real ports, in the order in which their failures should be seen, and runs the agent on them until a signal. */
async function runAgent(options: RunOptions, mode: AnyMode, log: Logger): Promise<void> {
  const { configuration } = options
  const nodeName = nodeNameOf(options)
  limitYoungSpace()
  const stop = stopOnSignals(log)
  const open: AsyncDisposable[] = [stop]
  try {
    const { loadAccess } = await import('../kubernetes/load-access.ts')
    const access = await loadAccess({
      kubeconfig: configuration.clientConnection.kubeconfig,
      master: options.master,
    })
    if (options.kernel === 'linux') {
      const { AgentLock } = await import('../node/single-agent.ts')
      open.push(await AgentLock.take())
    }
    const [{ ApiClient }, { Agent }, { ReflectorFeed }, { apiEvents }, { createProxyMetrics }, kernel] =
      await Promise.all([
        import('../kubernetes/client.ts'),
        import('../node/agent.ts'),
        import('../node/reflector-feed.ts'),
        import('../node/api-events.ts'),
        import('../observe/proxy-metrics.ts'),
        openKernel(options.kernel),
      ])
    open.push(kernel)
    const { qps, burst } = configuration.clientConnection
    const client = new ApiClient({ access, userAgent: `switchback/${productVersion()}`, qps, burst })
    open.push({ [Symbol.asyncDispose]: async () => client.close() })
    const agent = new Agent({
      configuration,
      nodeName,
      mode,
      kernel,
      feed: new ReflectorFeed(client, nodeName, log),
      events: apiEvents({ client, nodeName, log, signal: stop.signal }),
      metrics: await createProxyMetrics({ version: productVersion() }),
      releaseMemory,
      clock: systemClock,
      log,
    })
    await agent.run(stop.signal)
  } finally {
    for (const resource of open.toReversed()) await resource[Symbol.asyncDispose]()
  }
}

/** A signal that aborts on the first SIGTERM or SIGINT; a second one ends the process at once. Keeps the process alive. */
function stopOnSignals(log: Logger): AsyncDisposable & { readonly signal: AbortSignal } {
  const controller = new AbortController()
  const keepAlive = setInterval(() => {}, 2 ** 30)
  const onSignal = (name: NodeJS.Signals): void => {
    if (controller.signal.aborted) process.exit(130)
    log.info('Stopping', { signal: name })
    controller.abort()
  }
  process.on('SIGTERM', onSignal)
  process.on('SIGINT', onSignal)
  return {
    signal: controller.signal,
    async [Symbol.asyncDispose]() {
      clearInterval(keepAlive)
      process.off('SIGTERM', onSignal)
      process.off('SIGINT', onSignal)
    },
  }
}
