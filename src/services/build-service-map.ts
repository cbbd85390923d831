import type { ClusterState, ObjectProblem, ServiceBundle } from '../cluster/state.ts'
import { keepIfSame, sameContent } from '../shared/equal.ts'
import { ShardedMap } from '../shared/sharded-map.ts'
import type { Claims, ClaimsDraft } from './claims.ts'
import { addClaim, claimsOf, dropClaim, settle } from './claims.ts'
import type { ResolutionView, ResolvedService } from './resolve-service.ts'
import { resolveService, serviceKeyOf } from './resolve-service.ts'
import type { IndexParts, NoLocalEndpoints } from './service-index.ts'
import { ServiceIndex } from './service-index.ts'
import type {
  FrontendKind,
  NodeView,
  ServiceHealth,
  ServiceMap,
  ServicePort,
  ServicePortId,
} from './service-map.ts'

/** What a build did, for metrics and for tests that hold its cost. */
export interface BuildWork {
  /** Services whose rules were worked out. */
  services: number
  /** Service ports that were put together. */
  ports: number
}

/**
 * What Kubernetes wants on this node in one family: every policy decision is taken here, once. `previous` (any
 * earlier map) only saves work and keeps the identity of what did not change, the NodeView included; the content is the
 * same without.
 */
export function buildServiceMap(
  state: ClusterState,
  node: NodeView,
  previous: ServiceMap | null = null,
  work: BuildWork = { services: 0, ports: 0 },
): ServiceMap {
  // A map made by hand does not say what it was made from.
  const before = previous?.index === undefined ? emptyMap(node) : previous
  const old = (before.index ?? ServiceIndex.empty).parts
  const view = keepIfSame(before.node, node)
  const sameView = view === before.node || sameContent(resolutionView(before.node), resolutionView(view))
  if (sameView && old.services === state.services) {
    return view === before.node ? before : Object.freeze({ ...before, node: view })
  }

  const keys = sameView ? changedKeys(state.services, old.services) : allKeys(state.services, old)
  const changes = resolveAll(keys, state.services, old.resolved, view, work)
  const touched = new Set<ServicePortId>()
  const claims = old.claims.edit((draft) => {
    for (const change of changes) updateClaims(change, draft, touched)
  })
  const resolved = old.resolved.edit((draft) => {
    for (const { key, after } of changes) {
      if (after === undefined) draft.delete(key)
      else draft.set(key, after)
    }
  })
  const index = new ServiceIndex({
    services: state.services,
    resolved,
    claims,
    noLocal: changes.reduce(countNoLocal, old.noLocal),
  })
  return Object.freeze({
    family: view.family,
    node: view,
    ports: settlePorts(before.ports, touched, resolved, claims, work),
    health: before.health.edit((draft) => {
      for (const { key, after } of changes) {
        if (after === undefined || after.health === null) draft.delete(key)
        else draft.set(key, after.health)
      }
    }),
    problems: before.problems.edit((draft) => {
      for (const { key, after } of changes) {
        if (after === undefined || after.problems.length === 0) draft.delete(key)
        else draft.set(key, after.problems)
      }
    }),
    index,
  })
}

/**
 * How many Service ports have no endpoint on this node that their policy allows, while there are endpoints elsewhere:
 * `kubeproxy_sync_proxy_rules_no_local_endpoints_total` by traffic policy.
 */
export function noLocalEndpoints(map: ServiceMap): NoLocalEndpoints {
  if (map.index !== undefined) return map.index.parts.noLocal
  return sumNoLocal([...map.ports.values()])
}

/** One Service whose resolution changed. */
interface Change {
  readonly key: string
  readonly before: ResolvedService | undefined
  readonly after: ResolvedService | undefined
}

/** The part of a NodeView that Services are resolved by. */
function resolutionView(node: NodeView): ResolutionView & { readonly detects: boolean } {
  const { name, family, zone, masqueradeAll, primaryIp, detectLocal } = node
  // Only whether pods can be told matters here, not how: that is the modes' business.
  const detects = detectLocal.by !== 'none'
  return { name, family, zone, masqueradeAll, primaryIp, detectLocal: { by: 'none' }, detects }
}

function changedKeys(now: ShardedMap<ServiceBundle>, before: ShardedMap<ServiceBundle>): string[] {
  return [...now.changesSince(before)].map(({ key }) => key)
}

function allKeys(now: ShardedMap<ServiceBundle>, old: IndexParts): Set<string> {
  return new Set([...now.keys(), ...old.resolved.keys()])
}

function resolveAll(
  keys: Iterable<string>,
  services: ShardedMap<ServiceBundle>,
  known: ShardedMap<ResolvedService>,
  node: NodeView,
  work: BuildWork,
): readonly Change[] {
  const changes: Change[] = []
  for (const key of keys) {
    const before = known.get(key)
    const bundle = services.get(key)
    if (bundle !== undefined) work.services++
    const fresh = bundle === undefined ? null : resolveService(bundle, node)
    const after = fresh === null ? undefined : withKnownParts(before, fresh)
    if (after !== before) changes.push({ key, before, after })
  }
  return changes
}

/** The resolution with the identity of whatever equals what was known: all of it, or single ports and pools. */
function withKnownParts(before: ResolvedService | undefined, fresh: ResolvedService): ResolvedService {
  if (before === undefined) return fresh
  const ports = fresh.ports.map((port) =>
    withKnownPools(
      before.ports.find(({ id }) => id === port.id),
      port,
    ),
  )
  const after: ResolvedService = {
    ...fresh,
    ports,
    health: keepIfSame(before.health ?? undefined, fresh.health),
    problems: keepIfSame(before.problems, fresh.problems),
  }
  return keepIfSame(before, after)
}

function withKnownPools(before: ServicePort | undefined, fresh: ServicePort): ServicePort {
  if (before === undefined) return fresh
  const pools = Object.freeze({
    cluster: keepIfSame(before.pools.cluster ?? undefined, fresh.pools.cluster),
    local: keepIfSame(before.pools.local ?? undefined, fresh.pools.local),
  })
  return keepIfSame(before, Object.freeze({ ...fresh, pools }))
}

/** Moves the claims of one Service; notes every port that has to be put together again. */
function updateClaims({ before, after }: Change, draft: ClaimsDraft, touched: Set<ServicePortId>): void {
  const sameAge = before?.created === after?.created
  const old = before?.ports ?? NO_PORTS
  const now = after?.ports ?? NO_PORTS
  for (const gone of old) {
    if (!now.some(({ id }) => id === gone.id)) dropAll(gone, before!.created, draft, touched)
  }
  for (const port of now) {
    const known = old.find(({ id }) => id === port.id)
    if (port === known && sameAge) continue
    touched.add(port.id)
    if (known !== undefined && sameAge && claimsSame(known, port)) continue
    if (known !== undefined) dropAll(known, before!.created, draft, touched)
    for (const [key, claim] of claimsOf(port, after!.created)) {
      addClaim(draft, key, claim)
      for (const { id } of draft.get(key)!) touched.add(id)
    }
  }
}

function dropAll(port: ServicePort, created: string, draft: ClaimsDraft, touched: Set<ServicePortId>): void {
  touched.add(port.id)
  for (const [key] of claimsOf(port, created)) {
    dropClaim(draft, key, port.id)
    for (const { id } of draft.get(key) ?? []) touched.add(id)
  }
}

/** True if two versions of a port claim the same addresses with the same right. */
function claimsSame(a: ServicePort, b: ServicePort): boolean {
  return sameContent(claimsOf(a, ''), claimsOf(b, ''))
}

function settlePorts(
  before: ShardedMap<ServicePort>,
  touched: ReadonlySet<ServicePortId>,
  resolved: ShardedMap<ResolvedService>,
  claims: Claims,
  work: BuildWork,
): ShardedMap<ServicePort> {
  return before.edit((draft) => {
    for (const id of touched) {
      const port = resolved.get(serviceKeyOf(id))?.ports.find((candidate) => candidate.id === id)
      if (port === undefined) draft.delete(id)
      else {
        work.ports++
        draft.set(id, keepIfSame(draft.get(id), settle(port, claims)))
      }
    }
  })
}

function countNoLocal(total: NoLocalEndpoints, { before, after }: Change): NoLocalEndpoints {
  const [less, more] = [sumNoLocal(before?.ports ?? NO_PORTS), sumNoLocal(after?.ports ?? NO_PORTS)]
  if (less === more) return total
  return {
    internal: total.internal - less.internal + more.internal,
    external: total.external - less.external + more.external,
  }
}

function sumNoLocal(ports: readonly ServicePort[]): NoLocalEndpoints {
  let [internal, external] = [0, 0]
  for (const port of ports) {
    if (!port.internalPolicyLocal && !port.externalPolicyLocal) continue
    if (drops(port, (kind) => kind === 'ClusterIP')) internal++
    if (drops(port, (kind) => kind !== 'ClusterIP')) external++
  }
  return internal + external === 0 ? NOTHING_MISSING : { internal, external }
}

/** True if a policy leaves a port without endpoints on some frontend; frontends lost to other Services count too. */
function drops(port: ServicePort, of: (kind: FrontendKind) => boolean): boolean {
  return [...port.frontends, ...port.shadowed.map(({ frontend }) => frontend)].some(
    ({ kind, fromAnywhere }) => of(kind) && fromAnywhere.kind === 'drop',
  )
}

function emptyMap(node: NodeView): ServiceMap {
  return Object.freeze({
    family: node.family,
    node,
    ports: ShardedMap.empty<ServicePort>(),
    health: ShardedMap.empty<ServiceHealth>(),
    problems: ShardedMap.empty<readonly ObjectProblem[]>(),
    index: ServiceIndex.empty,
  })
}

const NO_PORTS: readonly ServicePort[] = Object.freeze([])
const NOTHING_MISSING: NoLocalEndpoints = Object.freeze({ internal: 0, external: 0 })
