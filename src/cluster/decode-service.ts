import type { ServicePortRecord, ServiceRecord } from './state.ts'
import type { Decoded, DecodedHead } from './decoded.ts'
import type { Intern } from './fields.ts'
import { decodeHead, keepAsIs } from './decoded.ts'

/**
 * Reduces a `v1.Service`, with the API's defaults for what is absent. Nothing is judged here: services/ reads the
 * text fields and reports what it cannot use.
 * @throws UndecodableObjectError if a field that is used has another type than the API's
 */
export function decodeService(json: unknown, intern: Intern = keepAsIs): Decoded<ServiceRecord> {
  const head = decodeHead('Service', json, intern)
  const { fields, metadata } = head
  const spec = fields.record(head.json, 'spec', 'spec')
  const proxyName = fields.text(head.labels, PROXY_NAME, `metadata.labels[${PROXY_NAME}]`, null)
  const affinity = fields.record(spec, 'sessionAffinityConfig', 'spec.sessionAffinityConfig')
  const clientIp = fields.record(affinity, 'clientIP', 'spec.sessionAffinityConfig.clientIP')
  const text = <F extends string | null>(key: string, fallback: F): string | F => {
    const value = fields.text(spec, key, `spec.${key}`, fallback)
    return value === null ? fallback : intern(value)
  }
  const record: ServiceRecord = {
    namespace: head.namespace,
    name: head.name,
    uid: fields.text(metadata, 'uid', 'metadata.uid', ''),
    creationTimestamp: intern(fields.text(metadata, 'creationTimestamp', 'metadata.creationTimestamp', '')),
    type: text('type', 'ClusterIP'),
    proxyName,
    clusterIps: clusterIpsOf(head),
    externalIps: fields.texts(spec, 'externalIPs', 'spec.externalIPs'),
    ports: fields.records(spec, 'ports', 'spec.ports').map((port): ServicePortRecord => {
      return {
        name: intern(fields.text(port, 'name', 'spec.ports[].name', '')),
        protocol: intern(fields.text(port, 'protocol', 'spec.ports[].protocol', 'TCP')),
        port: fields.integer(port, 'port', 'spec.ports[].port', 0),
        nodePort: fields.integer(port, 'nodePort', 'spec.ports[].nodePort', 0),
      }
    }),
    loadBalancerIngress: ingressOf(head),
    loadBalancerSourceRanges: fields.texts(spec, 'loadBalancerSourceRanges', 'spec.loadBalancerSourceRanges'),
    externalTrafficPolicy: text('externalTrafficPolicy', 'Cluster'),
    internalTrafficPolicy: text('internalTrafficPolicy', 'Cluster'),
    healthCheckNodePort: fields.integer(spec, 'healthCheckNodePort', 'spec.healthCheckNodePort', 0),
    sessionAffinity: text('sessionAffinity', 'None'),
    affinitySeconds: fields.integer(
      clientIp,
      'timeoutSeconds',
      'spec.sessionAffinityConfig.clientIP.timeoutSeconds',
      null,
    ),
    trafficDistribution: text('trafficDistribution', null),
  }
  return { record, problems: [] }
}

/** `spec.clusterIPs`; objects of servers before 1.20 have only `spec.clusterIP`. */
function clusterIpsOf({ json, fields }: DecodedHead): readonly string[] {
  const spec = fields.record(json, 'spec', 'spec')
  const all = fields.texts(spec, 'clusterIPs', 'spec.clusterIPs').filter((ip) => ip !== '')
  if (all.length > 0) return all
  const one = fields.text(spec, 'clusterIP', 'spec.clusterIP', '')
  return one === '' ? [] : [one]
}

/** Entries with an address; load balancers known by host name only are none of a proxy's business. */
function ingressOf({ json, fields }: DecodedHead): ServiceRecord['loadBalancerIngress'] {
  const status = fields.record(json, 'status', 'status')
  const loadBalancer = fields.record(status, 'loadBalancer', 'status.loadBalancer')
  return fields
    .records(loadBalancer, 'ingress', 'status.loadBalancer.ingress')
    .map((entry) => ({
      ip: fields.text(entry, 'ip', 'status.loadBalancer.ingress[].ip', ''),
      ipMode: fields.text(entry, 'ipMode', 'status.loadBalancer.ingress[].ipMode', null),
    }))
    .filter(({ ip }) => ip !== '')
}

const PROXY_NAME = 'service.kubernetes.io/service-proxy-name'
