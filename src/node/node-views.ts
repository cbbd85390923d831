import type { ClusterState, NodeRecord } from '../cluster/state.ts'
import type { ModeSection, ProxyConfiguration } from '../config/configuration.ts'
import type { LinkAddress } from '../kernel/link/port.ts'
import type { ModeName } from '../modes/mode.ts'
import type { IpFamily } from '../net/family.ts'
import type { Ip } from '../net/ip.ts'
import { nodeView } from '../services/node-view.ts'
import type { NodeView } from '../services/service-map.ts'
import { sameContent } from '../shared/equal.ts'

/** The configuration section whose periods and masquerading the mode uses. */
export function modeSection(configuration: ProxyConfiguration, mode: ModeName): ModeSection {
  return mode === 'iptables' ? configuration.iptables : configuration.nftables
}

/** The addresses of the node that can be dialled from elsewhere: not the link-local ones, which come and go with pods. */
export function dialableAddresses(addresses: readonly LinkAddress[]): readonly Ip[] {
  return addresses.filter(({ scope }) => scope !== 'link').map(({ ip }) => ip)
}

/**
 * Keeps the NodeView of each family up to date. A view is the same object while its content is the same. When the Node
 * object is deleted the last one stands in for it: rules that work are not torn down for it (kubernetes/kubernetes#111321).
 */
export class NodeViews {
  readonly #name: string
  readonly #configuration: ProxyConfiguration
  readonly #mode: ModeName
  readonly #views = new Map<IpFamily, NodeView>()
  #lastNode: NodeRecord | null = null

  constructor(name: string, configuration: ProxyConfiguration, mode: ModeName) {
    this.#name = name
    this.#configuration = configuration
    this.#mode = mode
  }

  /** The Node object, or the last one known. */
  node(state: ClusterState): NodeRecord | null {
    this.#lastNode = state.node ?? this.#lastNode
    return this.#lastNode
  }

  view(family: IpFamily, state: ClusterState, addresses: readonly Ip[]): NodeView {
    const section = modeSection(this.#configuration, this.#mode)
    const fresh = nodeView({
      name: this.#name,
      family,
      node: this.node(state),
      addresses,
      serviceCidrs: state.serviceCidrs,
      config: this.#configuration,
      masquerade: section,
      emptyNodePortAddresses: this.#mode === 'nftables' ? 'primary' : 'any-local',
    })
    const known = this.#views.get(family)
    if (known !== undefined && sameContent(known, fresh)) return known
    this.#views.set(family, fresh)
    return fresh
  }
}
