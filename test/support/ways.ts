import { LAB } from '../../src/lab/plan.ts'
import type { NodePlan } from '../../src/lab/plan.ts'

/** One text for each IP family. */
export interface PerFamily {
  readonly 4: string
  readonly 6: string
}

export const OUTSIDE: PerFamily = { 4: LAB.outside.ipv4, 6: LAB.outside.ipv6 }

export interface PodAddresses {
  readonly name: string
  readonly node: string
  readonly ips: PerFamily
}

/** What rules make of new flows: `FROM > ADDRESS:PORT` → what `NodeRules.way` says of it. */
export type Ways = Readonly<Record<string, string>>

/** The ways that one node's rules must lead. */
export type WaysOfNode = (node: NodePlan) => Ways

export function addressAndPort(ip: string, port: number): string {
  return ip.includes(':') ? `[${ip}]:${port}` : `${ip}:${port}`
}

/** The pods as endpoints of both families, as `NodeRules.way` writes them. */
export function endpoints(pods: readonly PodAddresses[], port = 8080): PerFamily {
  const of = (family: 4 | 6): string =>
    pods
      .map(({ ips }) => addressAndPort(ips[family], port))
      .toSorted()
      .join(' ')
  return { 4: of(4), 6: of(6) }
}

/** To a ClusterIP in both families, from a pod of the node and from the node itself. */
export function toClusterIp(ips: PerFamily, port: number, outcome: PerFamily | string): WaysOfNode {
  return ({ podCidr }) =>
    Object.fromEntries(
      ([4, 6] as const).flatMap((family) => {
        const pod = family === 4 ? podCidr.ipv4.replace('.0/24', '.200') : podCidr.ipv6.replace('/64', '200')
        return [pod, 'host'].map((from) => [
          `${from} > ${addressAndPort(ips[family], port)}`,
          ofFamily(outcome, family),
        ])
      }),
    )
}

/** To a node port of the node in both families, from outside. */
export function toNodePort(port: number, outcome: (node: NodePlan) => PerFamily | string): WaysOfNode {
  return (node) =>
    Object.fromEntries(
      ([4, 6] as const).map((family) => {
        const address = family === 4 ? node.address.ipv4 : node.address.ipv6
        return [`${OUTSIDE[family]} > ${addressAndPort(address, port)}`, ofFamily(outcome(node), family)]
      }),
    )
}

function ofFamily(outcome: PerFamily | string, family: 4 | 6): string {
  return typeof outcome === 'string' ? outcome : outcome[family]
}
