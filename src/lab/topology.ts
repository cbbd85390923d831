import {
  configureNamespace,
  createNamespaces,
  FORWARDING,
  ipBatch,
  QUIET_IPV6,
  vethCommand,
} from './namespaces.ts'
import { runCommand } from './command.ts'
import { NODE_NETWORK_BITS } from './plan.ts'
import type { AddressPair, LabPlan, NodePlan } from './plan.ts'

/** Names of the namespaces that are no nodes. */
export const UNDERLAY = 'underlay'
export const CONTROL = 'control'
export const OUTSIDE = 'outside'

/**
 * Builds the lab's network in the sandbox this process is the first of. The process's own network namespace becomes
 * `control`; `underlay` is the switch of the node network and the router to `outside`.
 */
export async function buildTopology(plan: LabPlan): Promise<void> {
  await runCommand(['ip', 'netns', 'attach', CONTROL, String(process.pid)])
  await createNamespaces([UNDERLAY, OUTSIDE, ...plan.nodes.map(({ name }) => name)])
  const onSwitch = [CONTROL, ...plan.nodes.map(({ name }) => name)]
  const pair = (name: string): string =>
    vethCommand({ namespace: name, name: 'eth0' }, { namespace: UNDERLAY, name: `to-${name}` })
  await ipBatch([...onSwitch, OUTSIDE].map(pair))
  await configureNamespace(UNDERLAY, {
    sysctls: { ...QUIET_IPV6, ...FORWARDING },
    optionalSysctls: { 'net/ipv4/fib_multipath_hash_policy': '1', 'net/ipv6/fib_multipath_hash_policy': '1' },
    ip: underlayCommands(plan, onSwitch),
  })
  await Promise.all([
    configureNamespace(CONTROL, {
      sysctls: QUIET_IPV6,
      ip: hostCommands(plan.control, plan.nodeGateway, podRoutes(plan.nodes)),
    }),
    configureNamespace(OUTSIDE, {
      sysctls: QUIET_IPV6,
      ip: hostCommands(plan.outside, plan.outsideGateway, []),
    }),
    ...plan.nodes.map((node) =>
      configureNamespace(node.name, {
        sysctls: { ...QUIET_IPV6, ...FORWARDING },
        ip: hostCommands(node.address, plan.nodeGateway, podRoutes(plan.nodes.filter((n) => n !== node))),
      }),
    ),
  ])
}

function hostCommands(address: AddressPair, gateway: AddressPair, routes: readonly string[]): string[] {
  return [
    'link set lo up',
    `addr add ${address.ipv4}/${NODE_NETWORK_BITS.ipv4} dev eth0`,
    `addr add ${address.ipv6}/${NODE_NETWORK_BITS.ipv6} dev eth0 nodad`,
    'link set eth0 up',
    `route add default via ${gateway.ipv4}`,
    `route add default via ${gateway.ipv6}`,
    ...routes,
  ]
}

/** Pod ranges are reached through their node: the routed pod network of the lab. */
function podRoutes(nodes: readonly NodePlan[]): string[] {
  return nodes.flatMap((node) => [
    `route add ${node.podCidr.ipv4} via ${node.address.ipv4}`,
    `route add ${node.podCidr.ipv6} via ${node.address.ipv6}`,
  ])
}

function underlayCommands(plan: LabPlan, onSwitch: readonly string[]): string[] {
  const hops = (family: keyof AddressPair): string =>
    plan.nodes.map((node) => `nexthop via ${node.address[family]}`).join(' ')
  return [
    'link set lo up',
    'link add nodes type bridge',
    ...onSwitch.flatMap((name) => [`link set to-${name} master nodes`, `link set to-${name} up`]),
    `addr add ${plan.nodeGateway.ipv4}/${NODE_NETWORK_BITS.ipv4} dev nodes`,
    `addr add ${plan.nodeGateway.ipv6}/${NODE_NETWORK_BITS.ipv6} dev nodes nodad`,
    'link set nodes up',
    `addr add ${plan.outsideGateway.ipv4}/${NODE_NETWORK_BITS.ipv4} dev to-${OUTSIDE}`,
    `addr add ${plan.outsideGateway.ipv6}/${NODE_NETWORK_BITS.ipv6} dev to-${OUTSIDE} nodad`,
    `link set to-${OUTSIDE} up`,
    ...podRoutes(plan.nodes),
    `route add ${plan.loadBalancers.ipv4} ${hops('ipv4')}`,
    `route add ${plan.loadBalancers.ipv6} ${hops('ipv6')}`,
  ]
}

/** Lines for /etc/hosts: the names of nodes and hosts, so that people need not know addresses. */
export function hostsFile(plan: LabPlan): string {
  const entry = (name: string, address: AddressPair): string =>
    `${address.ipv4} ${name}\n${address.ipv6} ${name}\n`
  return [
    '127.0.0.1 localhost\n::1 localhost\n',
    entry(CONTROL, plan.control),
    entry(OUTSIDE, plan.outside),
    ...plan.nodes.map((node) => entry(node.name, node.address)),
  ].join('')
}
