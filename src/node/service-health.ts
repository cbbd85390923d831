import type { IpFamily } from '../net/family.ts'
import type { NodeView, ServiceHealth, ServiceMap } from '../services/service-map.ts'
import type { Clock } from '../shared/clock.ts'
import type { HttpAnswer, Listener } from './listener.ts'
import { Listener as HttpListener, PatientListener } from './listener.ts'

interface Entry {
  health: ServiceHealth
  readonly listeners: readonly PatientListener[]
}

export interface ServiceHealthOptions {
  readonly clock: Clock
  /** Whether the proxy itself keeps up; a proxy that does not must not attract traffic. */
  readonly proxyHealthy: () => boolean
  /** A port could not be opened (it is tried again by itself). */
  readonly onBindFailure: (health: ServiceHealth, error: Error) => void
  /** Opens one server; replaced in tests that look at addresses only. */
  readonly listen?: typeof HttpListener.open
}

/**
 * The health check node ports of Services with externalTrafficPolicy Local, in one IP family: load balancers ask them
 * whether this node has ready endpoints. They listen where node ports are served (kubernetes/kubernetes#122899).
 */
export class ServiceHealthServers implements AsyncDisposable {
  readonly #options: ServiceHealthOptions
  readonly #entries = new Map<string, Entry>()
  #hosts: readonly string[] = []

  constructor(options: ServiceHealthOptions) {
    this.#options = options
  }

  /**
   * Brings the servers from one map to the next. `before` = null: everything is new. Ports that left are closed, with
   * their connections, before new ones open, so that a port can move from one Service to another.
   */
  async follow(before: ServiceMap | null, after: ServiceMap): Promise<void> {
    const hosts = listenHosts(after.node)
    if (before === null || hosts.join() !== this.#hosts.join()) {
      this.#hosts = hosts
      await this.#reopen(after)
      return
    }
    const opening: ServiceHealth[] = []
    for (const { key, after: health } of after.health.changesSince(before.health)) {
      const entry = this.#entries.get(key)
      if (health !== undefined && entry !== undefined && entry.health.port === health.port) {
        entry.health = health
        continue
      }
      await this.#close(key)
      if (health !== undefined) opening.push(health)
    }
    await Promise.all(opening.map((health) => this.#open(health)))
  }

  /** Services with a server, or with one that waits for its port. */
  get size(): number {
    return this.#entries.size
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#entries.keys()].map((key) => this.#close(key)))
  }

  async #reopen(map: ServiceMap): Promise<void> {
    await this[Symbol.asyncDispose]()
    await Promise.all([...map.health.values()].map((health) => this.#open(health)))
  }

  async #open(health: ServiceHealth): Promise<void> {
    const key = `${health.namespace}/${health.name}`
    const listen = this.#options.listen ?? HttpListener.open
    const handler = (): HttpAnswer => this.#answer(key)
    const listeners = this.#hosts.map((host) => {
      const open = (): Promise<Listener> => listen({ host, port: health.port }, handler)
      return new PatientListener(open, this.#options.clock, (error) =>
        this.#options.onBindFailure(health, error),
      )
    })
    this.#entries.set(key, { health, listeners })
    await Promise.all(listeners.map((listener) => listener.start()))
  }

  async #close(key: string): Promise<void> {
    const entry = this.#entries.get(key)
    this.#entries.delete(key)
    await Promise.all(entry?.listeners.map((listener) => listener[Symbol.asyncDispose]()) ?? [])
  }

  #answer(key: string): HttpAnswer {
    const entry = this.#entries.get(key)
    const localEndpoints = entry?.health.localReadyIps.length ?? 0
    const serviceProxyHealthy = this.#options.proxyHealthy()
    const body = {
      service: { namespace: entry?.health.namespace ?? '', name: entry?.health.name ?? '' },
      localEndpoints,
      serviceProxyHealthy,
    }
    return {
      status: localEndpoints > 0 && serviceProxyHealthy ? 200 : 503,
      headers: {
        'Content-Type': 'application/json',
        'X-Content-Type-Options': 'nosniff',
        'X-Load-Balancing-Endpoint-Weight': String(localEndpoints),
      },
      body: JSON.stringify(body, null, '\t'),
    }
  }
}

/** Addresses to listen on: those of node ports, or the unspecified address where every address serves them. */
function listenHosts(node: NodeView): readonly string[] {
  return node.nodePortAddresses === 'any-local' ? [UNSPECIFIED[node.family]] : node.nodePortIps
}

const UNSPECIFIED: Readonly<Record<IpFamily, string>> = { IPv4: '0.0.0.0', IPv6: '::' }
