import type { ObjectProblem, ServicePortRecord, ServiceRecord } from '../cluster/state.ts'
import type { Cidr } from '../net/cidr.ts'
import type { Ip } from '../net/ip.ts'
import { familyOf, parseIp } from '../net/ip.ts'
import type { Port } from '../net/port.ts'
import { toPort } from '../net/port.ts'
import { parseProtocol } from '../net/protocol.ts'
import { compareIps } from './node-view.ts'
import type { NodeView, ServicePort } from './service-map.ts'
import { readSourceRanges } from './source-ranges.ts'

/** Headless, ExternalName and other proxies' Services. The label `service.kubernetes.io/headless` counts on slices only. */
export function isSkipped(service: ServiceRecord): boolean {
  return (
    service.proxyName !== null ||
    service.type === 'ExternalName' ||
    service.clusterIps.length === 0 ||
    service.clusterIps.includes('None')
  )
}

/** Notes a field that was left out or mended. */
export type Report = (field: string, message: string) => void

/** The addresses of one family that a Service claims, sorted, none twice. */
export interface Addresses {
  readonly clusterIp: Ip | null
  readonly externalIps: readonly Ip[]
  readonly loadBalancerIps: readonly Ip[]
  readonly sourceRanges: readonly Cidr[] | null
  /** Filled through `report`. */
  readonly problems: ObjectProblem[]
  readonly report: Report
}

/**
 * Reads all address fields. What belongs to the other family is passed over; what is no address is reported once, in
 * the family of the Service's first cluster IP. An address that is both external IP and load-balancer IP counts as
 * the latter, so that its source ranges hold; one that is also the cluster IP counts as that.
 */
export function readAddresses(service: ServiceRecord, node: Pick<NodeView, 'family'>): Addresses {
  const problems: ObjectProblem[] = []
  const object = `Service ${service.namespace}/${service.name}`
  const clusterIps = service.clusterIps.map((text) => parseIp(text.trim()))
  const first = clusterIps.find((ip) => ip !== null)
  const reporting = first === undefined ? node.family === 'IPv4' : familyOf(first) === node.family
  const report: Report = (field, message) => {
    if (reporting) problems.push(Object.freeze({ object, field, message }))
  }
  for (const [i, ip] of clusterIps.entries()) {
    if (ip === null)
      report(`spec.clusterIPs[${i}]`, `"${service.clusterIps[i]}" is no IP address; it is left out`)
  }
  const clusterIp = clusterIps.find((ip) => ip !== null && familyOf(ip) === node.family) ?? null
  const readAll = (texts: readonly string[], field: string): readonly Ip[] => {
    if (texts.length === 0) return NO_IPS
    const ips = texts.flatMap((text, i) => {
      const ip = parseIp(text.trim())
      if (ip === null && text.trim() !== '')
        report(`${field}[${i}]`, `"${text}" is no IP address; it is left out`)
      return ip !== null && familyOf(ip) === node.family && ip !== clusterIp ? [ip] : []
    })
    return [...new Set(ips)].sort(compareIps)
  }
  // Of mode Proxy (KEP-1860): the load balancer wants to see this traffic itself.
  const vips = service.loadBalancerIngress.map(({ ip, ipMode }) =>
    ipMode === null || ipMode === 'VIP' ? ip : '',
  )
  const loadBalancerIps = readAll(vips, 'status.loadBalancer.ingress')
  const externalIps = readAll(service.externalIps, 'spec.externalIPs').filter(
    (ip) => !loadBalancerIps.includes(ip),
  )
  const { ranges, malformed, allMalformed } = readSourceRanges(service.loadBalancerSourceRanges, node.family)
  const effect = allMalformed ? 'no entry can be read, so everyone may connect' : 'it is left out'
  for (const { index, text } of malformed) {
    report(`spec.loadBalancerSourceRanges[${index}]`, `"${text}" is no CIDR; ${effect}`)
  }
  return { clusterIp, externalIps, loadBalancerIps, sourceRanges: ranges, problems, report }
}

/** Only load balancers with external policy Local have one. */
export function healthCheckPort(service: ServiceRecord, report: Report): Port | null {
  if (service.type !== 'LoadBalancer' || service.externalTrafficPolicy !== 'Local') return null
  const port = toPort(service.healthCheckNodePort)
  if (port === null) {
    report('spec.healthCheckNodePort', 'is missing; load balancers cannot tell which nodes have endpoints')
  }
  return port
}

/** Session affinity in seconds; upstream's default of three hours where the time is absent. */
export function affinityOf(service: ServiceRecord, report: Report): number | null {
  if (service.sessionAffinity !== 'ClientIP') return null
  const seconds = service.affinitySeconds ?? DEFAULT_AFFINITY_SECONDS
  const mended = Math.min(Math.max(seconds, 1), MAX_AFFINITY_SECONDS)
  if (mended !== seconds) {
    report(
      'spec.sessionAffinityConfig.clientIP.timeoutSeconds',
      `${seconds} is not from 1 to ${MAX_AFFINITY_SECONDS}; ${mended} is used`,
    )
  }
  return mended
}

/** A Service port whose numbers and protocol could be read. */
export type ReadPort = Pick<ServicePort, 'protocol'> & {
  readonly name: string
  readonly port: Port
  readonly nodePort: Port | null
}

/** Null if the port cannot be served; a node port that is none is left out alone. */
export function readPort(record: ServicePortRecord, index: number, report: Report): ReadPort | null {
  const at = `spec.ports[${index}]`
  const protocol = parseProtocol(record.protocol)
  const port = toPort(record.port)
  const nodePort = toPort(record.nodePort)
  if (protocol === null) report(`${at}.protocol`, `"${record.protocol}" is not known; the port is left out`)
  if (port === null) report(`${at}.port`, `${record.port} is no port; the port is left out`)
  if (nodePort === null && record.nodePort !== 0) {
    report(`${at}.nodePort`, `${record.nodePort} is no port; the node port is left out`)
  }
  return protocol === null || port === null ? null : { name: record.name, protocol, port, nodePort }
}

const DEFAULT_AFFINITY_SECONDS = 10_800
const MAX_AFFINITY_SECONDS = 86_400
const NO_IPS: readonly Ip[] = Object.freeze([])
