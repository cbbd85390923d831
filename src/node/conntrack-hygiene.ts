import type { ConntrackPort, Flow } from '../kernel/conntrack/port.ts'
import type { Ip } from '../net/ip.ts'
import { isLoopback } from '../net/ip.ts'
import type { Frontend, NodeView, ServiceMap, ServicePort } from '../services/service-map.ts'
import { poolOf } from '../services/service-map.ts'

/**
 * Which flows must be forgotten after a change, and why only those.
 *
 * Conntrack keeps sending the packets of a known flow where the first one went. For TCP that is what everybody wants:
 * the endpoint's end closes the connection. A UDP sender with a fixed source port refreshes its flow for ever, so a flow
 * that points at an endpoint which left, or that was let through untranslated before there were endpoints, is a black
 * hole until its entry goes (kubernetes/kubernetes#48370, #139628, #141371).
 */

/** The endpoints (`ip|port`) that flows to an address may have; empty = none any more. */
type Allowed = ReadonlySet<string>

/** What to look for in the table: original destination (`ip|port`) → endpoints. */
export interface FlowTargets {
  readonly allowed: ReadonlyMap<string, Allowed>
  /** The destination ports among them: most flows are passed over by this alone. */
  readonly ports: ReadonlySet<number>
}

/**
 * The UDP frontends whose flows may have become stale between two maps, or null if none: then the table need not be
 * read. `before` = null means not known (start): all UDP frontends are looked at, and flows that are right stay.
 */
export function flowTargets(before: ServiceMap | null, after: ServiceMap): FlowTargets | null {
  const allowed = new Map<string, Allowed>()
  let reason = false
  for (const [old, now] of changedUdpPorts(before, after)) {
    const was = old === null || before === null ? NOTHING : frontendsOf(old, before.node)
    const is = now === null ? NOTHING : frontendsOf(now, after.node)
    for (const key of was.keys()) if (!allowed.has(key)) allowed.set(key, NO_ENDPOINTS)
    for (const [key, endpoints] of is) allowed.set(key, endpoints)
    reason ||= before === null || canLeaveStaleFlows(was, is)
  }
  if (!reason || allowed.size === 0) return null
  return {
    allowed,
    ports: new Set([...allowed.keys()].map((key) => Number(key.slice(key.indexOf('|') + 1)))),
  }
}

/**
 * The flows among these that must be deleted. A flow that was translated is stale if its endpoint is not one that its
 * destination may use now; one that was not translated is stale if there is an endpoint for it now.
 */
export function selectStale(flows: readonly Flow[], { allowed, ports }: FlowTargets): Flow[] {
  return flows.filter((flow) => {
    const { original, reply, protocol } = flow
    if (protocol !== 'UDP' || !ports.has(original.destinationPort)) return false
    const endpoints = allowed.get(addressKey(original.destination, original.destinationPort))
    if (endpoints === undefined) return false
    const translated = reply.source !== original.destination || reply.sourcePort !== original.destinationPort
    return translated ? !endpoints.has(addressKey(reply.source, reply.sourcePort)) : endpoints.size > 0
  })
}

/** The stale ones of these flows, given the map before the change (null = not known) and after it. */
export function staleFlows(flows: readonly Flow[], before: ServiceMap | null, after: ServiceMap): Flow[] {
  const targets = flowTargets(before, after)
  return targets === null ? [] : selectStale(flows, targets)
}

/**
 * Deletes the flows that a change made stale; to be called after the new rules are in the kernel. Gives how many were
 * deleted, or null if there was no reason to look. Rejects as the port does; then it must be called again with the same
 * `before`, or stale flows stay.
 */
export async function forgetStaleFlows(
  conntrack: ConntrackPort,
  before: ServiceMap | null,
  after: ServiceMap,
): Promise<number | null> {
  const targets = flowTargets(before, after)
  if (targets === null) return null
  let deleted = 0
  for (const flow of selectStale(await conntrack.list(after.family, 'UDP'), targets)) {
    if (await conntrack.delete(flow)) deleted++
  }
  return deleted
}

const NO_ENDPOINTS: Allowed = new Set()
const NOTHING: ReadonlyMap<string, Allowed> = new Map()

/** Every UDP port that is not the same in both maps, as [before, after]. */
function* changedUdpPorts(
  before: ServiceMap | null,
  after: ServiceMap,
): Generator<readonly [ServicePort | null, ServicePort | null]> {
  const isUdp = (port: ServicePort | null | undefined): boolean => port?.protocol === 'UDP'
  if (before === null) {
    for (const port of after.ports.values()) if (isUdp(port)) yield [null, port]
    return
  }
  for (const change of after.ports.changesSince(before.ports)) {
    const old = isUdp(change.before) ? change.before! : null
    const now = isUdp(change.after) ? change.after! : null
    if (old !== null || now !== null) yield [old, now]
  }
  if (sameIps(nodePortIps(before.node), nodePortIps(after.node))) return
  // The node's own addresses changed, which is rare: every node port answers on other addresses than before.
  for (const port of after.ports.values()) {
    const old = before.ports.get(port.id)
    if (old === port && isUdp(port) && port.frontends.some(({ kind }) => kind === 'NodePort'))
      yield [old, port]
  }
}

/** The addresses of a port's frontends, node ports spread over the node's addresses, with the endpoints each may use. */
function frontendsOf(port: ServicePort, node: NodeView): Map<string, Allowed> {
  const found = new Map<string, Allowed>()
  const nodeIps = nodePortIps(node)
  for (const frontend of port.frontends) {
    const endpoints = usableEndpoints(port, frontend)
    const ips = frontend.ip === 'any-node-port-address' ? nodeIps : [frontend.ip]
    for (const ip of ips) found.set(addressKey(ip, frontend.port), endpoints)
  }
  return found
}

/** Endpoints that some client of the frontend may get. A flow to one of them works, whoever's it is, and stays. */
function usableEndpoints(port: ServicePort, frontend: Frontend): Allowed {
  const usable = new Set<string>()
  for (const destination of [frontend.fromAnywhere, frontend.fromThisNode]) {
    if (destination.kind !== 'endpoints') continue
    for (const { ip, port: number } of poolOf(port, destination.pool).endpoints)
      usable.add(addressKey(ip, number))
  }
  return usable
}

/** A frontend that is new, vanished, got its first endpoint or lost one; endpoints that only came make nothing stale. */
function canLeaveStaleFlows(was: ReadonlyMap<string, Allowed>, is: ReadonlyMap<string, Allowed>): boolean {
  for (const key of was.keys()) if (!is.has(key)) return true
  for (const [key, endpoints] of is) {
    const old = was.get(key)
    if (old === undefined || (old.size === 0 && endpoints.size > 0)) return true
    for (const endpoint of old) if (!endpoints.has(endpoint)) return true
  }
  return false
}

/** The addresses on which this node's node ports answer. */
export function nodePortIps(node: NodeView): readonly Ip[] {
  return node.nodePortAddresses === 'any-local'
    ? node.localIps.filter((ip) => !isLoopback(ip))
    : node.nodePortIps
}

function sameIps(a: readonly Ip[], b: readonly Ip[]): boolean {
  return a === b || (a.length === b.length && a.every((ip, i) => ip === b[i]))
}

function addressKey(ip: string, port: number): string {
  return `${ip}|${port}`
}
