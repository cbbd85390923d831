import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  configureNamespace,
  createNamespaces,
  deleteNamespaces,
  ipBatch,
  QUIET_IPV6,
  vethCommand,
} from '../namespaces.ts'
import type { AddressPair, LabPlan, NodePlan } from '../plan.ts'

/** Name of a pod's network namespace. */
export function podNamespace(namespace: string, name: string): string {
  return `pod.${namespace}.${name}`
}

/** The file that stands for /etc/resolv.conf in a pod; `dir` is the lab's directory. */
export function resolverFile(dir: string, namespace: string, name: string): string {
  return join(dir, `${podNamespace(namespace, name)}.resolv`)
}

/** Writes a pod's resolver configuration: cluster DNS, and the search path that makes short names work. */
export function writeResolver(file: string, plan: LabPlan, namespace: string): void {
  const { clusterDomain: domain, dns } = plan
  writeFileSync(
    file,
    `search ${namespace}.svc.${domain} svc.${domain} ${domain}\nnameserver ${dns.ipv4}\nnameserver ${dns.ipv6}\noptions ndots:5 timeout:2 attempts:3\n`,
  )
}

/** The command line that runs `argv` in a pod: in its network, with its resolver configuration. */
export function inPod(
  networkNamespace: string,
  resolver: string,
  argv: readonly string[],
): readonly string[] {
  const script = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'
  return ['ip', 'netns', 'exec', networkNamespace, 'sh', '-c', script, resolver, ...argv]
}

/**
 * Makes a pod's network namespace and its veth pair to the node. Addresses are single ones; all traffic goes through
 * the node's routing, also that of a pod to itself through a Service (hairpin).
 */
export async function createPodNetwork(
  node: NodePlan,
  networkNamespace: string,
  hostLink: string,
  address: AddressPair,
): Promise<void> {
  await createNamespaces([networkNamespace])
  const inner = { namespace: networkNamespace, name: 'eth0' }
  await ipBatch([vethCommand(inner, { namespace: node.name, name: hostLink })])
  await Promise.all([
    configureNamespace(networkNamespace, {
      sysctls: QUIET_IPV6,
      ip: [
        'link set lo up',
        `addr add ${address.ipv4}/32 dev eth0`,
        `addr add ${address.ipv6}/128 dev eth0 nodad`,
        'link set eth0 up',
        `route add ${node.gateway.ipv4} dev eth0`,
        `route add ${node.gateway.ipv6} dev eth0`,
        `route add default via ${node.gateway.ipv4} dev eth0`,
        `route add default via ${node.gateway.ipv6} dev eth0`,
      ],
    }),
    ipBatch(
      [
        `addr add ${node.gateway.ipv4}/32 dev ${hostLink}`,
        `addr add ${node.gateway.ipv6}/128 dev ${hostLink} nodad`,
        `link set ${hostLink} up`,
        `route add ${address.ipv4} dev ${hostLink}`,
        `route add ${address.ipv6} dev ${hostLink}`,
      ],
      { namespace: node.name },
    ),
  ])
}

/** Takes a pod's link and namespace away; the routes go with the link. */
export async function removePodNetwork(
  node: NodePlan,
  networkNamespace: string,
  hostLink: string,
): Promise<void> {
  await ipBatch([`link del ${hostLink}`], { namespace: node.name }).catch(() => undefined) // gone already
  await deleteNamespaces([networkNamespace])
}
