import type { Ip } from '../net/ip.ts'
import type { Protocol } from '../net/protocol.ts'
import type { FrontendKind, ServiceMap } from '../services/service-map.ts'
import type { ServiceNames } from '../modes/trace.ts'

/** Names for the frontends of these maps (one per family); node ports match on any address of the node. */
export function serviceNames(maps: readonly ServiceMap[]): ServiceNames {
  const found = new Map<string, { kind: FrontendKind; service: string }>()
  const local = new Set<Ip>(maps.flatMap(({ node }) => node.localIps))
  for (const { ports } of maps) {
    for (const port of ports.values()) {
      for (const { kind, ip, port: number } of port.frontends) {
        found.set(`${ip} ${port.protocol} ${number}`, { kind, service: port.id })
      }
    }
  }
  return {
    frontend(ip: Ip, protocol: Protocol, port: number) {
      const exact = found.get(`${ip} ${protocol} ${port}`)
      if (exact !== undefined) return exact
      return local.has(ip) ? (found.get(`any-node-port-address ${protocol} ${port}`) ?? null) : null
    },
  }
}
