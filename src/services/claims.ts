import type { Port } from '../net/port.ts'
import type { Protocol } from '../net/protocol.ts'
import type { ShardedMap, ShardedMapDraft } from '../shared/sharded-map.ts'
import type { Frontend, ServicePort, ServicePortId } from './service-map.ts'

/** That a Service port wants to serve an address, port and protocol. */
export interface Claim {
  readonly id: ServicePortId
  /** The address is the Service's cluster IP, which the API server gives to one Service only. */
  readonly byClusterIp: boolean
  readonly created: string
}

/** All claims to each address, port and protocol; the first of a list is the owner. */
export type Claims = ShardedMap<readonly Claim[]>
export type ClaimsDraft = ShardedMapDraft<readonly Claim[]>

/** The key of one address, port and protocol. */
export function claimKey(ip: Frontend['ip'], port: Port, protocol: Protocol): string {
  return `${ip} ${port} ${protocol}`
}

/** The claims of one Service port, by key. */
export function claimsOf(port: ServicePort, created: string): readonly (readonly [string, Claim])[] {
  return port.frontends.map((frontend) => [
    claimKey(frontend.ip, frontend.port, port.protocol),
    { id: port.id, byClusterIp: frontend.kind === 'ClusterIP', created },
  ])
}

/** Adds a claim in its place. */
export function addClaim(draft: ClaimsDraft, key: string, claim: Claim): void {
  const others = draft.get(key)
  if (others === undefined) draft.set(key, [claim])
  else draft.set(key, [...others.filter(({ id }) => id !== claim.id), claim].sort(byPrecedence))
}

/** Takes the claim of a Service port away. */
export function dropClaim(draft: ClaimsDraft, key: string, id: ServicePortId): void {
  const rest = (draft.get(key) ?? []).filter((claim) => claim.id !== id)
  if (rest.length === 0) draft.delete(key)
  else draft.set(key, rest)
}

/** A Service port with only the frontends that it owns; the others are named with their owner. */
export function settle(port: ServicePort, claims: Pick<Claims, 'get'>): ServicePort {
  const ownerOf = (frontend: Frontend): ServicePortId => {
    const claimants = claims.get(claimKey(frontend.ip, frontend.port, port.protocol))
    return claimants?.[0]?.id ?? port.id
  }
  if (port.frontends.every((frontend) => ownerOf(frontend) === port.id)) return port
  const owned = port.frontends.filter((frontend) => ownerOf(frontend) === port.id)
  const lost = port.frontends.filter((frontend) => ownerOf(frontend) !== port.id)
  return Object.freeze({
    ...port,
    frontends: Object.freeze(owned),
    shadowed: Object.freeze(lost.map((frontend) => Object.freeze({ frontend, owner: ownerOf(frontend) }))),
  })
}

/**
 * Who of several claimants serves an address: a cluster IP goes before any external address, so that nobody can take
 * over another Service's cluster IP by naming it as external IP; then the oldest Service (one of unknown age last);
 * then by name. Every node comes to the same answer, and so does a proxy that starts anew.
 */
function byPrecedence(a: Claim, b: Claim): number {
  if (a.byClusterIp !== b.byClusterIp) return a.byClusterIp ? -1 : 1
  if (a.created !== b.created) {
    if (a.created === '' || b.created === '') return a.created === '' ? 1 : -1
    return a.created < b.created ? -1 : 1
  }
  return a.id < b.id ? -1 : a.id > b.id ? 1 : 0
}
