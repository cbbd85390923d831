import { parseArgs } from 'node:util'
import type { Cidr } from '../../net/cidr.ts'
import { parseCidr } from '../../net/cidr.ts'
import { ProxyError, UsageError } from '../../shared/errors.ts'
import { readObjects } from './load.ts'
import type { ApiServerOptions } from './server.ts'
import { startApiServer } from './server.ts'

const USAGE = `usage: node dist/lab/apiserver/main.js [options]

An in-memory Kubernetes API server on plain HTTP. Prints {"url": "http://ADDRESS:PORT"} on stdout when it serves.

  --listen ADDRESS:PORT       where to listen (default 127.0.0.1:0, a free port)
  --advertise ADDRESS         where default/kubernetes leads to (default: the listening address)
  --service-cidr CIDR         prefix of cluster IPs; give it twice for dual stack, primary first (10.96.0.0/16)
  --node-port-range FIRST-LAST                                        (30000-32767)
  --controllers               make EndpointSlices from selectors and pods, pods from Deployments, give pods to nodes
  --load FILE                 store the objects of a YAML or JSON file as they are, without validation; repeatable
  --history N                 changes of each kind that stay watchable    (10000)
`

/** Reads the command line; @throws UsageError */
export function optionsOf(args: readonly string[]): ApiServerOptions & { readonly load: readonly string[] } {
  const { values } = parse(args)
  const listen = /^\[?([^\]]*?)\]?:(\d+)$/.exec(values.listen ?? '127.0.0.1:0')
  if (listen === null) throw new UsageError(`--listen ${values.listen}: expected ADDRESS:PORT.\n\n${USAGE}`)
  const cidrs = (values['service-cidr'] ?? []).map((text) => {
    const cidr = parseCidr(text)
    if (cidr === null)
      throw new UsageError(`--service-cidr ${text}: expected a prefix like 10.96.0.0/16.\n\n${USAGE}`)
    return cidr
  })
  return {
    host: listen[1]!,
    port: Number(listen[2]),
    ...(values.advertise === undefined ? {} : { advertiseAddress: values.advertise }),
    ...(cidrs.length === 0 ? {} : { serviceCidrs: cidrs as readonly Cidr[] }),
    ...(values['node-port-range'] === undefined
      ? {}
      : { nodePortRange: portRange(values['node-port-range']) }),
    ...(values.history === undefined ? {} : { historyLimit: Number(values.history) }),
    endpointSliceController: values.controllers === true,
    deploymentController: values.controllers === true,
    scheduler: values.controllers === true,
    load: values.load ?? [],
  }
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        listen: { type: 'string' },
        advertise: { type: 'string' },
        'service-cidr': { type: 'string', multiple: true },
        'node-port-range': { type: 'string' },
        controllers: { type: 'boolean' },
        load: { type: 'string', multiple: true },
        history: { type: 'string' },
      },
    })
  } catch (cause) {
    throw new UsageError(`${(cause as Error).message}\n\n${USAGE}`, { cause })
  }
}

function portRange(text: string): { first: number; last: number } {
  const match = /^(\d+)-(\d+)$/.exec(text)
  if (match === null) throw new UsageError(`--node-port-range ${text}: expected FIRST-LAST.\n\n${USAGE}`)
  return { first: Number(match[1]), last: Number(match[2]) }
}

async function main(): Promise<void> {
  const { load, ...options } = optionsOf(process.argv.slice(2))
  const objects = load.flatMap((file) => readObjects(file))
  const server = await startApiServer(options)
  server.store.putRaw(objects)
  process.stdout.write(`${JSON.stringify({ url: server.url })}\n`)
  const end = (): void => void server.close().then(() => process.exit(0))
  process.once('SIGTERM', end)
  process.once('SIGINT', end)
}

if (process.argv[1] !== undefined && import.meta.filename === process.argv[1]) {
  main().catch((error: unknown) => {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
    process.exit(error instanceof ProxyError && error.code === 'USAGE' ? 2 : 1)
  })
}
