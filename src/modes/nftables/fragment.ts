import type { Cidr } from '../../net/cidr.ts'
import type { NftElement, NftSet, NftValue, NftVerdict } from '../../kernel/nft/ruleset.ts'
import type { Destination, Endpoint, Frontend, NodeView, ServicePort } from '../../services/service-map.ts'
import { poolOf } from '../../services/service-map.ts'
import type { ChainBlock } from './affinity.ts'
import { compileAffinity } from './affinity.ts'
import type { DispatchClass } from './classes.ts'
import { classChainName, classOf, classRules, FRONTEND_MAPS, NODE_PORT_MAPS } from './classes.ts'
import { CHAIN, commentFor, protocolName, SET } from './names.ts'
import { allowedSources } from './source-ranges.ts'

/** An object that several Service ports use: a class chain, or an element such as a ClusterIP. */
export type SharedObject =
  | { readonly key: string; readonly block: ChainBlock }
  | { readonly key: string; readonly element: NftElement }

/** What one Service port has for itself in the table. */
export interface Fragment {
  /** Elements that no other Service port has. */
  readonly elements: readonly NftElement[]
  /** Only with session affinity. */
  readonly chains: readonly ChainBlock[]
  readonly sets: readonly NftSet[]
}

/** Compiles what a Service port has for itself. */
export function compilePort(port: ServicePort, node: NodeView): Fragment {
  const affinity = port.affinitySeconds === null ? null : compileAffinity(port, node, port.affinitySeconds)
  const entryOf = affinity === null ? classChainName : affinity.entryOf
  const elements: NftElement[] = []
  for (const frontend of port.frontends) {
    writeElements(port, node, planOf(port, frontend, entryOf), elements)
  }
  return { elements, chains: affinity?.chains ?? NONE, sets: affinity?.sets ?? NONE }
}

/** Counts the elements that {@link compilePort} would make, by set, without making them. */
export function countElements(
  port: ServicePort,
  node: NodeView,
  count: (set: string, elements: number) => void,
): void {
  for (const frontend of port.frontends) {
    const plan = planOf(port, frontend, classChainName)
    for (const { set } of plan.verdicts) count(set, 1)
    for (const { set, endpoints } of plan.pools) count(set, endpoints.length)
    if (plan.sourceRanges !== null) {
      count(SET.firewallAllow, allowedSources(plan.sourceRanges, node.family).length)
    }
  }
}

/** Gives the one object of a key, made by `build` when it is met for the first time. */
export type SharedObjects = (key: string, build: () => SharedObject) => SharedObject

/** Compiles what a Service port shares with others. */
export function sharedBy(
  port: ServicePort,
  node: NodeView,
  objects: SharedObjects,
): ReadonlySet<SharedObject> {
  const shared = new Set<SharedObject>()
  for (const frontend of port.frontends) {
    const dispatch = port.affinitySeconds === null ? classOf(port, frontend) : null
    if (dispatch !== null) {
      shared.add(objects(classChainName(dispatch), () => classChain(dispatch, node)))
    }
    if (frontend.kind === 'ClusterIP') {
      const key = [frontend.ip]
      shared.add(objects(`${SET.clusterIps} ${frontend.ip}`, () => sharedElement(SET.clusterIps, key)))
    }
  }
  for (const key of hairpinKeys(port)) {
    shared.add(objects(`${SET.hairpin} ${key.join(' ')}`, () => sharedElement(SET.hairpin, key)))
  }
  return shared
}

const NONE: readonly never[] = Object.freeze([])

/** The elements of one frontend, before they are written out. */
interface FrontendPlan {
  readonly key: NftValue
  readonly verdicts: readonly { readonly set: string; readonly verdict: NftVerdict }[]
  readonly pools: readonly { readonly set: string; readonly endpoints: readonly Endpoint[] }[]
  readonly sourceRanges: readonly Cidr[] | null
}

function planOf(
  port: ServicePort,
  frontend: Frontend,
  entryOf: (dispatch: DispatchClass, frontend: Frontend) => string,
): FrontendPlan {
  const isNodePort = frontend.ip === 'any-node-port-address'
  const verdicts: { set: string; verdict: NftVerdict }[] = []
  const dispatch = classOf(port, frontend)
  if (dispatch !== null) {
    const set = isNodePort ? SET.serviceNodePorts : SET.serviceIps
    verdicts.push({ set, verdict: { verdict: 'goto', chain: entryOf(dispatch, frontend) } })
  }
  const answer = noEndpointAnswer(frontend)
  if (answer !== null) {
    verdicts.push({ set: isNodePort ? SET.noEndpointNodePorts : SET.noEndpointServices, verdict: answer })
  }
  const sourceRanges = isNodePort ? null : frontend.sourceRanges
  if (sourceRanges !== null) {
    verdicts.push({ set: SET.firewallIps, verdict: { verdict: 'goto', chain: CHAIN.firewallSources } })
  }
  const pools = dispatch === null || port.affinitySeconds !== null ? [] : poolsOf(port, frontend, dispatch)
  return { key: keyOf(port, frontend), verdicts, pools, sourceRanges }
}

function poolsOf(port: ServicePort, frontend: Frontend, dispatch: DispatchClass): FrontendPlan['pools'] {
  const maps = frontend.kind === 'NodePort' ? NODE_PORT_MAPS : FRONTEND_MAPS
  const anybody = endpointsOf(port, frontend.fromAnywhere)
  if (dispatch.shortCircuit === null) return [{ set: maps.endpoints, endpoints: anybody }]
  return [
    { set: maps.endpoints, endpoints: endpointsOf(port, frontend.fromThisNode) },
    { set: maps.endpointsLocal, endpoints: anybody },
  ]
}

function endpointsOf(port: ServicePort, destination: Destination): readonly Endpoint[] {
  return destination.kind === 'endpoints' ? poolOf(port, destination.pool).endpoints : NONE
}

/** The answer for those clients of a frontend that get no endpoint; null if all get one. */
function noEndpointAnswer({ fromAnywhere, fromThisNode }: Frontend): NftVerdict | null {
  const { kind } = fromAnywhere.kind === 'endpoints' ? fromThisNode : fromAnywhere
  if (kind === 'endpoints') return null
  return kind === 'reject' ? { verdict: 'goto', chain: CHAIN.reject } : { verdict: 'drop' }
}

function writeElements(port: ServicePort, node: NodeView, plan: FrontendPlan, into: NftElement[]): void {
  const comment = commentFor(port.id)
  for (const { set, verdict } of plan.verdicts) into.push(element(set, plan.key, null, verdict, comment))
  for (const { set, endpoints } of plan.pools) {
    for (const [index, { ip, port: number }] of endpoints.entries()) {
      into.push(element(set, [...plan.key, String(index)], [ip, String(number)]))
    }
  }
  if (plan.sourceRanges === null) return
  for (const source of allowedSources(plan.sourceRanges, node.family)) {
    into.push(element(SET.firewallAllow, [...plan.key, source]))
  }
}

/** Source and destination of a flow that came back to the endpoint it started from; only endpoints of this node can. */
function hairpinKeys(port: ServicePort): NftValue[] {
  const pools = [port.pools.cluster, port.pools.local]
  const local = pools.flatMap((pool) => pool?.endpoints.filter(({ isLocal }) => isLocal) ?? [])
  return local.map(({ ip, port: number }) => [ip, ip, protocolName(port.protocol), String(number)])
}

function keyOf(port: ServicePort, frontend: Frontend): NftValue {
  const dialled = [protocolName(port.protocol), String(frontend.port)]
  return frontend.ip === 'any-node-port-address' ? dialled : [frontend.ip, ...dialled]
}

function classChain(dispatch: DispatchClass, node: NodeView): SharedObject {
  const name = classChainName(dispatch)
  return {
    key: name,
    block: { chain: { name, comment: null, base: null }, rules: classRules(dispatch, node) },
  }
}

function sharedElement(set: string, key: NftValue): SharedObject {
  return { key: `${set} ${key.join(' ')}`, element: element(set, key) }
}

/** Written out, because there are as many of these as endpoints: spreading defaults costs twice the time. */
function element(
  set: string,
  key: NftValue,
  data: NftValue | null = null,
  verdict: NftVerdict | null = null,
  comment: string | null = null,
): NftElement {
  return { set, key, data, verdict, timeoutMs: null, comment }
}
