import { createInterface } from 'node:readline'
import { startApiServer } from '../../lab/apiserver/server.ts'
import { benchObjects } from './cluster.ts'
import { monotonicMs } from './figures.ts'

/**
 * The API server of a benchmark, as a process of its own: `node api-server.js SERVICES ENDPOINTS`. Prints its URL as one
 * JSON line when everything is stored. Each line on stdin, `{"path", "body"}`, is sent to it as a merge PATCH over HTTP,
 * as a client on the node would; the answer line tells when. Ends on SIGTERM.
 */
async function main(): Promise<void> {
  const [services, endpoints] = process.argv.slice(2).map(Number)
  const server = await startApiServer({ host: '127.0.0.1', port: 0 })
  server.store.putRaw(benchObjects(services!, endpoints!))
  process.once('SIGTERM', () => process.exit(0))
  await warm(server.url)
  say({ url: server.url })
  for await (const line of createInterface({ input: process.stdin })) {
    const { path, body } = JSON.parse(line) as { path: string; body: unknown }
    const sentAtMs = monotonicMs()
    const answer = await fetch(new URL(path, server.url), {
      method: 'PATCH',
      headers: { 'content-type': 'application/merge-patch+json' },
      body: JSON.stringify(body),
    })
    await answer.arrayBuffer()
    say({ sentAtMs, status: answer.status })
  }
}

/** Lists everything once: an API server that has run for a while has served its objects before. */
async function warm(url: string): Promise<void> {
  for (const path of ['/api/v1/services', '/apis/discovery.k8s.io/v1/endpointslices']) {
    await (await fetch(new URL(path, url))).arrayBuffer()
  }
}

function say(message: unknown): void {
  process.stdout.write(`${JSON.stringify(message)}\n`)
}

await main()
