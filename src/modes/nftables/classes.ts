import type { NftRule, NftStatement } from '../../kernel/nft/ruleset.ts'
import type { Destination, Frontend, NodeView, ServicePort } from '../../services/service-map.ts'
import { poolOf } from '../../services/service-map.ts'
import { SET } from './names.ts'
import {
  dnatFrom,
  FROM_THIS_NODE,
  fromLocalPod,
  FRONTEND_KEY,
  markForMasquerade,
  NODE_PORT_KEY,
  notFromLocalPod,
  rule,
} from './statements.ts'

/** What decides the rules of a class chain: nothing of the Service but these. */
export interface DispatchClass {
  readonly kind: 'cluster' | 'external' | 'nodeport'
  readonly masquerade: Frontend['masquerade']
  /** How many endpoints everybody may get; 0 = none. */
  readonly count: number
  /**
   * How many endpoints pods and processes of this node may get where that differs (externalTrafficPolicy Local), else
   * null. Then {@link count} counts the endpoints of this node alone.
   */
  readonly shortCircuit: number | null
}

/** The class of a frontend; null if nobody gets an endpoint there. */
export function classOf(port: ServicePort, frontend: Frontend): DispatchClass | null {
  const count = countOf(port, frontend.fromAnywhere)
  const nearby = countOf(port, frontend.fromThisNode)
  if (count === 0 && nearby === 0) return null
  return {
    kind: kindOf(frontend),
    masquerade: frontend.masquerade,
    count,
    shortCircuit: sameDestination(frontend.fromAnywhere, frontend.fromThisNode) ? null : nearby,
  }
}

/** `cluster-5`, `external-5`, `nodeport-5`, `external-local-5-2` (5 by short circuit, 2 of this node), … */
export function classChainName(dispatch: DispatchClass): string {
  const { kind, count, shortCircuit } = dispatch
  if (shortCircuit === null) return `${kind}${variantOf(dispatch)}-${count}`
  return `${kind}-local${variantOf(dispatch)}-${shortCircuit}-${count}`
}

/** Part of a chain's name that says how its masquerading differs from what is usual for its kind; empty if it does not. */
export function variantOf({ kind, masquerade, shortCircuit }: DispatchClass): string {
  const usual = shortCircuit !== null ? 'never' : kind === 'cluster' ? 'off-cluster-sources' : 'always'
  return masquerade === usual ? '' : `-${VARIANT[masquerade]}`
}

const VARIANT: Readonly<Record<Frontend['masquerade'], string>> = {
  always: 'masqueraded',
  'off-cluster-sources': 'off-cluster',
  never: 'plain',
}

/** The rules of a class chain. A packet that none of them takes goes on untranslated and meets the endpoint checks. */
export function classRules(dispatch: DispatchClass, node: NodeView): NftRule[] {
  const maps = dispatch.kind === 'nodeport' ? NODE_PORT_MAPS : FRONTEND_MAPS
  const toOne = (map: string, count: number): NftStatement => dnatFrom(map, maps.key, count)
  return entryRules(classChainName(dispatch), dispatch, node, {
    nearby: (count) => toOne(maps.endpoints, count),
    anybody: (count) => toOne(dispatch.shortCircuit === null ? maps.endpoints : maps.endpointsLocal, count),
  })
}

/** Where the two kinds of clients go on, given the number of endpoints (never 0). */
export interface Destinations {
  /** Pods and processes of this node, where a short circuit sets them apart. */
  nearby(count: number): NftStatement
  anybody(count: number): NftStatement
}

/** Who is masqueraded and who may take the short circuit: the entry of every dispatch, with or without affinity. */
export function entryRules(
  chain: string,
  { masquerade, count, shortCircuit }: DispatchClass,
  node: NodeView,
  to: Destinations,
): NftRule[] {
  const rules: NftRule[] = []
  const mark = markForMasquerade(node.masqueradeBit)
  if (shortCircuit !== null) {
    const onward: NftStatement = shortCircuit === 0 ? { verdict: 'return' } : to.nearby(shortCircuit)
    const pod = fromLocalPod(node.detectLocal)
    if (pod !== null) rules.push({ ...rule(chain, pod, onward), comment: 'short circuit for local pods' })
    rules.push({ ...rule(chain, FROM_THIS_NODE, mark, onward), comment: 'short circuit for this node' })
  }
  if (count === 0) return rules
  if (masquerade === 'always') rules.push(rule(chain, mark))
  const offCluster = masquerade === 'off-cluster-sources' ? notFromLocalPod(node.detectLocal) : null
  if (offCluster !== null) rules.push(rule(chain, offCluster, mark))
  rules.push(rule(chain, to.anybody(count)))
  return rules
}

/** The maps that translate frontends to endpoints, by how a frontend is dialled. */
export const FRONTEND_MAPS = {
  key: FRONTEND_KEY,
  endpoints: SET.endpoints,
  endpointsLocal: SET.endpointsLocal,
}
export const NODE_PORT_MAPS = {
  key: NODE_PORT_KEY,
  endpoints: SET.nodePortEndpoints,
  endpointsLocal: SET.nodePortEndpointsLocal,
}

function kindOf(frontend: Frontend): DispatchClass['kind'] {
  if (frontend.kind === 'NodePort') return 'nodeport'
  return frontend.kind === 'ClusterIP' ? 'cluster' : 'external'
}

function countOf(port: ServicePort, destination: Destination): number {
  return destination.kind === 'endpoints' ? poolOf(port, destination.pool).endpoints.length : 0
}

function sameDestination(a: Destination, b: Destination): boolean {
  if (a.kind !== 'endpoints' || b.kind !== 'endpoints') return a.kind === b.kind
  return a.pool === b.pool
}
