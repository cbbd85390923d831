import { readNftJson } from '../../src/kernel/nft/json.ts'
import { viewOf } from '../../src/kernel/nft/rule-view.ts'
import type { RuleView } from '../../src/kernel/nft/rule-view.ts'
import type { NodePlan } from '../../src/lab/plan.ts'
import { traceTables } from '../../src/modes/nftables/trace.ts'
import { familyOf, parseIp } from '../../src/net/ip.ts'
import { packetFrom, parseDestination } from '../../src/trace/packet.ts'
import type { Inside } from './inside.ts'

/** What the kernel of one node holds at one moment, and how often its agent has synced. */
export interface NodeRules {
  /** Every table of the namespace as `nft -j` prints it. */
  readonly text: string
  /** Syncs since the agent started, the most of the two families. */
  readonly syncs: number
  /** Where these rules send a new flow: `10.244.1.10:8080 10.244.2.10:8080`, `REJECT`, `DROP`, `NONE`. */
  way(from: string, to: string): string
}

export async function readNodeRules(node: NodePlan, place: Inside): Promise<NodeRules> {
  const text = await place.run(['nft', '-j', 'list', 'ruleset'])
  const metrics = (await place.request('http://127.0.0.1:10249/metrics'))?.text ?? ''
  const counts = [...metrics.matchAll(/^kubeproxy_sync_proxy_rules_duration_seconds_count\{.*\} (\d+)$/gm)]
  const views = readNftJson(text).map(viewOf)
  return {
    text,
    syncs: Math.max(0, ...counts.map(([, count]) => Number(count))),
    way: (from, to) => wayThrough(views, node, from, to),
  }
}

function wayThrough(views: readonly RuleView[], node: NodePlan, from: string, to: string): string {
  const localIps = [...Object.values(node.address), ...Object.values(node.gateway)].map((text) =>
    parseIp(text)!,
  )
  const destination = parseDestination(to)
  const context = { nodeName: node.name, localIps, state: null, objects: [], config: null }
  const packet = packetFrom(from, destination, context)
  const trace = traceTables(views, packet, { family: familyOf(destination.ip), localIps })
  if (trace.notUnderstood.length > 0) throw new Error(`not understood: ${trace.notUnderstood.join('; ')}`)
  if (trace.verdict !== 'FORWARD') return trace.verdict
  return trace.destinations
    .map(({ endpoint: { ip, port } }) => (ip.includes(':') ? `[${ip}]:${port}` : `${ip}:${port}`))
    .toSorted()
    .join(' ')
}
