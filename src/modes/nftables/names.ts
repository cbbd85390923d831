import type { Protocol } from '../../net/protocol.ts'
import type { Endpoint, ServicePort } from '../../services/service-map.ts'
import { base32Prefix, sha256 } from '../../shared/sha256.ts'

/** kube-proxy's table, so that tools and leftovers agree on the owner. */
export const TABLE = 'kube-proxy'
export const TABLE_COMMENT = 'rules for kube-proxy'

/** Sets and maps that every table has. */
export const SET = {
  serviceIps: 'service-ips',
  serviceNodePorts: 'service-nodeports',
  endpoints: 'endpoints',
  endpointsLocal: 'endpoints-local',
  nodePortEndpoints: 'nodeport-endpoints',
  nodePortEndpointsLocal: 'nodeport-endpoints-local',
  noEndpointServices: 'no-endpoint-services',
  noEndpointNodePorts: 'no-endpoint-nodeports',
  firewallIps: 'firewall-ips',
  firewallAllow: 'firewall-allow',
  clusterIps: 'cluster-ips',
  nodePortIps: 'nodeport-ips',
  hairpin: 'hairpin-connections',
} as const

/** Regular chains that every table has. */
export const CHAIN = {
  services: 'services',
  masquerading: 'masquerading',
  serviceEndpointsCheck: 'service-endpoints-check',
  nodePortEndpointsCheck: 'nodeport-endpoints-check',
  firewallCheck: 'firewall-check',
  firewallSources: 'firewall-sources',
  clusterIpsCheck: 'cluster-ips-check',
  reject: 'reject-chain',
} as const

/** nft's limit for a comment (libnftnl's NFTNL_UDATA_COMMENT_MAXLEN), in bytes. */
const COMMENT_BYTES = 128
/** Below the kernel's limit for names (NFT_NAME_MAXLEN = 256 with the final zero). */
const NAME_LENGTH = 240

/** What comments call a Service port: its id, with the middle left out where it is too long. */
export function commentFor(id: string): string {
  if (id.length <= COMMENT_BYTES) return id
  const half = (COMMENT_BYTES - 3) >> 1
  return `${id.slice(0, half)}...${id.slice(-half)}`
}

/** `tcp`, as nft prints protocols. */
export function protocolName(protocol: Protocol): string {
  return protocol.toLowerCase()
}

/** Chains of one Service port with session affinity: kube-proxy's names, so that a take-over keeps its sets. */
export interface AffinityNames {
  /** A chain of the Service port: `service-…` (cluster pool), `local-…`, `external-…` and the like (entries). */
  chain(prefix: string): string
  endpointChain(endpoint: Endpoint): string
  clientSet(endpoint: Endpoint): string
}

/**
 * The names start with a hash of the whole, so two ports whose long names agree at the front stay apart when the end
 * is cut off.
 */
export function affinityNames(port: ServicePort): AffinityNames {
  const base = `${port.namespace}/${port.name}/${protocolName(port.protocol)}/${port.portName}`
  const service = hashed(base)
  const ofEndpoint = ({ ip, port: number }: Endpoint): string =>
    hashed(`${base}__${ip.replaceAll(':', '.')}/${number}`)
  return {
    chain: (prefix) => cut(`${prefix}-${service}`),
    endpointChain: (endpoint) => cut(`endpoint-${ofEndpoint(endpoint)}`),
    clientSet: (endpoint) => cut(`affinity-${ofEndpoint(endpoint)}`),
  }
}

const hashed = (name: string): string => `${base32Prefix(sha256(name), 8)}-${name}`
const cut = (name: string): string => name.slice(0, NAME_LENGTH)
