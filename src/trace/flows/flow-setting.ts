import type { NodeRecord } from '../../cluster/state.ts'
import type { Cidr } from '../../net/cidr.ts'
import { parseCidr } from '../../net/cidr.ts'
import type { IpFamily } from '../../net/family.ts'
import { familyOf } from '../../net/ip.ts'
import type { Packet } from '../../net/packet.ts'
import type { NodeViewConfig } from '../../services/node-view.ts'
import { nodeView } from '../../services/node-view.ts'
import type { NodeView } from '../../services/service-map.ts'
import type { FlowCase, FlowClient, FlowPacket, FlowsFile, Json } from './flows-file.ts'

/** One case made ready to be decided, traced or sent, in one mode. */
export interface FlowSetting {
  /** API objects to make the ClusterState from, for the node `nodeName`. */
  readonly objects: readonly unknown[]
  readonly nodeName: string
  /** KubeProxyConfiguration v1alpha1 of the case: base, fixture and case laid over one another. */
  readonly config: Json
  /** The family of the packet. */
  readonly family: IpFamily
  readonly packet: Packet
  /** The configuration asks for node ports on 127.0.0.1 (`iptables.localhostNodePorts`), where the mode can. */
  readonly loopbackNodePorts: boolean
  /** The node in the family of the packet; `node` is the state's Node record. */
  view(node: NodeRecord | null): NodeView
}

/** Lays configuration and fixture of a case together for a mode. */
export function flowSetting(file: FlowsFile, flow: FlowCase, mode: string): FlowSetting {
  const config = [flow.fixture.configOverrides, flow.configOverrides].reduce(merged, file.baseConfig)
  const family = familyOf(flow.packet.destination)
  const viewConfig = viewConfigOf(config)
  const section = jsonAt(config, mode === 'nftables' ? 'nftables' : 'iptables')
  return {
    objects: flow.fixture.objects,
    nodeName: file.nodeUnderTest,
    config,
    family,
    packet: packetOf(flow.packet, viewConfig),
    loopbackNodePorts: jsonAt(config, 'iptables')['localhostNodePorts'] !== false,
    view: (node) =>
      nodeView({
        name: file.nodeUnderTest,
        family,
        node,
        addresses: file.localAddresses,
        serviceCidrs: file.serviceCidrs,
        config: viewConfig,
        masquerade: {
          masqueradeAll: section['masqueradeAll'] === true,
          masqueradeBit: typeof section['masqueradeBit'] === 'number' ? section['masqueradeBit'] : 14,
        },
        emptyNodePortAddresses: mode === 'nftables' ? 'primary' : 'any-local',
      }),
  }
}

/** The fields of a KubeProxyConfiguration that say what the node is, with upstream's defaults. */
export function viewConfigOf(config: Json): NodeViewConfig {
  const detectLocal = jsonAt(config, 'detectLocal')
  const nodePorts = config['nodePortAddresses']
  const list = Array.isArray(nodePorts) ? nodePorts.map(String) : []
  return {
    detectLocalMode: (config['detectLocalMode'] || 'ClusterCIDR') as NodeViewConfig['detectLocalMode'],
    detectLocal: {
      bridgeInterface: String(detectLocal['bridgeInterface'] ?? ''),
      interfaceNamePrefix: String(detectLocal['interfaceNamePrefix'] ?? ''),
    },
    clusterCidrs: cidrs(String(config['clusterCIDR'] ?? '').split(',')),
    nodePortAddresses: list.includes('primary') ? 'primary' : cidrs(list),
    bindAddress: String(config['bindAddress'] ?? ''),
  }
}

const SENT_BY_NODE: readonly FlowClient[] = ['host', 'loopback', 'loopback6', 'lb-as-source']
const LOCAL_PODS: readonly FlowClient[] = ['local-pod', 'local-pod6', 'endpoint-pod']

function packetOf(packet: FlowPacket, config: NodeViewConfig): Packet {
  const origin = SENT_BY_NODE.includes(packet.client) ? 'local' : 'received'
  return {
    source: packet.source,
    sourcePort: 0,
    destination: packet.destination,
    port: packet.port,
    protocol: packet.protocol,
    origin,
    inputInterface: origin === 'local' ? null : inputInterface(packet.client, config),
  }
}

/** Pods of this node come in on the interface that the configuration detects them by, all others on eth0. */
function inputInterface(client: FlowClient, config: NodeViewConfig): string {
  if (!LOCAL_PODS.includes(client)) return 'eth0'
  if (config.detectLocalMode === 'BridgeInterface') return config.detectLocal.bridgeInterface
  if (config.detectLocalMode === 'InterfaceNamePrefix') return `${config.detectLocal.interfaceNamePrefix}1`
  return 'cni0'
}

/** Deep merge of objects; anything else in `over` replaces what is in `base`. */
function merged(base: Json, over: Json): Json {
  const result: Record<string, unknown> = { ...base }
  for (const [key, value] of Object.entries(over)) {
    const old = result[key]
    result[key] = isJson(old) && isJson(value) ? merged(old, value) : value
  }
  return result
}

function cidrs(texts: readonly string[]): Cidr[] {
  return texts.map((text) => parseCidr(text.trim())).filter((cidr) => cidr !== null)
}

function jsonAt(from: Json, key: string): Json {
  const value = from[key]
  return isJson(value) ? value : {}
}

function isJson(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
