import { isLoopback } from '../net/ip.ts'
import type { Packet } from '../net/packet.ts'
import type { Trace } from '../modes/trace.ts'
import type { ServiceMap } from '../services/service-map.ts'

/**
 * A trace with the health check ports of Services in mind: they are listeners of the proxy and not rules, so the rules
 * leave their packets alone and the agent answers.
 */
export function withHealthPorts(trace: Trace, packet: Packet, map: ServiceMap): Trace {
  if (trace.verdict !== 'NONE' || packet.protocol !== 'TCP' || !isServed(packet, map)) return trace
  const health = [...map.health.values()].find(({ port }) => port === packet.port)
  if (health === undefined) return trace
  const last = trace.hops.at(-1)
  if (last === undefined) return { ...trace, verdict: 'ACCEPT_LOCAL' }
  const why = `Port ${packet.port} is the health check port of ${health.namespace}/${health.name}: the proxy answers it on this node.`
  return { ...trace, verdict: 'ACCEPT_LOCAL', hops: [...trace.hops.slice(0, -1), { ...last, why }] }
}

function isServed({ destination }: Packet, { node }: ServiceMap): boolean {
  if (node.nodePortAddresses !== 'any-local') return node.nodePortIps.includes(destination)
  return isLoopback(destination) || node.localIps.includes(destination)
}
