import { expect, test, vi } from 'vitest'
import { readNftJson } from '../src/kernel/nft/json.ts'
import { viewOf } from '../src/kernel/nft/rule-view.ts'
import { nftables } from '../src/modes/nftables/index.ts'
import { contents } from '../src/modes/nftables/rules.ts'
import { traceTables } from '../src/modes/nftables/trace.ts'
import type { Trace } from '../src/modes/trace.ts'
import { IP_FAMILIES } from '../src/net/family.ts'
import type { Packet } from '../src/net/packet.ts'
import { decide, NFTABLES_TRAITS } from '../src/services/decide.ts'
import type { Outcome } from '../src/services/decision.ts'
import type { NodeView } from '../src/services/service-map.ts'
import { GOLDEN, goldenNames, goldenPackets, loadGolden } from './support/golden.ts'

const NAMES = goldenNames()

/**
 * Where kube-proxy's nftables rules and the reference model are meant to differ; src/modes/nftables/README.md has the
 * same list.
 */
const INTENDED: readonly {
  readonly reason: string
  applies(packet: Packet, node: NodeView, theirs: Outcome, model: Outcome): boolean
}[] = [
  {
    reason:
      'kube-proxy masquerades a flow that comes back to the client itself (hairpin) only for endpoints of this node; ' +
      'the model does so for every endpoint',
    applies: (packet, node, theirs, model) =>
      packet.origin === 'received' &&
      !node.localIps.includes(packet.source) &&
      textOf(withoutHairpin(theirs, packet)) === textOf(withoutHairpin(model, packet)),
  },
]

function withoutHairpin(outcome: Outcome, packet: Packet): Outcome {
  return {
    ...outcome,
    destinations: outcome.destinations.filter(({ endpoint }) => endpoint.ip !== packet.source),
  }
}

/** An outcome as comparable text. A health check port is a listener, not a rule: rules leave its packets alone. */
function textOf({ verdict, destinations, sticky }: Outcome): string {
  if (verdict !== 'FORWARD') return verdict === 'ACCEPT_LOCAL' ? 'NONE' : verdict
  const to = destinations.map(
    ({ endpoint, masquerade }) => `${endpoint.ip}:${endpoint.port}${masquerade ? ' masqueraded' : ''}`,
  )
  return `FORWARD${sticky ? ' sticky' : ''} ${to.sort().join(', ')}`
}

if (NAMES.length === 0) test.skip(`kube-proxy's rules are not at hand: ${GOLDEN} is missing`, () => undefined)

interface Compared {
  readonly flow: string
  readonly packet: Packet
  readonly node: NodeView
  readonly model: Outcome
  readonly ours: Trace
  readonly theirs: Trace
}

/** Every kind of client × everything that may be dialled, by the model, by our rules and by kube-proxy's. */
async function* compareAll(name: string): AsyncGenerator<Compared> {
  const set = await loadGolden(name)
  const theirViews = readNftJson(set.upstream).map(viewOf)
  for (const family of IP_FAMILIES) {
    const map = set.maps[family]
    const ourViews = [viewOf(contents(nftables.compile(map)))]
    for (const { name: flow, packet } of goldenPackets(set, family)) {
      yield {
        flow,
        packet,
        node: map.node,
        model: decide(map, packet, NFTABLES_TRAITS),
        ours: traceTables(ourViews, packet, map.node),
        theirs: traceTables(theirViews, packet, map.node),
      }
    }
  }
}

// all-in-one alone is 5 000 flows, each followed through two rule sets.
vi.setConfig({ testTimeout: 60_000 })

test.each(NAMES)("%s: our rules, kube-proxy's rules and the model give the same outcome", async (name) => {
  const different: string[] = []
  let compared = 0
  for await (const { flow, packet, node, model, ours, theirs } of compareAll(name)) {
    compared++
    different.push(...ours.notUnderstood, ...theirs.notUnderstood)
    if (textOf(ours) !== textOf(theirs))
      different.push(`${flow}: ours ${textOf(ours)}; kube-proxy ${textOf(theirs)}`)
    if (textOf(theirs) === textOf(model)) continue
    if (INTENDED.some((difference) => difference.applies(packet, node, theirs, model))) continue
    different.push(`${flow}: kube-proxy ${textOf(theirs)}; model ${textOf(model)}`)
  }
  expect(different).toEqual([])
  expect(compared).toBeGreaterThan(100)
})
