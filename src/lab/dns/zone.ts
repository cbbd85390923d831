import type { Answer } from 'dns-packet'
import type { EndpointSlice, Service, SliceEndpoint } from '../../kubernetes/objects.ts'
import { familyOf, ipToBytes, parseIp } from '../../net/ip.ts'

/** What the zone is made from: the cluster's Services and EndpointSlices. */
export interface ZoneView {
  readonly domain: string
  /** By `namespace/name`. */
  readonly services: ReadonlyMap<string, Service>
  /** Slices of each service, by `namespace/name` of the service. */
  readonly slices: ReadonlyMap<string, readonly EndpointSlice[]>
}

export interface ZoneAnswer {
  readonly rcode: 'NOERROR' | 'NXDOMAIN' | 'REFUSED'
  readonly answers: readonly Answer[]
  /** Addresses of the targets in `answers`. */
  readonly additionals: readonly Answer[]
}

/** Seconds; as short as cluster DNS servers use, since Services change. */
export const TTL_SECONDS = 5

const NO_NAME: ZoneAnswer = { rcode: 'NXDOMAIN', answers: [], additionals: [] }
const NO_DATA: ZoneAnswer = { rcode: 'NOERROR', answers: [], additionals: [] }
const NOT_OURS: ZoneAnswer = { rcode: 'REFUSED', answers: [], additionals: [] }

/** Slices grouped by the service they belong to. */
export function groupSlices(slices: Iterable<EndpointSlice>): Map<string, EndpointSlice[]> {
  const groups = new Map<string, EndpointSlice[]>()
  for (const slice of slices) {
    const service = slice.metadata.labels?.['kubernetes.io/service-name']
    if (service === undefined) continue
    const key = `${slice.metadata.namespace ?? ''}/${service}`
    groups.set(key, [...(groups.get(key) ?? []), slice])
  }
  return groups
}

/**
 * Answers one question from the zone `cluster.local`, after the "Kubernetes DNS-Based Service Discovery"
 * specification 1.1.0: Services, headless Services, their endpoints, SRV and PTR. Names are compared without case.
 */
export function resolve(view: ZoneView, name: string, type: string): ZoneAnswer {
  const wanted = name.toLowerCase().replace(/\.$/, '')
  if (wanted.endsWith('.in-addr.arpa') || wanted.endsWith('.ip6.arpa'))
    return reverse(view, name, wanted, type)
  if (wanted === view.domain) return NO_DATA
  if (!wanted.endsWith(`.${view.domain}`)) return NOT_OURS
  const labels = wanted.slice(0, -view.domain.length - 1).split('.')
  if (labels.length === 1 && labels[0] === 'dns-version') {
    return records(type === 'TXT' ? [{ name, type: 'TXT', ttl: TTL_SECONDS, data: '1.1.0' }] : [])
  }
  if (labels.at(-1) !== 'svc') return NO_NAME
  const [service, namespace] = [labels.at(-3), labels.at(-2)]
  if (namespace === undefined) return NO_DATA
  if (service === undefined) return namespaceHasServices(view, namespace) ? NO_DATA : NO_NAME
  const object = view.services.get(`${namespace}/${service}`)
  if (object === undefined) return NO_NAME
  return inService(view, object, labels.slice(0, -3), name, type)
}

function records(answers: readonly Answer[], additionals: readonly Answer[] = []): ZoneAnswer {
  return { rcode: 'NOERROR', answers, additionals }
}

function namespaceHasServices(view: ZoneView, namespace: string): boolean {
  return [...view.services.keys()].some((key) => key.startsWith(`${namespace}/`))
}

function inService(
  view: ZoneView,
  service: Service,
  prefix: readonly string[],
  name: string,
  type: string,
): ZoneAnswer {
  if (service.spec.type === 'ExternalName') {
    if (prefix.length > 0) return NO_NAME
    const data = service.spec.externalName ?? ''
    return records([{ name, type: 'CNAME', ttl: TTL_SECONDS, data }])
  }
  const headless = isHeadless(service)
  const endpoints = headless ? endpointNames(view, service) : []
  if (headless && endpoints.length === 0) return NO_NAME
  if (prefix.length === 0) {
    const addresses = headless ? endpoints.map(({ ip }) => ip) : clusterIps(service)
    return records(addressRecords(name, type, addresses))
  }
  if (prefix.length === 1 && /^_(tcp|udp|sctp)$/.test(prefix[0]!)) return NO_DATA
  if (prefix.length === 1) {
    const named = endpoints.filter(({ hostname }) => hostname === prefix[0])
    return named.length === 0
      ? NO_NAME
      : records(
          addressRecords(
            name,
            type,
            named.map(({ ip }) => ip),
          ),
        )
  }
  if (prefix.length !== 2) return NO_NAME
  return portRecords(view, service, endpoints, prefix as [string, string], name, type)
}

/** SRV for `_port._protocol`: the Service itself, or each endpoint of a headless one. */
function portRecords(
  view: ZoneView,
  service: Service,
  endpoints: readonly NamedEndpoint[],
  [portLabel, protocolLabel]: [string, string],
  name: string,
  type: string,
): ZoneAnswer {
  const wanted = (port: { name?: string | null; protocol?: string | null }): boolean =>
    `_${port.name ?? ''}` === portLabel && `_${(port.protocol ?? 'TCP').toLowerCase()}` === protocolLabel
  const base = serviceName(view, service)
  const targets = isHeadless(service)
    ? endpoints.flatMap((endpoint) =>
        endpoint.ports.filter(wanted).map((port) => ({
          target: `${endpoint.hostname}.${base}`,
          port: port.port ?? 0,
          ips: [endpoint.ip],
        })),
      )
    : (service.spec.ports ?? [])
        .filter(wanted)
        .map(({ port }) => ({ target: base, port, ips: clusterIps(service) }))
  if (targets.length === 0) return NO_NAME
  if (type !== 'SRV') return NO_DATA
  return records(
    targets.map(({ target, port }) => ({
      name,
      type: 'SRV',
      ttl: TTL_SECONDS,
      data: { priority: 0, weight: Math.floor(100 / targets.length), port, target },
    })),
    targets.flatMap(({ target, ips }) => [
      ...addressRecords(target, 'A', ips),
      ...addressRecords(target, 'AAAA', ips),
    ]),
  )
}

function addressRecords(name: string, type: string, ips: readonly string[]): Answer[] {
  const distinct = [...new Set(ips)]
  if (type === 'A')
    return distinct.filter((ip) => !ip.includes(':')).map((data) => ({ name, type, ttl: TTL_SECONDS, data }))
  if (type !== 'AAAA') return []
  return distinct.filter((ip) => ip.includes(':')).map((data) => ({ name, type, ttl: TTL_SECONDS, data }))
}

function isHeadless(service: Service): boolean {
  return service.spec.clusterIP === 'None'
}

function clusterIps(service: Service): string[] {
  const { clusterIPs, clusterIP } = service.spec
  return [...(clusterIPs ?? [clusterIP ?? ''])].filter((ip) => ip !== '' && ip !== 'None')
}

function serviceName(view: ZoneView, service: Service): string {
  return `${service.metadata.name}.${service.metadata.namespace ?? ''}.svc.${view.domain}`
}

interface NamedEndpoint {
  readonly hostname: string
  readonly ip: string
  readonly ports: NonNullable<EndpointSlice['ports']>
}

/** The endpoints of a service that have a name in DNS: those that are ready, or all if the service publishes them. */
function endpointNames(view: ZoneView, service: Service): NamedEndpoint[] {
  const slices = view.slices.get(`${service.metadata.namespace ?? ''}/${service.metadata.name}`) ?? []
  const published = (endpoint: SliceEndpoint): boolean =>
    service.spec.publishNotReadyAddresses === true || endpoint.conditions?.ready !== false
  return slices.flatMap((slice) =>
    (slice.endpoints ?? []).filter(published).flatMap((endpoint) =>
      endpoint.addresses.map((ip) => ({
        ip,
        hostname: endpoint.hostname ?? ip.replaceAll(/[.:]/g, '-'),
        ports: slice.ports ?? [],
      })),
    ),
  )
}

function reverse(view: ZoneView, name: string, wanted: string, type: string): ZoneAnswer {
  for (const service of view.services.values()) {
    if (clusterIps(service).some((ip) => reverseName(ip) === wanted)) {
      return records(pointer(name, type, serviceName(view, service)))
    }
    if (!isHeadless(service)) continue
    const endpoint = endpointNames(view, service).find(({ ip }) => reverseName(ip) === wanted)
    if (endpoint !== undefined) {
      return records(pointer(name, type, `${endpoint.hostname}.${serviceName(view, service)}`))
    }
  }
  return NOT_OURS
}

function pointer(name: string, type: string, data: string): Answer[] {
  return type === 'PTR' ? [{ name, type, ttl: TTL_SECONDS, data }] : []
}

/** `10.96.0.10` → `10.0.96.10.in-addr.arpa`; nibbles under ip6.arpa for IPv6. */
export function reverseName(text: string): string | null {
  const ip = parseIp(text)
  if (ip === null) return null
  const bytes = [...ipToBytes(ip)]
  if (familyOf(ip) === 'IPv4') return `${bytes.toReversed().join('.')}.in-addr.arpa`
  const nibbles = bytes.flatMap((byte) => [byte >> 4, byte & 15]).toReversed()
  return `${nibbles.map((nibble) => nibble.toString(16)).join('.')}.ip6.arpa`
}
