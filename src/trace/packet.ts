import type { ProxyConfiguration } from '../config/configuration.ts'
import type { ClusterState } from '../cluster/state.ts'
import { cidrContains } from '../net/cidr.ts'
import { familyOf, isLoopback, parseIp } from '../net/ip.ts'
import type { Ip } from '../net/ip.ts'
import type { Packet } from '../net/packet.ts'
import type { Port } from '../net/port.ts'
import { toPort } from '../net/port.ts'
import type { Protocol } from '../net/protocol.ts'
import { parseProtocol } from '../net/protocol.ts'
import { UsageError } from '../shared/errors.ts'

/** The example port that a client sends from: the first of the dynamic range (RFC 6335). */
export const CLIENT_PORT = 49_152

export interface Destination {
  readonly ip: Ip
  readonly port: Port
  readonly protocol: Protocol
}

/** Reads `ADDR:PORT[/udp|/sctp]`; IPv6 addresses in brackets. */
export function parseDestination(text: string): Destination {
  const match = /^(?:\[([^\]]+)\]|([^:/]+)):(\d{1,5})(?:\/(\w+))?$/.exec(text)
  const ip = parseIp(match?.[1] ?? match?.[2] ?? '')
  const port = toPort(Number(match?.[3]))
  const protocol = parseProtocol(match?.[4] ?? '')
  if (ip === null || port === null || protocol === null) {
    throw new UsageError(
      `--to: "${text}" is no address with a port. Write 10.96.0.10:53/udp or [fd00::10]:80, with a port from 1 to 65535; /tcp may be left out.`,
    )
  }
  return { ip, port, protocol }
}

/** Where a packet comes from, and what is known about the node it reaches. */
export interface SourceContext {
  readonly nodeName: string
  readonly localIps: readonly Ip[]
  readonly state: ClusterState | null
  readonly objects: readonly unknown[]
  /** null when only the kernel is known: a received packet's interface is not known then. */
  readonly config: ProxyConfiguration | null
}

/**
 * The first packet of a flow from `pod:NAMESPACE/NAME`, `host` or an address, to a destination.
 *
 * @throws UsageError when the source cannot be read or is not known
 */
export function packetFrom(from: string, to: Destination, context: SourceContext): Packet {
  const source = sourceAddress(from, to, context)
  const origin =
    from === 'host' || context.localIps.includes(source) || isLoopback(source) ? 'local' : 'received'
  return {
    source,
    sourcePort: CLIENT_PORT,
    destination: to.ip,
    port: to.port,
    protocol: to.protocol,
    origin,
    inputInterface: origin === 'local' ? null : inputInterface(source, context),
  }
}

function sourceAddress(from: string, to: Destination, context: SourceContext): Ip {
  const family = familyOf(to.ip)
  if (from === 'host') {
    const own = isLoopback(to.ip)
      ? to.ip
      : context.localIps.find((ip) => familyOf(ip) === family && !isLoopback(ip))
    if (own !== undefined) return own
    throw new UsageError(`--from host: node ${context.nodeName} has no ${family} address that is known here.`)
  }
  if (from.startsWith('pod:')) {
    const ip = podAddresses(context.objects, from.slice(4)).find((address) => familyOf(address) === family)
    if (ip !== undefined) return ip
    throw new UsageError(
      `--from: there is no pod ${from.slice(4)} with an ${family} address among the Pods and EndpointSlices. ` +
        'Write pod:NAMESPACE/NAME, or give the address itself.',
    )
  }
  const ip = parseIp(from)
  if (ip === null) {
    throw new UsageError(`--from: "${from}" is no source. Write pod:NAMESPACE/NAME, host, or an address.`)
  }
  if (familyOf(ip) !== family) {
    throw new UsageError(`--from ${from} and --to ${to.ip} are of different IP families; a packet has one.`)
  }
  return ip
}

interface ObjectWithPods {
  readonly kind?: string
  readonly metadata?: { readonly namespace?: string; readonly name?: string }
  readonly status?: { readonly podIPs?: readonly { readonly ip?: string }[]; readonly podIP?: string }
  readonly endpoints?: readonly {
    readonly addresses?: readonly string[]
    readonly targetRef?: { readonly kind?: string; readonly namespace?: string; readonly name?: string }
  }[]
}

/** Addresses of a pod: its own status, or the endpoints that name it. */
function podAddresses(objects: readonly unknown[], pod: string): readonly Ip[] {
  const texts = (objects as readonly ObjectWithPods[]).flatMap(({ kind, metadata, status, endpoints }) => {
    const namespace = metadata?.namespace ?? 'default'
    if (kind === 'Pod' && `${namespace}/${metadata?.name}` === pod) {
      return [...(status?.podIPs ?? []).map(({ ip }) => ip), status?.podIP]
    }
    if (kind !== 'EndpointSlice') return []
    return (endpoints ?? []).flatMap(({ addresses, targetRef }) => {
      const isIt =
        targetRef?.kind === 'Pod' && `${targetRef.namespace ?? namespace}/${targetRef.name}` === pod
      return isIt ? (addresses ?? []) : []
    })
  })
  return texts.flatMap((text) => parseIp(text ?? '') ?? [])
}

/** The interface that packets of a source come in on: the one that tells local pods, or else the node's first. */
function inputInterface(source: Ip, { config, state }: SourceContext): string | null {
  if (config === null) return null
  const isPodHere = (state?.node?.podCidrs ?? []).some((cidr) => cidrContains(cidr, source))
  if (!isPodHere) return 'eth0'
  if (config.detectLocalMode === 'BridgeInterface') return config.detectLocal.bridgeInterface
  if (config.detectLocalMode === 'InterfaceNamePrefix') return `${config.detectLocal.interfaceNamePrefix}0`
  return 'cni0'
}
