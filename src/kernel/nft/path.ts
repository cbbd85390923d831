import type { IpFamily } from '../../net/family.ts'
import type { NftBaseChain } from './ruleset.ts'
import type { RuleView } from './rule-view.ts'
import { walkBaseChain } from './walk.ts'
import type { Branch, PacketState, WalkContext } from './walk-state.ts'

/** How one branch of a packet ended: with a verdict, or delivered to this node or to another. */
export interface PathEnd {
  readonly end: 'drop' | 'reject' | 'delivered' | 'forwarded'
  readonly state: PacketState
}

/**
 * The way of a new flow's first packet through every table's base chains, hook by hook and priority by priority
 * (Documentation/networking/netfilter, nf_tables: at equal priority the chain registered last runs first).
 *
 * received: prerouting → routing → input | forward → postrouting;
 * local: output → routing → postrouting, then, when it is for this node, prerouting (NAT is over) → input, by loopback.
 */
export function followPacket(
  views: readonly RuleView[],
  family: IpFamily,
  start: PacketState,
  origin: 'received' | 'local',
  context: WalkContext,
): readonly PathEnd[] {
  const mine = views.filter(
    (view) => view.family === 'inet' || (view.family === 'ip6') === (family === 'IPv6'),
  )
  const run = (hook: NftBaseChain['hook'], nat: boolean, states: readonly PacketState[]): HookResult =>
    runHook(mine, hook, nat, states, context)
  const isLocal = (state: PacketState): boolean => context.isLocal(state.destination)
  const ends: PathEnd[] = []
  const pass = (result: HookResult): readonly PacketState[] => {
    ends.push(...result.ended)
    return result.passed
  }
  if (origin === 'received') {
    const routed = pass(run('prerouting', true, [start]))
    const inbound = pass(run('input', true, routed.filter(isLocal)))
    ends.push(...inbound.map((state) => ({ end: 'delivered' as const, state })))
    const forwarded = pass(
      run(
        'forward',
        false,
        routed.filter((state) => !isLocal(state)),
      ),
    )
    ends.push(
      ...pass(run('postrouting', true, forwarded)).map((state) => ({ end: 'forwarded' as const, state })),
    )
    return ends
  }
  const sent = pass(run('output', true, [start]))
  const left = pass(run('postrouting', true, sent))
  ends.push(...left.filter((state) => !isLocal(state)).map((state) => ({ end: 'forwarded' as const, state })))
  const looped = pass(run('prerouting', false, left.filter(isLocal)))
  const inbound = pass(run('input', false, looped))
  ends.push(...inbound.map((state) => ({ end: 'delivered' as const, state })))
  return ends
}

interface HookResult {
  readonly passed: readonly PacketState[]
  readonly ended: readonly PathEnd[]
}

function runHook(
  views: readonly RuleView[],
  hook: NftBaseChain['hook'],
  nat: boolean,
  states: readonly PacketState[],
  context: WalkContext,
): HookResult {
  const chains = views
    .flatMap((view) =>
      view.baseChains.filter(({ base }) => base.hook === hook).map((chain) => ({ view, chain })),
    )
    .map((entry, registered) => ({ ...entry, registered }))
    .sort((a, b) => a.chain.base.priority - b.chain.base.priority || b.registered - a.registered)
  const ended: PathEnd[] = []
  let running = states
  for (const { view, chain } of chains) {
    if (chain.base.type === 'nat' && !nat) continue
    running = running.flatMap((state) => {
      // NAT is settled once per direction: later nat chains of the hook are passed over.
      if (chain.base.type === 'nat' && isSettled(hook, state)) return [state]
      const branches = walkBaseChain(view, chain, state, context)
      ended.push(...branches.flatMap(endOf))
      return branches.flatMap(({ end, state: at }) => (end === 'accept' || end === 'return' ? [at] : []))
    })
  }
  return { passed: running, ended }
}

function isSettled(hook: NftBaseChain['hook'], state: PacketState): boolean {
  return hook === 'prerouting' || hook === 'output' ? state.dnat : state.masquerade
}

function endOf({ end, state }: Branch): readonly PathEnd[] {
  return end === 'drop' || end === 'reject' ? [{ end, state }] : []
}
