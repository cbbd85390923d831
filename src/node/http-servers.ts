import type { ProxyConfiguration } from '../config/configuration.ts'
import type { ModeName } from '../modes/mode.ts'
import type { ProxyMetrics } from '../observe/proxy-metrics.ts'
import type { Clock } from '../shared/clock.ts'
import type { Logger } from '../shared/logger.ts'
import type { HttpAnswer, HttpHandler } from './listener.ts'
import { Listener, PatientListener, parseListenAddress } from './listener.ts'
import type { ProxyHealth } from './proxy-health.ts'
import { healthBody } from './proxy-health.ts'

export interface HttpServerOptions {
  readonly configuration: ProxyConfiguration
  readonly mode: ModeName
  readonly health: ProxyHealth
  /** False while this node is being deleted or scaled away: load balancers shall drain it (KEP-3836). */
  readonly nodeEligible: () => boolean
  readonly metrics: ProxyMetrics
  readonly clock: Clock
  readonly log: Logger
  /** Told of a server that cannot be opened, with the reason of its Event. */
  readonly onBindFailure: (reason: string, error: Error) => void
}

/**
 * Opens the health server (10256) and the metrics server (10249). A port that is taken is tried again, unless
 * `bindAddressHardFail` is set: then this rejects.
 */
export async function openHttpServers(options: HttpServerOptions): Promise<AsyncDisposable> {
  const { configuration } = options
  const opened = [
    await openServer(
      options,
      configuration.healthzBindAddress,
      healthHandler(options),
      'FailedToStartProxierHealthcheck',
    ),
    await openServer(
      options,
      configuration.metricsBindAddress,
      metricsHandler(options),
      'FailedToStartMetricServer',
    ),
  ]
  return {
    async [Symbol.asyncDispose]() {
      await Promise.all(opened.map((server) => server?.[Symbol.asyncDispose]()))
    },
  }
}

async function openServer(
  options: HttpServerOptions,
  bindAddress: string,
  handler: HttpHandler,
  reason: string,
): Promise<AsyncDisposable | null> {
  const address = parseListenAddress(bindAddress)
  if (address === null) return null
  const open = (): Promise<Listener> => Listener.open(address, handler, true)
  if (options.configuration.bindAddressHardFail) return open()
  const server = new PatientListener(open, options.clock, (error) => {
    options.log.error(error, 'A server cannot be opened; trying again every 5 seconds', { bindAddress })
    options.onBindFailure(reason, error)
  })
  await server.start()
  return server
}

/** `/healthz` judges the proxy and the node, `/livez` the proxy alone. */
export function healthHandler(
  options: Pick<HttpServerOptions, 'health' | 'nodeEligible' | 'metrics'>,
): HttpHandler {
  return (path) => {
    if (path !== '/healthz' && path !== '/livez') return notFound
    const report = options.health.report()
    const eligible = path === '/healthz' ? options.nodeEligible() : null
    const status = report.healthy && eligible !== false ? 200 : 503
    const counter = path === '/healthz' ? options.metrics.healthzRequests : options.metrics.livezRequests
    counter.inc({ code: String(status) })
    return {
      status,
      headers: { 'Content-Type': 'application/json', 'X-Content-Type-Options': 'nosniff' },
      body: healthBody(report, eligible),
    }
  }
}

/** `/metrics`, `/proxyMode` and a plain `/healthz`. */
export function metricsHandler(options: Pick<HttpServerOptions, 'metrics' | 'mode'>): HttpHandler {
  return async (path) => {
    switch (path) {
      case '/metrics': {
        const { registry } = options.metrics
        return {
          status: 200,
          headers: { 'Content-Type': registry.contentType },
          body: await registry.metrics(),
        }
      }
      case '/proxyMode':
        return plain(200, options.mode)
      case '/healthz':
        return plain(200, 'ok')
      default:
        return notFound
    }
  }
}

const notFound: HttpAnswer = plain(404, '404 page not found\n')

function plain(status: number, body: string): HttpAnswer {
  return {
    status,
    headers: { 'Content-Type': 'text/plain; charset=utf-8', 'X-Content-Type-Options': 'nosniff' },
    body,
  }
}
