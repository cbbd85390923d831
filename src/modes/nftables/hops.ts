import type { Packet } from '../../net/packet.ts'
import type { PathEnd } from '../../kernel/nft/path.ts'
import { printRule, printValue, printVerdict } from '../../kernel/nft/print-rule.ts'
import type { PacketState, Step, WalkContext } from '../../kernel/nft/walk-state.ts'
import { stepsOf } from '../../kernel/nft/walk-state.ts'
import type { Addresses, Hop, ServiceNames } from '../trace.ts'
import { addressText, whyOf } from './why.ts'

/** The hops of one branch: rules that did something, the routing decision, and where the packet went in the end. */
export function hopsOf(
  { end, state }: PathEnd,
  packet: Packet,
  context: WalkContext,
  names: ServiceNames | null,
): readonly Hop[] {
  const steps = worthTelling(stepsOf(state))
  const firstHook = packet.origin === 'received' ? 'prerouting' : 'output'
  const routed = steps.findIndex((step, i) => step.hook !== firstHook || isAfterLoop(steps, i))
  const cut = routed < 0 ? steps.length : routed
  const ended = end === 'drop' || end === 'reject'
  const reachedRouting = !ended || routed >= 0
  const atRouting = steps[cut - 1]?.after ?? startState(steps, state)
  return [
    ...steps.slice(0, cut).map((step) => hopOf(step, names)),
    ...(reachedRouting ? [routingHop(atRouting, packet, context)] : []),
    ...steps.slice(cut).map((step) => hopOf(step, names)),
    ...(ended ? [] : [finalHop(end, state)]),
  ]
}

/** A packet of this node that comes back by loopback passes prerouting after output. */
function isAfterLoop(steps: readonly Step[], index: number): boolean {
  return steps[index]?.hook === 'prerouting' && steps.slice(0, index).some(({ hook }) => hook === 'output')
}

function startState(steps: readonly Step[], state: PacketState): PacketState {
  return steps[0]?.before ?? state
}

/** Leaves out jumps into chains in which nothing happened. */
function worthTelling(steps: readonly Step[]): readonly Step[] {
  const told: Step[] = []
  for (let i = steps.length - 1; i >= 0; i--) {
    const step = steps[i]!
    const next = told.at(-1)
    const isJump = step.deed.kind === 'jump' || step.deed.kind === 'goto'
    const led =
      next !== undefined && next.base === step.base && next.view === step.view && next.depth > step.depth
    if (!isJump || led) told.push(step)
  }
  return told.toReversed()
}

function hopOf(step: Step, names: ServiceNames | null): Hop {
  const table = step.view.table === 'kube-proxy' ? '' : `table ${step.view.family} ${step.view.table} `
  const map = step.hit?.map
  return {
    where: step.base,
    object: map ? `${table}map ${map}` : `${table}chain ${step.chain}`,
    rule: ruleText(step),
    before: addresses(step.before),
    after: addresses(step.after),
    why: whyOf(step, names),
  }
}

/** The rule as `nft` prints it, and the element that it hit. */
function ruleText(step: Step): string {
  if (step.rule === null) return 'policy drop'
  const rule = printRule(step.view.family, step.rule)
  if (step.hit === null || step.hit.map === null) return rule
  const value = step.hit.value
  const shown = 'verdict' in value ? printVerdict(value) : printValue(value)
  return `${rule}  { ${printValue(step.hit.key)} : ${shown} }`
}

function routingHop(state: PacketState, packet: Packet, context: WalkContext): Hop {
  const at = addresses(state)
  const local = context.isLocal(state.destination)
  const onward = packet.origin === 'received' ? 'the packet is forwarded' : 'the packet leaves the node'
  const why = local
    ? `${state.destination} is an address of this node: the packet is for a process here.`
    : `${state.destination} is not an address of this node: ${onward}.`
  return { where: 'routing', object: 'routing table', rule: '', before: at, after: at, why }
}

function finalHop(end: 'delivered' | 'forwarded', state: PacketState): Hop {
  const at = addresses(state)
  const to = addressText(state.destination, state.port)
  const changed = state.dnat ? '' : 'No rule of the proxy changed the packet: '
  const why =
    end === 'delivered'
      ? `${changed}it reaches whoever listens on ${to} here.`
      : `${changed}it goes on to ${to}.`
  const object = end === 'delivered' ? 'this node' : 'network'
  return { where: 'delivery', object, rule: '', before: at, after: at, why: capitalised(why) }
}

function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** The answer of the example endpoint: conntrack undoes both changes, without any rule. */
export function replyHops(state: PacketState, packet: Packet): readonly Hop[] {
  const asked: Addresses = {
    source: { ip: state.destination, port: state.port },
    destination: { ip: state.source, port: state.sourcePort },
  }
  const unmasqueraded: Addresses = {
    ...asked,
    destination: { ip: packet.source, port: packet.sourcePort },
  }
  const restored: Addresses = {
    ...unmasqueraded,
    source: { ip: packet.destination, port: packet.port },
  }
  const hop = (before: Addresses, after: Addresses, why: string): Hop => ({
    where: 'conntrack',
    object: 'flow entry',
    rule: '',
    before,
    after,
    why,
  })
  const client = addressText(packet.destination, packet.port)
  const sourceBack = hop(
    unmasqueraded,
    restored,
    `The answer's source becomes ${client} again: the client sees the address it asked for.`,
  )
  if (!state.masquerade) return [sourceBack]
  const destinationBack = hop(
    asked,
    unmasqueraded,
    `The endpoint answers this node; conntrack knows the flow and puts the client ${packet.source} back as destination.`,
  )
  return [destinationBack, sourceBack]
}

function addresses(state: PacketState): Addresses {
  return {
    source: { ip: state.source, port: state.sourcePort },
    destination: { ip: state.destination, port: state.port },
  }
}
