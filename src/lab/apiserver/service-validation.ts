import { parseCidr } from '../../net/cidr.ts'
import { familyOf, isLoopback, parseIp } from '../../net/ip.ts'
import type { Service, ServicePortSpec } from '../../kubernetes/objects.ts'
import type { ApiObject } from './json.ts'
import { checkLabels, labelProblem, portNameProblem, subdomainProblem } from './names.ts'
import { asService, externallyAccessible, isHeadless, needsHealthCheckNodePort } from './service-defaults.ts'
import type { Causes } from './status.ts'

const TYPES = ['ClusterIP', 'ExternalName', 'LoadBalancer', 'NodePort']
const PROTOCOLS = ['SCTP', 'TCP', 'UDP']
const POLICIES = ['Cluster', 'Local']
const MAX_AFFINITY_SECONDS = 86_400

/** Checks a Service with its defaults filled in, for what people get wrong. */
export function validateService(object: ApiObject, old: ApiObject | null, causes: Causes): void {
  const service = asService(object)
  if (!TYPES.includes(service.spec.type ?? '')) causes.notSupported('spec.type', service.spec.type, TYPES)
  checkLabels(service.spec.selector, 'spec.selector', causes)
  checkPorts(service, causes)
  checkAffinity(service, causes)
  checkAddresses(service, causes)
  checkTrafficPolicies(service, causes)
  checkIpFamilies(service, causes)
  if (old !== null) checkImmutable(service, old as unknown as Service, causes)
}

function checkPorts(service: Service, causes: Causes): void {
  const { spec } = service
  const ports = Array.isArray(spec.ports) ? spec.ports : []
  if (ports.length === 0 && !isHeadless(service) && spec.type !== 'ExternalName')
    causes.required('spec.ports')
  const [names, dialled, nodePorts] = [new Set<string>(), new Set<string>(), new Set<string>()]
  for (const [i, port] of ports.entries()) {
    const field = `spec.ports[${i}]`
    checkPort(spec.type ?? '', port, ports.length, field, causes)
    if ((port.name ?? '') !== '') addUnique(names, port.name!, `${field}.name`, port.name, causes)
    addUnique(
      dialled,
      `${port.protocol}/${port.port}`,
      field,
      { port: port.port, protocol: port.protocol },
      causes,
    )
    if ((port.nodePort ?? 0) !== 0) {
      addUnique(nodePorts, `${port.protocol}/${port.nodePort}`, `${field}.nodePort`, port.nodePort, causes)
    }
  }
}

function addUnique(seen: Set<string>, key: string, field: string, value: unknown, causes: Causes): void {
  if (seen.has(key)) causes.duplicate(field, value)
  seen.add(key)
}

function checkPort(type: string, port: ServicePortSpec, count: number, field: string, causes: Causes): void {
  if ((port.name ?? '') === '') {
    if (count > 1) causes.required(`${field}.name`)
  } else {
    const problem = labelProblem(port.name!)
    if (problem !== null) causes.invalid(`${field}.name`, port.name, problem)
  }
  if (!isPort(port.port))
    causes.invalid(`${field}.port`, port.port ?? 0, 'must be between 1 and 65535, inclusive')
  if (!PROTOCOLS.includes(port.protocol ?? ''))
    causes.notSupported(`${field}.protocol`, port.protocol, PROTOCOLS)
  if (
    typeof port.targetPort === 'number'
      ? !isPort(port.targetPort)
      : portNameProblem(String(port.targetPort)) !== null
  ) {
    const why =
      typeof port.targetPort === 'number'
        ? 'must be between 1 and 65535, inclusive'
        : portNameProblem(String(port.targetPort))!
    causes.invalid(`${field}.targetPort`, port.targetPort, why)
  }
  if ((port.nodePort ?? 0) !== 0 && (type === 'ClusterIP' || type === 'ExternalName')) {
    causes.forbidden(`${field}.nodePort`, `may not be used when \`type\` is '${type}'`)
  }
}

function isPort(port: unknown): boolean {
  return typeof port === 'number' && Number.isInteger(port) && port >= 1 && port <= 65_535
}

function checkAffinity({ spec }: Service, causes: Causes): void {
  if (!['ClientIP', 'None'].includes(spec.sessionAffinity ?? '')) {
    causes.notSupported('spec.sessionAffinity', spec.sessionAffinity, ['ClientIP', 'None'])
  }
  if (spec.sessionAffinity !== 'ClientIP') return
  const seconds = spec.sessionAffinityConfig?.clientIP?.timeoutSeconds ?? 0
  if (!Number.isInteger(seconds) || seconds <= 0 || seconds > MAX_AFFINITY_SECONDS) {
    causes.invalid(
      'spec.sessionAffinityConfig.clientIP.timeoutSeconds',
      seconds,
      `must be greater than 0 and less than ${MAX_AFFINITY_SECONDS}`,
    )
  }
}

function checkAddresses({ spec }: Service, causes: Causes): void {
  for (const [i, text] of (spec.externalIPs ?? []).entries()) {
    const ip = parseIp(text)
    const field = `spec.externalIPs[${i}]`
    if (ip === null)
      causes.invalid(field, text, 'must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)')
    else if (isLoopback(ip))
      causes.invalid(field, text, 'may not be in the loopback range (127.0.0.0/8, ::1/128)')
    else if (ip === '0.0.0.0' || ip === '::')
      causes.invalid(field, text, 'may not be unspecified (0.0.0.0 or ::)')
    else if (/^(169\.254\.|fe[89ab])/.test(ip))
      causes.invalid(field, text, 'may not be in the link-local range (169.254.0.0/16, fe80::/10)')
  }
  for (const [i, text] of (spec.loadBalancerSourceRanges ?? []).entries()) {
    const field = `spec.loadBalancerSourceRanges[${i}]`
    if (parseCidr(text.trim()) === null)
      causes.invalid(field, text, 'must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)')
  }
  if ((spec.loadBalancerSourceRanges?.length ?? 0) > 0 && spec.type !== 'LoadBalancer') {
    causes.forbidden('spec.loadBalancerSourceRanges', "may only be used when `type` is 'LoadBalancer'")
  }
  if (spec.type !== 'ExternalName') return
  const name = spec.externalName ?? ''
  if (name === '') causes.required('spec.externalName')
  else if (subdomainProblem(name.replace(/\.$/, '')) !== null) {
    causes.invalid('spec.externalName', name, subdomainProblem(name)!)
  }
  if ((spec.clusterIP ?? '') !== '')
    causes.forbidden('spec.clusterIPs', "may not be set when `type` is 'ExternalName'")
}

function checkTrafficPolicies(service: Service, causes: Causes): void {
  const { spec } = service
  const { externalTrafficPolicy: external, internalTrafficPolicy: internal } = spec
  if (external !== undefined && !externallyAccessible(service)) {
    causes.invalid(
      'spec.externalTrafficPolicy',
      external,
      'may only be set for externally-accessible services',
    )
  } else if (external !== undefined && !POLICIES.includes(external)) {
    causes.notSupported('spec.externalTrafficPolicy', external, POLICIES)
  }
  if (internal !== undefined && !POLICIES.includes(internal)) {
    causes.notSupported('spec.internalTrafficPolicy', internal, POLICIES)
  }
  if ((spec.healthCheckNodePort ?? 0) !== 0 && !needsHealthCheckNodePort(service)) {
    causes.invalid(
      'spec.healthCheckNodePort',
      spec.healthCheckNodePort,
      "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
    )
  }
  const spread = ['PreferClose', 'PreferSameNode', 'PreferSameZone']
  if (spec.trafficDistribution !== undefined && !spread.includes(spec.trafficDistribution)) {
    causes.notSupported('spec.trafficDistribution', spec.trafficDistribution, spread)
  }
}

function checkIpFamilies({ spec }: Service, causes: Causes): void {
  const families = spec.ipFamilies ?? []
  const policies = ['SingleStack', 'PreferDualStack', 'RequireDualStack']
  for (const [i, family] of families.entries()) {
    if (family !== 'IPv4' && family !== 'IPv6') {
      causes.notSupported(`spec.ipFamilies[${i}]`, family, ['IPv4', 'IPv6'])
    } else if (families.indexOf(family) !== i) causes.duplicate(`spec.ipFamilies[${i}]`, family)
  }
  if (spec.ipFamilyPolicy !== undefined && !policies.includes(spec.ipFamilyPolicy)) {
    causes.notSupported('spec.ipFamilyPolicy', spec.ipFamilyPolicy, policies)
  }
  const ips = spec.clusterIPs ?? []
  if (ips.length > 0 && spec.clusterIP !== ips[0]) {
    causes.invalid('spec.clusterIPs', ips, 'first value must match `clusterIP`')
  }
  for (const [i, text] of (ips.length > 0 ? ips : [spec.clusterIP ?? '']).entries()) {
    if (text === '' || text === 'None') continue
    const ip = parseIp(text)
    if (ip === null) {
      causes.invalid(
        `spec.clusterIPs[${i}]`,
        text,
        'must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
      )
    } else if (families[i] !== undefined && familyOf(ip) !== families[i]) {
      causes.invalid(
        `spec.clusterIPs[${i}]`,
        text,
        `expected an ${families[i]} value as indicated by \`ipFamilies[${i}]\``,
      )
    }
  }
}

/** The primary cluster IP and family stay what they are as long as a Service has one. */
function checkImmutable({ spec }: Service, { spec: old }: Service, causes: Causes): void {
  if (old.type === 'ExternalName' || spec.type === 'ExternalName') return
  const [before, now] = [old.clusterIPs ?? [old.clusterIP ?? ''], spec.clusterIPs ?? [spec.clusterIP ?? '']]
  if ((before[0] ?? '') !== '' && before[0] !== now[0]) {
    causes.invalid('spec.clusterIPs[0]', now, 'may not change once set')
  } else if (before.length === 2 && now.length === 2 && before[1] !== now[1]) {
    causes.invalid('spec.clusterIPs[1]', now, 'may not change once set')
  }
  const [family, next] = [old.ipFamilies?.[0], spec.ipFamilies?.[0]]
  if (family !== undefined && next !== undefined && family !== next) {
    causes.invalid('spec.ipFamilies[0]', next, 'may not change once set')
  }
}
