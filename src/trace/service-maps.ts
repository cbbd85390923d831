import type { ClusterState } from '../cluster/state.ts'
import type { ProxyConfiguration } from '../config/configuration.ts'
import type { ModeName } from '../modes/mode.ts'
import type { Cidr } from '../net/cidr.ts'
import { IP_FAMILIES } from '../net/family.ts'
import type { IpFamily } from '../net/family.ts'
import type { Ip } from '../net/ip.ts'
import { buildServiceMap } from '../services/build-service-map.ts'
import { nodeView } from '../services/node-view.ts'
import type { ServiceMap } from '../services/service-map.ts'

/** Everything that decides what one node's proxy must do. */
export interface NodeSetting {
  readonly state: ClusterState
  readonly nodeName: string
  readonly mode: ModeName
  readonly config: ProxyConfiguration
  /** Addresses of the node's interfaces; null = not known: those of its Node object. */
  readonly addresses: readonly Ip[] | null
  /** Service ranges known besides those of the state. */
  readonly serviceCidrs: readonly Cidr[]
}

/** What Kubernetes wants on the node, by family. */
export function serviceMaps(setting: NodeSetting): Readonly<Record<IpFamily, ServiceMap>> {
  const { state, config, mode } = setting
  const section = mode === 'nftables' ? config.nftables : config.iptables
  const loopback = ['127.0.0.1', '::1'] as Ip[]
  const addresses = setting.addresses ?? [...(state.node?.addresses ?? []), ...loopback]
  const [ipv4, ipv6] = IP_FAMILIES.map((family) =>
    buildServiceMap(
      state,
      nodeView({
        name: setting.nodeName,
        family,
        node: state.node,
        addresses,
        serviceCidrs: [...state.serviceCidrs, ...setting.serviceCidrs],
        config,
        masquerade: section,
        emptyNodePortAddresses: mode === 'nftables' ? 'primary' : 'any-local',
      }),
    ),
  )
  return { IPv4: ipv4!, IPv6: ipv6! }
}
