import type { IpFamily } from '../../net/family.ts'
import { familyOf, parseIp } from '../../net/ip.ts'
import type { Service } from '../../kubernetes/objects.ts'
import { keyOf } from './collection.ts'
import type { IpRange } from './ip-range.ts'
import type { ApiObject } from './json.ts'
import type { ServiceClaims } from './service-claims.ts'
import type { WritableService } from './service-defaults.ts'
import { asService, isHeadless, needsHealthCheckNodePort, usesNodePorts } from './service-defaults.ts'
import type { Causes } from './status.ts'

export interface PortRange {
  readonly first: number
  readonly last: number
}

export interface Pools {
  /** One or two ranges, primary family first. */
  readonly ranges: readonly IpRange[]
  readonly nodePorts: PortRange
  readonly claims: ServiceClaims
}

/** Gives a Service its families, cluster IPs, node ports and health check node port. */
export function allocateService(
  pools: Pools,
  object: ApiObject,
  _old: ApiObject | null,
  causes: Causes,
): void {
  const service = asService(object)
  const key = keyOf(service.metadata.namespace ?? '', service.metadata.name)
  if (service.spec.type !== 'ExternalName') {
    const families = chooseFamilies(pools, service, causes)
    if (causes.all.length === 0) allocateAddresses(pools, service, key, families, causes)
  }
  if (usesNodePorts(service)) allocateNodePorts(pools, service, key, causes)
  if (needsHealthCheckNodePort(service)) allocateHealthPort(pools, service, key, causes)
}

/** Settles ipFamilyPolicy and ipFamilies (KEP-563): from the families or addresses asked for, else the primary. */
function chooseFamilies({ ranges }: Pools, service: WritableService, causes: Causes): IpFamily[] {
  const { spec } = service
  const configured = ranges.map(({ family }) => family)
  const asked = familiesAskedFor(service)
  const selectorless = isHeadless(service) && Object.keys(spec.selector ?? {}).length === 0
  for (const [i, family] of asked.entries()) {
    if (!configured.includes(family) && !selectorless) {
      causes.invalid(`spec.ipFamilies[${i}]`, family, 'not configured on this cluster')
    }
  }
  const policy =
    spec.ipFamilyPolicy ?? (asked.length === 2 ? 'RequireDualStack' : defaultPolicy(selectorless, asked))
  if (policy === 'RequireDualStack' && configured.length < 2 && !selectorless) {
    causes.invalid('spec.ipFamilyPolicy', policy, 'this cluster is not configured for dual-stack services')
  }
  if (policy === 'SingleStack' && asked.length === 2) {
    causes.invalid(
      'spec.ipFamilyPolicy',
      policy,
      'must be RequireDualStack or PreferDualStack when multiple ipFamilies are specified',
    )
  }
  const first = asked[0] ?? configured[0] ?? 'IPv4'
  const second: IpFamily = first === 'IPv4' ? 'IPv6' : 'IPv4'
  const two = policy !== 'SingleStack' && (configured.includes(second) || selectorless)
  spec.ipFamilyPolicy = policy
  spec.ipFamilies = two ? [first, second] : [first]
  return spec.ipFamilies as IpFamily[]
}

function defaultPolicy(selectorlessHeadless: boolean, asked: readonly IpFamily[]): string {
  return selectorlessHeadless && asked.length === 0 ? 'RequireDualStack' : 'SingleStack'
}

function familiesAskedFor({ spec }: Service): IpFamily[] {
  if (spec.ipFamilies !== undefined && spec.ipFamilies.length > 0) return spec.ipFamilies as IpFamily[]
  const ips =
    spec.clusterIPs ?? (spec.clusterIP === undefined || spec.clusterIP === '' ? [] : [spec.clusterIP])
  return ips
    .map((ip) => parseIp(ip))
    .filter((ip) => ip !== null)
    .map(familyOf)
}

function allocateAddresses(
  pools: Pools,
  service: WritableService,
  key: string,
  families: readonly IpFamily[],
  causes: Causes,
): void {
  const { spec } = service
  if (isHeadless(service)) {
    spec.clusterIP = 'None'
    spec.clusterIPs = ['None']
    return
  }
  const given = spec.clusterIPs?.length ? spec.clusterIPs : spec.clusterIP ? [spec.clusterIP] : []
  const result: string[] = []
  for (const [i, family] of families.entries()) {
    const range = pools.ranges.find((each) => each.family === family)
    const ip = given[i]
    if (range === undefined) continue
    if (ip === undefined || ip === '') {
      const picked = range.pick((each) => pools.claims.hasAddress(each, ''))
      if (picked === null)
        causes.invalid('spec.clusterIPs', given, 'failed to allocate a serviceIP: range is full')
      else result.push(picked)
    } else {
      checkChosen(pools, range, ip, key, causes, given)
      result.push(ip)
    }
  }
  if (causes.all.length > 0) return
  spec.clusterIP = result[0]!
  spec.clusterIPs = result
}

function checkChosen(
  { claims }: Pools,
  range: IpRange,
  ip: string,
  key: string,
  causes: Causes,
  given: readonly string[],
): void {
  const parsed = parseIp(ip)
  if (parsed === null || familyOf(parsed) !== range.family) {
    causes.invalid(
      'spec.clusterIPs',
      given,
      `expected an ${range.family} value as indicated by \`ipFamilies\``,
    )
  } else if (!range.contains(parsed)) {
    causes.invalid(
      'spec.clusterIPs',
      given,
      `failed to allocate IP ${ip}: the provided IP (${ip}) is not in the valid range. The range of valid IPs is ${range.cidr}`,
    )
  } else if (claims.hasAddress(parsed, key)) {
    causes.invalid('spec.clusterIPs', given, `failed to allocate IP ${ip}: provided IP is already allocated`)
  }
}

function allocateNodePorts(pools: Pools, { spec }: WritableService, key: string, causes: Causes): void {
  const own = new Set((spec.ports ?? []).map(({ nodePort }) => nodePort ?? 0))
  const sharable = new Map<number, number>()
  for (const [i, port] of (spec.ports ?? []).entries()) {
    const field = `spec.ports[${i}].nodePort`
    if (port.nodePort !== undefined && port.nodePort !== 0) {
      checkNodePort(pools, port.nodePort, key, field, causes)
    } else {
      // One node port serves the same port number of several protocols, as for DNS over UDP and TCP.
      const picked = sharable.get(port.port) ?? pickPort(pools, own)
      if (picked === null) causes.invalid(field, 0, 'failed to allocate a nodePort: range is full')
      else port.nodePort = picked
    }
    if (port.nodePort !== undefined) {
      own.add(port.nodePort)
      sharable.set(port.port, port.nodePort)
    }
  }
}

function allocateHealthPort(pools: Pools, { spec }: WritableService, key: string, causes: Causes): void {
  const field = 'spec.healthCheckNodePort'
  if (spec.healthCheckNodePort !== undefined && spec.healthCheckNodePort !== 0) {
    checkNodePort(pools, spec.healthCheckNodePort, key, field, causes)
    return
  }
  const picked = pickPort(pools, new Set((spec.ports ?? []).map(({ nodePort }) => nodePort ?? 0)))
  if (picked === null) causes.invalid(field, 0, 'failed to allocate a HealthCheck NodePort: range is full')
  else spec.healthCheckNodePort = picked
}

function checkNodePort(pools: Pools, port: number, key: string, field: string, causes: Causes): void {
  const { first, last } = pools.nodePorts
  if (port < first || port > last) {
    causes.invalid(
      field,
      port,
      `provided port is not in the valid range. The range of valid ports is ${first}-${last}`,
    )
  } else if (pools.claims.hasNodePort(port, key)) {
    causes.invalid(field, port, 'provided port is already allocated')
  }
}

/** The lowest free port above the part left for people who choose ports themselves (KEP-3668). */
function pickPort({ nodePorts: { first, last }, claims }: Pools, own: ReadonlySet<number>): number | null {
  const size = last - first + 1
  const band = size < 32 ? 0 : Math.min(128, Math.max(16, size >> 5))
  const free = (port: number): boolean => !claims.hasNodePort(port, '') && !own.has(port)
  for (let port = first + band; port <= last; port++) if (free(port)) return port
  for (let port = first; port < first + band; port++) if (free(port)) return port
  return null
}
