import type { Ip } from '../../net/ip.ts'
import { ipToBytes, isLoopback } from '../../net/ip.ts'
import type { Packet } from '../../net/packet.ts'
import { toPort } from '../../net/port.ts'
import type { NodeView } from '../../services/service-map.ts'
import type { OutcomeDestination, Verdict } from '../../services/decision.ts'
import type { RuleView } from '../../kernel/nft/rule-view.ts'
import type { PathEnd } from '../../kernel/nft/path.ts'
import { followPacket } from '../../kernel/nft/path.ts'
import type { PacketState, WalkContext } from '../../kernel/nft/walk-state.ts'
import type { Trace, TraceOptions } from '../trace.ts'
import { hopsOf, replyHops } from './hops.ts'

/** The part of the node that decides a packet's way. */
export type TraceNode = Pick<NodeView, 'family' | 'localIps'>

/**
 * The way of a new flow's first packet through these tables: the proxy's own, and any other that is given (a foreign
 * table's drop counts). Random choices are followed one by one, so that `destinations` is complete.
 *
 * Not modelled: flowtables, packets of known flows, source NAT by others before the proxy.
 */
export function traceTables(
  views: readonly RuleView[],
  packet: Packet,
  node: TraceNode,
  options: TraceOptions = {},
): Trace {
  const notUnderstood = new Set<string>()
  const context = contextOf(packet, node, (text) => notUnderstood.add(text))
  const ends = followPacket(views, node.family, startOf(packet), packet.origin, context)
  const verdict = overallVerdict(ends)
  const matching = ends.filter((end) => verdictOf(end) === verdict)
  const destinations = verdict === 'FORWARD' ? gather(matching) : []
  const example = exampleOf(matching, destinations)
  return {
    verdict,
    destinations: destinations.map(({ destination }) => destination),
    shares: destinations.map(({ share }) => share),
    sticky: verdict === 'FORWARD' && matching.some(({ state }) => state.sticky),
    hops: example === null ? [] : hopsOf(example, packet, context, options.names ?? null),
    reply: example === null || verdict !== 'FORWARD' ? [] : replyHops(example.state, packet),
    notUnderstood: [...notUnderstood],
  }
}

function contextOf(packet: Packet, node: TraceNode, notUnderstood: (text: string) => void): WalkContext {
  // A process sends from an address of its node only, also from one that the node was not known to have.
  const local = new Set<Ip>(packet.origin === 'local' ? [...node.localIps, packet.source] : node.localIps)
  const isLocal = (ip: Ip): boolean => local.has(ip) || isLoopback(ip)
  const outside = node.localIps.find((ip) => !isLoopback(ip))
  return {
    isLocal,
    masqueradeSource: (destination) => (isLocal(destination) ? destination : (outside ?? packet.source)),
    notUnderstood,
  }
}

function startOf(packet: Packet): PacketState {
  return {
    source: packet.source,
    sourcePort: packet.sourcePort,
    destination: packet.destination,
    port: packet.port,
    protocol: packet.protocol,
    inputInterface: packet.inputInterface,
    outputInterface: null,
    mark: 0,
    dnat: false,
    masquerade: false,
    sticky: false,
    weight: 1,
    hashes: {},
    steps: null,
  }
}

function verdictOf({ end, state }: PathEnd): Verdict {
  if (end === 'drop') return 'DROP'
  if (end === 'reject') return 'REJECT'
  return state.dnat ? 'FORWARD' : 'NONE'
}

/** FORWARD if any choice is forwarded; else what happens to most of the choices. */
function overallVerdict(ends: readonly PathEnd[]): Verdict {
  const weights = new Map<Verdict, number>()
  for (const end of ends) {
    const verdict = verdictOf(end)
    weights.set(verdict, (weights.get(verdict) ?? 0) + end.state.weight)
  }
  if (weights.has('FORWARD')) return 'FORWARD'
  const [most] = [...weights].sort(([, a], [, b]) => b - a)
  return most?.[0] ?? 'NONE'
}

interface Gathered {
  readonly destination: OutcomeDestination
  readonly share: number
}

/** Branches by endpoint, sorted like a pool: by address bytes, then port. */
function gather(ends: readonly PathEnd[]): readonly Gathered[] {
  const found = new Map<string, Gathered>()
  for (const { state } of ends) {
    const port = toPort(state.port)
    if (port === null) continue
    const key = `${state.destination} ${port}`
    const before = found.get(key)
    found.set(key, {
      destination: {
        endpoint: { ip: state.destination, port },
        masquerade: state.masquerade || (before?.destination.masquerade ?? false),
      },
      share: state.weight + (before?.share ?? 0),
    })
  }
  return [...found.values()].sort((a, b) => compareEndpoints(a.destination.endpoint, b.destination.endpoint))
}

function compareEndpoints(a: OutcomeDestination['endpoint'], b: OutcomeDestination['endpoint']): number {
  const [left, right] = [ipToBytes(a.ip), ipToBytes(b.ip)]
  for (const [i, byte] of left.entries()) if (byte !== right[i]) return byte - (right[i] ?? 0)
  return a.port - b.port
}

/** The branch that is shown hop by hop: the one of the first destination. */
function exampleOf(ends: readonly PathEnd[], destinations: readonly Gathered[]): PathEnd | null {
  const first = destinations[0]?.destination.endpoint
  const shown = ends.find(({ state }) => state.destination === first?.ip && state.port === first.port)
  return shown ?? ends[0] ?? null
}
