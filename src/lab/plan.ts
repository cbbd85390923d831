/**
 * The addresses of the lab: documentation ranges for what stands for the outside world, Kubernetes' customary private
 * ranges for pods and Services. Pure data; topology.ts makes it real.
 */

/** Address of each family, text as `ip` wants it. */
export interface AddressPair {
  readonly ipv4: string
  readonly ipv6: string
}

export interface NodePlan {
  readonly name: string
  readonly zone: string
  readonly address: AddressPair
  readonly podCidr: AddressPair
  /** The node's own address in its pod range: the pods' gateway. */
  readonly gateway: AddressPair
}

export interface LabPlan {
  readonly nodes: readonly NodePlan[]
  readonly control: AddressPair
  /** The router between the node network and the outside, as the nodes see it. */
  readonly nodeGateway: AddressPair
  readonly outside: AddressPair
  readonly outsideGateway: AddressPair
  /** Routed from the outside to all nodes: for load balancer and external addresses. */
  readonly loadBalancers: AddressPair
  readonly clusterCidr: AddressPair
  readonly serviceCidr: AddressPair
  readonly dns: AddressPair
  readonly clusterDomain: string
}

export const NODE_NETWORK_BITS: { readonly ipv4: number; readonly ipv6: number } = { ipv4: 24, ipv6: 64 }

const ZONES = ['a', 'a', 'b']

/** The lab: three nodes in zones a, a and b. */
export const LAB: LabPlan = {
  nodes: ZONES.map((zone, i) => nodePlan(i + 1, zone)),
  control: { ipv4: '192.0.2.10', ipv6: '2001:db8:0:1::10' },
  nodeGateway: { ipv4: '192.0.2.1', ipv6: '2001:db8:0:1::1' },
  outside: { ipv4: '198.51.100.10', ipv6: '2001:db8:0:2::10' },
  outsideGateway: { ipv4: '198.51.100.1', ipv6: '2001:db8:0:2::1' },
  loadBalancers: { ipv4: '203.0.113.0/24', ipv6: '2001:db8:0:3::/64' },
  clusterCidr: { ipv4: '10.244.0.0/16', ipv6: 'fd00:10:244::/48' },
  serviceCidr: { ipv4: '10.96.0.0/16', ipv6: 'fd00:10:96::/112' },
  dns: { ipv4: '10.96.0.10', ipv6: 'fd00:10:96::a' },
  clusterDomain: 'cluster.local',
}

function nodePlan(number: number, zone: string): NodePlan {
  return {
    name: `node-${number}`,
    zone,
    address: { ipv4: `192.0.2.${10 + number}`, ipv6: `2001:db8:0:1::${10 + number}` },
    podCidr: { ipv4: `10.244.${number}.0/24`, ipv6: `fd00:10:244:${number}::/64` },
    gateway: { ipv4: `10.244.${number}.1`, ipv6: `fd00:10:244:${number}::1` },
  }
}

/** First and last pod number on a node: the last part of a pod's addresses (decimal digits in both families). */
export const POD_NUMBERS: { readonly first: number; readonly last: number } = { first: 10, last: 250 }

/** The addresses of pod `number` on a node. */
export function podAddresses(node: NodePlan, number: number): AddressPair {
  return {
    ipv4: node.podCidr.ipv4.replace('0/24', String(number)),
    ipv6: node.podCidr.ipv6.replace('/64', String(number)),
  }
}
