import type { NodeRecord } from '../cluster/state.ts'
import type { Cidr } from '../net/cidr.ts'
import { cidrContains, cidrFamily, splitCidr } from '../net/cidr.ts'
import type { IpFamily } from '../net/family.ts'
import type { Ip } from '../net/ip.ts'
import { familyOf, ipToBytes, isLoopback, parseIp } from '../net/ip.ts'
import type { LocalDetector, NodeView } from './service-map.ts'

/** The part of a KubeProxyConfiguration that says what this node is; ProxyConfiguration fits. */
export interface NodeViewConfig {
  readonly detectLocalMode: 'ClusterCIDR' | 'NodeCIDR' | 'BridgeInterface' | 'InterfaceNamePrefix'
  readonly detectLocal: { readonly bridgeInterface: string; readonly interfaceNamePrefix: string }
  readonly clusterCidrs: readonly Cidr[]
  readonly nodePortAddresses: readonly Cidr[] | 'primary'
  /** Overrides the node's primary address of its family unless unspecified (`0.0.0.0`, `::`) or empty. */
  readonly bindAddress: string
}

export interface NodeViewInput {
  /** Name of the Node, also while its object does not exist. */
  readonly name: string
  readonly family: IpFamily
  /** null while the Node object does not exist: no zone, no primary address, no node CIDR. */
  readonly node: NodeRecord | null
  /** Addresses of the node's interfaces, both families, as the kernel has them. */
  readonly addresses: readonly Ip[]
  /** Known Service ranges, both families. */
  readonly serviceCidrs: readonly Cidr[]
  readonly config: NodeViewConfig
  /** The section of the mode that runs. */
  readonly masquerade: { readonly masqueradeAll: boolean; readonly masqueradeBit: number }
  /** What an empty `nodePortAddresses` means in the mode that runs: nftables serves the primary address only. */
  readonly emptyNodePortAddresses: 'primary' | 'any-local'
}

/**
 * What this node is to the proxy in one family. Equal input gives equal content, so that callers can keep the view
 * they have (see `sameContent`) when nothing changed.
 */
export function nodeView(input: NodeViewInput): NodeView {
  const { family, node, config } = input
  const ofFamily = [...new Set(input.addresses)].filter((ip) => familyOf(ip) === family).sort(compareIps)
  const primaryIp = primaryAddress(input)
  const nodePortAddresses = nodePortSelection(input, primaryIp)
  return Object.freeze({
    name: input.name,
    family,
    zone: node?.labels['topology.kubernetes.io/zone'] || null,
    detectLocal: localDetector(config, node, family),
    primaryIp,
    nodePortAddresses,
    nodePortIps: Object.freeze(selectedIps(nodePortAddresses, ofFamily)),
    localIps: Object.freeze(ofFamily),
    masqueradeAll: input.masquerade.masqueradeAll,
    masqueradeBit: input.masquerade.masqueradeBit,
    serviceCidrs: Object.freeze(input.serviceCidrs.filter((cidr) => cidrFamily(cidr) === family)),
  })
}

/** The configured bind address, or the Node's first InternalIP of the family, or else its first ExternalIP. Never loopback. */
function primaryAddress({ config, node, family }: NodeViewInput): Ip | null {
  const bound = parseIp(config.bindAddress)
  const candidates = [...(bound === null || isUnspecified(bound) ? [] : [bound]), ...(node?.addresses ?? [])]
  return candidates.find((ip) => familyOf(ip) === family && !isLoopback(ip)) ?? null
}

function localDetector(config: NodeViewConfig, node: NodeRecord | null, family: IpFamily): LocalDetector {
  switch (config.detectLocalMode) {
    case 'ClusterCIDR':
      return bySourceCidr(config.clusterCidrs, family)
    case 'NodeCIDR':
      return bySourceCidr(node?.podCidrs ?? [], family)
    case 'BridgeInterface':
      return byName(config.detectLocal.bridgeInterface, (name) => ({ by: 'interface', name }))
    case 'InterfaceNamePrefix':
      return byName(config.detectLocal.interfaceNamePrefix, (prefix) => ({ by: 'interface-prefix', prefix }))
  }
}

function bySourceCidr(cidrs: readonly Cidr[], family: IpFamily): LocalDetector {
  const cidr = cidrs.find((candidate) => cidrFamily(candidate) === family)
  return cidr === undefined ? { by: 'none' } : { by: 'source-cidr', cidr }
}

function byName(name: string, detector: (name: string) => LocalDetector): LocalDetector {
  return name === '' ? { by: 'none' } : detector(name)
}

/**
 * A list without a CIDR of the family leaves that family with every address (upstream's rule; callers warn), and so
 * does a /0 in it.
 */
function nodePortSelection(input: NodeViewInput, primaryIp: Ip | null): NodeView['nodePortAddresses'] {
  const { nodePortAddresses } = input.config
  if (nodePortAddresses === 'primary') return { primary: primaryIp }
  if (nodePortAddresses.length === 0) {
    return input.emptyNodePortAddresses === 'primary' ? { primary: primaryIp } : 'any-local'
  }
  const cidrs = nodePortAddresses.filter((cidr) => cidrFamily(cidr) === input.family)
  if (cidrs.length === 0 || cidrs.some((cidr) => splitCidr(cidr).bits === 0)) return 'any-local'
  return Object.freeze(cidrs)
}

function selectedIps(selection: NodeView['nodePortAddresses'], localIps: readonly Ip[]): Ip[] {
  if (selection === 'any-local') return []
  if ('primary' in selection) return selection.primary === null ? [] : [selection.primary]
  return localIps.filter((ip) => !isLoopback(ip) && selection.some((cidr) => cidrContains(cidr, ip)))
}

/** Orders addresses of one family by their bytes. */
export function compareIps(a: Ip, b: Ip): number {
  if (a === b) return 0
  const [left, right] = [ipToBytes(a), ipToBytes(b)]
  for (let i = 0; i < left.length; i++) {
    if (left[i] !== right[i]) return (left[i] ?? 0) - (right[i] ?? 0)
  }
  return left.length - right.length
}

function isUnspecified(ip: Ip): boolean {
  return ip === '0.0.0.0' || ip === '::'
}
