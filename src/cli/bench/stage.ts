import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { openNft } from '../../kernel/nft/linux.ts'
import type { NftPort } from '../../kernel/nft/port.ts'
import {
  configureNamespace,
  createNamespaces,
  deleteNamespaces,
  namespacePath,
  spawnIn,
} from '../../lab/namespaces.ts'
import { ProxyError } from '../../shared/errors.ts'
import { BENCH_NODE } from './cluster.ts'
import { monotonicMs } from './figures.ts'

const LAUNCHER = fileURLToPath(new URL('../../../bin/switchback', import.meta.url))
const API_SERVER = fileURLToPath(new URL('./api-server.js', import.meta.url))

/** A namespace that plays a node, with an API server process in it that holds the cluster; the agent is started by {@link startAgent}. */
export interface Stage extends AsyncDisposable {
  readonly namespace: string
  readonly nft: NftPort
  startAgent(mode: string): ChildProcess
  /** Sends a merge PATCH to the API server from within the namespace; resolves with the moment it was sent ({@link monotonicMs}). */
  patch(path: string, body: unknown): Promise<number>
}

/** Sets the stage for `services` × `endpoints`; disposing of it ends every process and deletes the namespace. */
export async function setStage(services: number, endpoints: number): Promise<Stage> {
  const namespace = `sb-bench-${process.pid}-${Math.floor(performance.now())}`
  const directory = mkdtempSync(join(tmpdir(), 'switchback-bench-'))
  const children: ChildProcess[] = []
  const strike = async (): Promise<void> => {
    for (const child of children.toReversed()) await end(child)
    await deleteNamespaces([namespace])
    rmSync(directory, { recursive: true, force: true })
  }
  try {
    await createNamespaces([namespace])
    await configureNamespace(namespace, { ip: ['link set lo up', 'addr add 10.250.0.2/32 dev lo'] })
    const server = spawnIn(namespace, [process.execPath, API_SERVER, String(services), String(endpoints)], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    children.push(server)
    const answers = createInterface({ input: server.stdout! })[Symbol.asyncIterator]()
    const { url } = await nextAnswer<{ url: string }>(answers)
    const kubeconfig = join(directory, 'kubeconfig')
    writeFileSync(kubeconfig, kubeconfigFor(url))
    const nft = await openNft({ netns: namespacePath(namespace) })
    return {
      namespace,
      nft,
      async patch(path, body) {
        server.stdin!.write(`${JSON.stringify({ path, body })}\n`)
        const { sentAtMs, status } = await nextAnswer<{ sentAtMs: number; status: number }>(answers)
        if (status !== 200) throw new ProxyError('BENCH_FAILED', `PATCH ${path} was answered with ${status}`)
        return sentAtMs
      },
      startAgent(mode) {
        const argv = [
          process.execPath,
          LAUNCHER,
          'run',
          '--kubeconfig',
          kubeconfig,
          '--hostname-override',
          BENCH_NODE,
        ]
        const agent = spawnIn(namespace, [...argv, '--proxy-mode', mode, '--cluster-cidr', '10.128.0.0/9'], {
          stdio: [
            'ignore',
            'ignore',
            process.env['SWITCHBACK_BENCH_VERBOSE'] === undefined ? 'ignore' : 'inherit',
          ],
        })
        children.push(agent)
        return agent
      },
      async [Symbol.asyncDispose]() {
        await nft[Symbol.asyncDispose]()
        await strike()
      },
    }
  } catch (error) {
    await strike()
    throw error
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = once(child, 'exit')
  child.kill('SIGTERM')
  await Promise.race([gone, sleep(5000, undefined, { ref: false })])
  if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
}

async function nextAnswer<T>(answers: AsyncIterator<string>): Promise<T> {
  const { value, done } = await answers.next()
  if (done === true)
    throw new ProxyError(
      'BENCH_FAILED',
      'the API server of the benchmark ended; its own message stands above',
    )
  return JSON.parse(value) as T
}

function kubeconfigFor(url: string): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'bench', cluster: { server: url } }],
    users: [{ name: 'bench', user: {} }],
    contexts: [{ name: 'bench', context: { cluster: 'bench', user: 'bench' } }],
    'current-context': 'bench',
  })
}

/** Waits until the ruleset generation moves on from `from`; resolves with the moment it was seen, on the monotonic clock. */
export async function generationAfter(
  nft: NftPort,
  from: number,
  timeoutMs: number,
  pollMs: number,
): Promise<{ generation: number; at: number }> {
  const deadline = monotonicMs() + timeoutMs
  while (monotonicMs() < deadline) {
    const generation = await nft.generation()
    if (generation !== from) return { generation, at: monotonicMs() }
    await sleep(pollMs)
  }
  throw new ProxyError(
    'BENCH_FAILED',
    `the kernel's rules did not change within ${timeoutMs / 1000} s; run it again with SWITCHBACK_BENCH_VERBOSE=1 to see the agent's log`,
  )
}
