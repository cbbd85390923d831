import fc from 'fast-check'
import { expect, test } from 'vitest'
import { clusterStateFromObjects } from '../src/cluster/objects.ts'
import { viewOf } from '../src/kernel/nft/rule-view.ts'
import { nftables } from '../src/modes/nftables/index.ts'
import { contents } from '../src/modes/nftables/rules.ts'
import { traceTables } from '../src/modes/nftables/trace.ts'
import { IP_FAMILIES } from '../src/net/family.ts'
import type { Packet } from '../src/net/packet.ts'
import { buildServiceMap } from '../src/services/build-service-map.ts'
import { decide } from '../src/services/decide.ts'
import type { Outcome } from '../src/services/decision.ts'
import { nodeView } from '../src/services/node-view.ts'
import { anyNode, anyObjects, anyPacket, LOCAL_ADDRESSES } from './support/cluster-objects.ts'

const SERVICE_CIDRS = ['10.96.0.0/12', 'fd00:96::/108']

/**
 * An outcome as comparable text. A health check port is a listener and not a rule; the hairpin of an endpoint on
 * another node is the one intended difference (src/modes/nftables/README.md).
 */
function textOf({ verdict, destinations, sticky }: Outcome, packet: Packet): string {
  if (verdict !== 'FORWARD') return verdict === 'ACCEPT_LOCAL' ? 'NONE' : verdict
  const remoteHairpin = (ip: string): boolean =>
    ip === packet.source && /^(10\.128\.[12]|fd00:128:0:)/.test(ip)
  const to = destinations.map(({ endpoint: { ip, port }, masquerade }) =>
    remoteHairpin(ip) ? `${ip}:${port}` : `${ip}:${port} ${masquerade ? 'masqueraded' : 'kept'}`,
  )
  return `FORWARD${sticky ? ' sticky' : ''} ${to.join(', ')}`
}

test.each(IP_FAMILIES)(
  '%s: for every cluster and packet the compiled rules do what the model decides',
  (family) => {
    const seen = new Map<string, number>()
    fc.assert(
      fc.property(
        anyObjects,
        anyNode,
        fc.array(anyPacket(family), { minLength: 20, maxLength: 20 }),
        (objects, node, packets) => {
          const { state } = clusterStateFromObjects(objects, 'node-a')
          const view = nodeView({
            name: 'node-a',
            family,
            node: state.node,
            addresses: LOCAL_ADDRESSES,
            serviceCidrs: SERVICE_CIDRS as never,
            emptyNodePortAddresses: 'primary',
            ...node,
          })
          const map = buildServiceMap(state, view)
          const views = [viewOf(contents(nftables.compile(map)))]
          for (const packet of packets) {
            const trace = traceTables(views, packet, view)
            const model = decide(map, packet, nftables.traits)
            seen.set(model.verdict, (seen.get(model.verdict) ?? 0) + 1)
            expect(trace.notUnderstood).toEqual([])
            expect(textOf(trace, packet)).toBe(textOf(model, packet))
            const even = trace.shares.every((share) => Math.abs(share - 1 / trace.shares.length) < 1e-9)
            expect(even).toBe(true)
          }
        },
      ),
      { numRuns: 150 },
    )
    // A property that never meets a case proves nothing about it.
    for (const verdict of ['FORWARD', 'REJECT', 'DROP', 'NONE']) expect(seen.get(verdict)).toBeGreaterThan(20)
  },
  30_000,
)
