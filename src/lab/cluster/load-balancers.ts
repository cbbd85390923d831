import { request } from 'node:http'
import type { Service } from '../../kubernetes/objects.ts'
import { parseCidr, splitCidr } from '../../net/cidr.ts'
import { familyOf, ipFromBytes, ipToBytes, parseIp } from '../../net/ip.ts'
import type { Ip } from '../../net/ip.ts'
import { mirror } from '../api-client.ts'
import type { ApiClient } from '../api-client.ts'
import { ipBatch } from '../namespaces.ts'
import type { LabPlan, NodePlan } from '../plan.ts'
import { UNDERLAY } from '../topology.ts'

const HEALTH_CHECK_MS = 1000
const HEALTH_TIMEOUT_MS = 800
const FAMILIES = ['IPv4', 'IPv6'] as const

/** Address `number` of a range, e.g. 203.0.113.0/24 and 7 → 203.0.113.7. Numbers stay below 256. */
export function addressIn(range: string, number: number): Ip {
  const cidr = parseCidr(range)
  if (cidr === null) throw new TypeError(`not a prefix: ${range}`)
  const bytes = Uint8Array.from(ipToBytes(splitCidr(cidr).address))
  bytes[bytes.length - 1] = number
  return ipFromBytes(bytes)
}

/** The addresses that Services of type LoadBalancer have. */
function ingressOf(service: Service): string[] {
  return (service.status?.loadBalancer?.ingress ?? []).map(({ ip }) => ip ?? '').filter((ip) => ip !== '')
}

/**
 * The addresses to give to a Service that has none yet: one for each of its families, with the first number that no
 * other Service uses. Null: nothing to do. Pure.
 */
export function assignAddresses(
  service: Service,
  all: Iterable<Service>,
  ranges: LabPlan['loadBalancers'],
): Ip[] | null {
  if (service.spec.type !== 'LoadBalancer' || ingressOf(service).length > 0) return null
  const used = new Set([...all].flatMap(ingressOf))
  const families = FAMILIES.filter((family) => (service.spec.ipFamilies ?? ['IPv4']).includes(family))
  for (let number = 1; number < 255; number++) {
    const ips = families.map((family) => addressIn(family === 'IPv4' ? ranges.ipv4 : ranges.ipv6, number))
    if (ips.every((ip) => !used.has(ip))) return ips
  }
  return null
}

/**
 * Plays the load balancer of a cloud: gives addresses to Services of type LoadBalancer. The router spreads them over
 * all nodes; for `externalTrafficPolicy: Local` only over those whose health check node port says they have an endpoint.
 */
export class LoadBalancers {
  readonly #client: ApiClient
  readonly #plan: LabPlan
  readonly #log: (message: string) => void
  readonly #routes = new Map<string, string>()
  #services: ReadonlyMap<string, Service> = new Map()

  constructor(client: ApiClient, plan: LabPlan, log: (message: string) => void) {
    this.#client = client
    this.#plan = plan
    this.#log = log
  }

  /** Follows the Services until the signal aborts. */
  start(signal: AbortSignal): void {
    let assigning = Promise.resolve()
    const services = mirror<Service>(
      this.#client,
      '/api/v1/services',
      signal,
      () => (assigning = assigning.then(() => this.#assign())),
      (error) => this.#log(`watching Services: ${String(error)}`),
    )
    this.#services = services.objects
    const check = async (): Promise<void> => {
      await this.#routeAll().catch((error: unknown) => this.#log(`load balancer routes: ${String(error)}`))
      if (!signal.aborted) setTimeout(() => void check(), HEALTH_CHECK_MS)
    }
    void check()
  }

  async #assign(): Promise<void> {
    for (const service of this.#services.values()) {
      const ips = assignAddresses(service, this.#services.values(), this.#plan.loadBalancers)
      if (ips === null) continue
      const { namespace = '', name } = service.metadata
      const status = { loadBalancer: { ingress: ips.map((ip) => ({ ip, ipMode: 'VIP' })) } }
      try {
        await this.#client.patch(`/api/v1/namespaces/${namespace}/services/${name}/status`, { status })
      } catch (error) {
        this.#log(`load balancer of ${namespace}/${name}: ${String(error)}`)
      }
      return // the next address is chosen when this one shows
    }
  }

  async #routeAll(): Promise<void> {
    const wanted = new Map<string, string>()
    for (const service of this.#services.values()) {
      const port = service.spec.healthCheckNodePort ?? 0
      if (port === 0) continue
      const healthy = await healthyNodes(this.#plan.nodes, port)
      for (const text of ingressOf(service)) {
        const ip = parseIp(text)
        if (ip === null) continue
        const hops = healthy.map(
          ({ address }) => `nexthop via ${familyOf(ip) === 'IPv4' ? address.ipv4 : address.ipv6}`,
        )
        wanted.set(ip, hops.length === 0 ? `unreachable ${ip}` : `${ip} ${hops.join(' ')}`)
      }
    }
    const lines: string[] = []
    for (const [ip, route] of wanted) {
      if (this.#routes.get(ip) === route) continue
      if (this.#routes.has(ip)) lines.push(`route del ${typeOf(this.#routes.get(ip)!)}${ip}`)
      lines.push(`route add ${route}`)
    }
    for (const [ip, route] of this.#routes) if (!wanted.has(ip)) lines.push(`route del ${typeOf(route)}${ip}`)
    await ipBatch(lines, { namespace: UNDERLAY })
    this.#routes.clear()
    for (const [ip, route] of wanted) this.#routes.set(ip, route)
  }
}

function typeOf(route: string): string {
  return route.startsWith('unreachable ') ? 'unreachable ' : ''
}

async function healthyNodes(nodes: readonly NodePlan[], port: number): Promise<NodePlan[]> {
  const healthy = await Promise.all(nodes.map((node) => isHealthy(`http://${node.address.ipv4}:${port}/`)))
  return nodes.filter((_node, i) => healthy[i])
}

function isHealthy(url: string): Promise<boolean> {
  return new Promise((resolve) => {
    const outgoing = request(url, { agent: false, timeout: HEALTH_TIMEOUT_MS }, (response) => {
      response.resume()
      resolve(response.statusCode === 200)
    })
    outgoing.once('timeout', () => outgoing.destroy())
    outgoing.once('error', () => resolve(false))
    outgoing.end()
  })
}
