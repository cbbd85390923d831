import type { Ip } from '../../net/ip.ts'
import type { NetworkPlan } from './plan.ts'
import type { FlowResult } from './protocol.ts'

/** What many flows of one client to one destination showed. */
export interface Observation {
  readonly verdict: 'FORWARD' | 'REJECT' | 'DROP' | 'NONE' | 'ACCEPT_LOCAL' | 'MIXED'
  /** Flows per endpoint `ip:port`, and whether each endpoint saw an address of the node instead of the client. */
  readonly destinations: ReadonlyMap<
    string,
    { readonly flows: number; readonly masquerade: boolean | 'mixed' }
  >
  /** What does not fit, for people. */
  readonly notes: readonly string[]
}

/** Draws the conclusion from the ends of flows that went from `source` to `target` (`ip:port`). */
export function observe(
  flows: readonly FlowResult[],
  source: Ip,
  target: string,
  plan: NetworkPlan,
): Observation {
  const arrived = new Map<string, { flows: number; changed: number }>()
  const verdicts = new Map<Observation['verdict'], number>()
  const notes: string[] = []
  for (const flow of flows) {
    const verdict = verdictOf(flow, target)
    if (verdict === null) notes.push(`a flow failed: ${'error' in flow ? flow.error : flow.result}`)
    else verdicts.set(verdict, (verdicts.get(verdict) ?? 0) + 1)
    if (flow.result !== 'answered') continue
    if (flow.seen !== source && !plan.nodeAddresses.includes(flow.seen as Ip)) {
      notes.push(`${flow.at} saw ${flow.seen}, which is neither the client nor the node`)
    }
    const before = arrived.get(flow.at) ?? { flows: 0, changed: 0 }
    const changed = before.changed + (isChanged(flow, source, plan) ? 1 : 0)
    arrived.set(flow.at, { flows: before.flows + 1, changed })
  }
  const ofNode = plan.nodeAddresses.includes(source)
  const destinations = new Map(
    [...arrived].map(([at, { flows: count, changed }]) => {
      return [at, { flows: count, masquerade: masqueraded(count, changed, ofNode) }] as const
    }),
  )
  const [verdict] = verdicts.keys()
  if (verdicts.size !== 1 || verdict === undefined || notes.length > 0) {
    for (const [kind, count] of verdicts) notes.push(`${count} flows: ${kind}`)
    return { verdict: 'MIXED', destinations, notes }
  }
  return { verdict, destinations: verdict === 'FORWARD' ? destinations : new Map(), notes }
}

/** A flow of the node itself keeps its address either way; masquerading (`fully-random`) then shows in the port. */
function isChanged(
  flow: Extract<FlowResult, { readonly result: 'answered' }>,
  source: Ip,
  plan: NetworkPlan,
): boolean {
  return flow.seen !== source || (plan.nodeAddresses.includes(source) && !flow.samePort)
}

/** Conntrack gives a flow another port where its own is taken, also without masquerading: for ports, most flows decide. */
function masqueraded(flows: number, changed: number, ofNode: boolean): boolean | 'mixed' {
  if (ofNode) return changed * 2 > flows
  return changed === 0 ? false : changed === flows ? true : 'mixed'
}

function verdictOf(flow: FlowResult, target: string): Observation['verdict'] | null {
  switch (flow.result) {
    case 'answered':
      return flow.at === target ? 'NONE' : 'FORWARD'
    case 'http':
      return 'ACCEPT_LOCAL'
    case 'refused':
      return 'REJECT'
    case 'silent':
      return 'DROP'
    case 'failed':
      return null
  }
}

/**
 * Whether counts are those of an even choice: a chi-square test that rejects an even choice about once in a million
 * times.
 */
export function looksEven(counts: readonly number[]): boolean {
  const total = counts.reduce((sum, count) => sum + count, 0)
  const expected = total / counts.length
  const chiSquare = counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0)
  return chiSquare <= chiSquareLimit(counts.length - 1)
}

/** Wilson and Hilferty's approximation of the quantile at 1 − 10⁻⁶ (z = 4.753). */
function chiSquareLimit(degrees: number): number {
  if (degrees === 0) return 0
  const scale = 2 / (9 * degrees)
  return degrees * (1 - scale + 4.753 * Math.sqrt(scale)) ** 3
}
