import { createServer } from 'node:http'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Cidr } from '../../net/cidr.ts'
import type { Clock } from '../../shared/clock.ts'
import { systemClock } from '../../shared/clock.ts'
import { DeploymentController } from './controllers/deployments.ts'
import { Scheduler } from './controllers/scheduler.ts'
import { SliceController } from './controllers/slices.ts'
import { Deleter } from './deletion.ts'
import { discoveryContentType, discoveryDocument } from './discovery.ts'
import type { Handling } from './handlers.ts'
import { handle } from './handlers.ts'
import { IpRange } from './ip-range.ts'
import { openApiDocument } from './openapi.ts'
import { OwnerIndex } from './owners.ts'
import { readRequest } from './request.ts'
import { RESOURCES } from './resources.ts'
import { sendJson, sendStatus } from './respond.ts'
import { seed } from './seed.ts'
import type { PortRange } from './service-allocation.ts'
import { ServiceClaims } from './service-claims.ts'
import { ApiError, noSuchPath } from './status.ts'
import { Store } from './store.ts'
import { strategiesFor } from './strategies.ts'
import type { WatchOptions } from './watch.ts'
import { Writer } from './writer.ts'

export interface ApiServerOptions {
  /** Address to listen on; `127.0.0.1` when not given. */
  readonly host?: string
  /** 0 (the default) lets the system choose. */
  readonly port?: number
  /** Address that the Service default/kubernetes leads to, where `host` is a wildcard. */
  readonly advertiseAddress?: string
  /** One or two prefixes that cluster IPs come from, primary family first. */
  readonly serviceCidrs?: readonly Cidr[]
  readonly nodePortRange?: PortRange
  readonly clock?: Clock
  /** How many changes of each kind stay watchable; older ones answer 410. */
  readonly historyLimit?: number
  /** Where resource versions start; milliseconds since the epoch when not given, so that a restart never goes back. */
  readonly firstRevision?: number
  readonly watch?: Partial<WatchOptions>
  /** Make EndpointSlices from selectors and pods; false when not given. */
  readonly endpointSliceController?: boolean
  /** Make pods from Deployments; false when not given. */
  readonly deploymentController?: boolean
  /** Give pods without a node to one; false when not given. */
  readonly scheduler?: boolean
}

/** A running API server. */
export interface ApiServer extends AsyncDisposable {
  /** `http://ADDRESS:PORT` */
  readonly url: string
  readonly port: number
  readonly store: Store
  /** May be changed while it runs: tests make a server send bookmarks sooner or expire in another way. */
  readonly watch: { -readonly [K in keyof WatchOptions]: WatchOptions[K] }
  /** Ends all connections and stops listening. */
  close(): Promise<void>
}

const DEFAULT_SERVICE_CIDRS = ['10.96.0.0/16'] as Cidr[]
const WATCH_DEFAULTS: WatchOptions = {
  bookmarkIntervalMs: 60_000,
  expiredWatch: 'stream',
  defaultTimeoutSeconds: 2700,
}

/**
 * Starts a Kubernetes API server that keeps everything in memory and serves plain HTTP without authentication: for
 * the lab, tests and benchmarks, on addresses that nobody else reaches.
 * @throws the listening error (EADDRINUSE, EADDRNOTAVAIL) as Node.js reports it.
 */
export async function startApiServer(options: ApiServerOptions = {}): Promise<ApiServer> {
  const clock = options.clock ?? systemClock
  const store = new Store({
    clock,
    historyLimit: options.historyLimit ?? 10_000,
    firstRevision: options.firstRevision ?? clock.now(),
  })
  const claims = new ServiceClaims()
  store.collection(RESOURCES.service).listen((change) => claims.follow(change))
  const cidrs = options.serviceCidrs ?? DEFAULT_SERVICE_CIDRS
  const ranges = cidrs.map((cidr) => new IpRange(cidr))
  const nodePorts = options.nodePortRange ?? { first: 30_000, last: 32_767 }
  const owners = new OwnerIndex(store)
  const watch = { ...WATCH_DEFAULTS, ...options.watch }
  const handling: Handling = {
    store,
    writer: new Writer(store, strategiesFor({ ranges, nodePorts, claims })),
    deleter: new Deleter(store, owners),
    watch,
  }
  const server = createServer((request, response) => void answer(handling, request, response))
  server.keepAliveTimeout = 120_000
  server.requestTimeout = 0
  await listen(server, options.host ?? '127.0.0.1', options.port ?? 0)
  const { port } = server.address() as AddressInfo
  const host = options.host ?? '127.0.0.1'
  seed(store, { ranges, address: options.advertiseAddress ?? host, port })
  const controllers = [
    ...(options.endpointSliceController === true ? [new SliceController(store)] : []),
    ...(options.deploymentController === true
      ? [new DeploymentController(store, handling.writer, handling.deleter)]
      : []),
    ...(options.scheduler === true ? [new Scheduler(store)] : []),
  ]
  const close = async (): Promise<void> => {
    for (const controller of controllers) controller.close()
    owners.close()
    await stop(server)
  }
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    port,
    store,
    watch,
    close,
    [Symbol.asyncDispose]: close,
  }
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

function stop(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}

async function answer(handling: Handling, message: IncomingMessage, response: ServerResponse): Promise<void> {
  try {
    await route(handling, message, response)
  } catch (error) {
    if (error instanceof ApiError) sendStatus(response, error.status)
    else {
      const text = error instanceof Error ? error.message : String(error)
      sendStatus(response, new ApiError(500, 'InternalError', `Internal error occurred: ${text}`).status)
    }
  }
}

async function route(handling: Handling, message: IncomingMessage, response: ServerResponse): Promise<void> {
  const [path = '/', search = ''] = (message.url ?? '/').split('?', 2)
  const accept = message.headers.accept ?? ''
  if (/^\/(healthz|livez|readyz)(\/|$)/.test(path)) {
    response.writeHead(200, { 'content-type': 'text/plain; charset=utf-8' }).end('ok')
    return
  }
  const document =
    message.method === 'GET' ? discoveryDocument(path, accept, message.headers.host ?? '') : null
  if (document !== null) {
    const bytes = Buffer.from(JSON.stringify(document))
    response.writeHead(200, { 'content-type': discoveryContentType(accept), 'content-length': bytes.length })
    response.end(bytes)
    return
  }
  if (path === '/') {
    sendJson(response, 200, {
      paths: ['/api', '/apis', '/healthz', '/livez', '/openapi/v2', '/openapi/v3', '/readyz', '/version'],
    })
    return
  }
  const openApi = message.method === 'GET' ? openApiDocument(path, accept) : null
  if (openApi !== null) {
    const { contentType, bytes } = openApi
    response.writeHead(200, { 'content-type': contentType, 'content-length': bytes.length })
    response.end(bytes)
    return
  }
  if (!path.startsWith('/api/') && !path.startsWith('/apis/')) throw noSuchPath()
  handle(handling, await readRequest(message, path, new URLSearchParams(search)), response)
}
