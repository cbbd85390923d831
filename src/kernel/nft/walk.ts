import { parseIp } from '../../net/ip.ts'
import type { NftBaseChain, NftDnat, NftRule, NftStatement, NftValue, NftVerdict } from './ruleset.ts'
import type { RuleView } from './rule-view.ts'
import { keyMatches } from './rule-view.ts'
import { fieldMatches, keyBranches } from './walk-keys.ts'
import type { Branch, Deed, Hit, PacketState, WalkContext } from './walk-state.ts'

/** The kernel's limit of nested jumps (NFT_JUMP_STACK_SIZE). */
const DEEPEST_JUMP = 16

interface Place {
  readonly view: RuleView
  readonly hook: NftBaseChain['hook']
  readonly base: string
  readonly chain: string
  readonly depth: number
  readonly context: WalkContext
}

/** How one statement or rule ended for one branch: go on with the next one, or leave. */
type Progress = { readonly end: Branch['end'] | 'next' | 'break'; readonly state: PacketState }

/** Runs one base chain for a packet: every way it can end, with the policy applied. Never ends in `return`. */
export function walkBaseChain(
  view: RuleView,
  chain: { readonly name: string; readonly base: NftBaseChain },
  state: PacketState,
  context: WalkContext,
): readonly Branch[] {
  const place: Place = {
    view,
    hook: chain.base.hook,
    base: chain.name,
    chain: chain.name,
    depth: 0,
    context,
  }
  return walkChain(place, state).map((branch) => {
    if (branch.end !== 'return') return branch
    if (chain.base.policy === 'accept') return { end: 'accept', state: branch.state }
    return { end: 'drop', state: record(place, null, null, { kind: 'policy drop' }, branch.state, {}) }
  })
}

function walkChain(place: Place, start: PacketState): readonly Branch[] {
  const rules = place.view.rules(place.chain)
  if (rules === null || place.depth > DEEPEST_JUMP) {
    place.context.notUnderstood(`chain ${place.chain} of table ${place.view.table} cannot be followed`)
    return [{ end: 'return', state: start }]
  }
  const ended: Branch[] = []
  let running: readonly PacketState[] = [start]
  for (const rule of rules) {
    running = running.flatMap((state) =>
      walkRule(place, rule, state).flatMap((progress) => {
        if (progress.end === 'next' || progress.end === 'break') return [progress.state]
        ended.push({ end: progress.end, state: progress.state })
        return []
      }),
    )
    if (running.length === 0) break
  }
  return [...ended, ...running.map((state) => ({ end: 'return' as const, state }))]
}

function walkRule(place: Place, rule: NftRule, start: PacketState): readonly Progress[] {
  const done: Progress[] = []
  let running: readonly PacketState[] = [start]
  for (const statement of rule.statements) {
    running = running.flatMap((state) =>
      walkStatement(place, rule, statement, state).flatMap((progress) => {
        if (progress.end === 'next') return [progress.state]
        done.push(progress)
        return []
      }),
    )
  }
  return [...done, ...running.map((state) => ({ end: 'next' as const, state }))]
}

const NEXT = (state: PacketState): readonly Progress[] => [{ end: 'next', state }]
const BREAK = (state: PacketState): readonly Progress[] => [{ end: 'break', state }]

function walkStatement(
  place: Place,
  rule: NftRule,
  statement: NftStatement,
  state: PacketState,
): readonly Progress[] {
  const { view, context } = place
  const when = (holds: boolean): readonly Progress[] => (holds ? NEXT(state) : BREAK(state))
  if ('match' in statement) return when(fieldMatches(statement.match, state, context))
  if ('matchMark' in statement) {
    const { mask, op, value } = statement.matchMark
    return when(((state.mark & mask) >>> 0 === value >>> 0) === (op === '=='))
  }
  if ('matchSet' in statement) {
    const { key, op, set } = statement.matchSet
    return keyBranches(key, state, context).map((branch) => ({
      end: (view.find(set, branch.key) !== null) === (op === 'in') ? 'next' : 'break',
      state: branch.state,
    }))
  }
  if ('vmap' in statement || 'anonymousVmap' in statement) return walkVmap(place, rule, statement, state)
  if ('verdict' in statement) return applyVerdict(place, rule, statement, null, state)
  if ('reject' in statement)
    return [{ end: 'reject', state: record(place, rule, null, { kind: 'reject' }, state, {}) }]
  if ('setMark' in statement) {
    const mark = ((state.mark & statement.setMark.and) ^ statement.setMark.xor) >>> 0
    return NEXT(
      mark === state.mark ? state : record(place, rule, null, { kind: 'mark', mark }, state, { mark }),
    )
  }
  if ('dnat' in statement) return walkDnat(place, rule, statement.dnat, state)
  if ('masquerade' in statement) {
    const change = { masquerade: true, source: context.masqueradeSource(state.destination) }
    return [{ end: 'accept', state: record(place, rule, null, { kind: 'masquerade' }, state, change) }]
  }
  if ('updateSet' in statement) {
    const { set } = statement.updateSet
    return NEXT(record(place, rule, null, { kind: 'update', set }, state, { sticky: true }))
  }
  if ('counter' in statement) return NEXT(state)
  return walkUnknown(place, rule, statement.unknown, state)
}

/** A refusal that the rule model has no word for is still a refusal; anything else unknown makes the rule not match. */
function walkUnknown(place: Place, rule: NftRule, text: string, state: PacketState): readonly Progress[] {
  if (/^reject\b/.test(text)) {
    return [{ end: 'reject', state: record(place, rule, null, { kind: 'reject' }, state, {}) }]
  }
  place.context.notUnderstood(`${place.view.table} ${place.chain}: ${text}`)
  return BREAK(state)
}

function walkVmap(
  place: Place,
  rule: NftRule,
  statement: Extract<NftStatement, { vmap: unknown } | { anonymousVmap: unknown }>,
  state: PacketState,
): readonly Progress[] {
  const key = 'vmap' in statement ? statement.vmap.key : statement.anonymousVmap.key
  return keyBranches(key, state, place.context).flatMap((branch) => {
    const hit =
      'vmap' in statement
        ? findVerdict(place.view, statement.vmap.map, branch.key)
        : findEntry(statement.anonymousVmap.entries, branch.types, branch.key)
    if (hit === null || Array.isArray(hit.value)) return BREAK(branch.state)
    return applyVerdict(place, rule, hit.value as NftVerdict, hit, branch.state)
  })
}

function findVerdict(view: RuleView, map: string, key: readonly string[]): Hit | null {
  const element = view.find(map, key)
  return element?.verdict ? { map, key: element.key, value: element.verdict, element } : null
}

function findData(view: RuleView, map: string, key: readonly string[]): Hit | null {
  const element = view.find(map, key)
  return element?.data ? { map, key: element.key, value: element.data, element } : null
}

function findEntry(
  entries: readonly (readonly [NftValue, NftValue | NftVerdict])[],
  types: Parameters<typeof keyMatches>[0],
  key: readonly string[],
): Hit | null {
  const entry = entries.find(([pattern]) => keyMatches(types, pattern, key))
  return entry === undefined ? null : { map: null, key: entry[0], value: entry[1], element: null }
}

function applyVerdict(
  place: Place,
  rule: NftRule,
  verdict: NftVerdict,
  hit: Hit | null,
  state: PacketState,
): readonly Progress[] {
  switch (verdict.verdict) {
    case 'continue':
      return NEXT(state)
    case 'return':
      return [{ end: 'return', state }]
    case 'accept':
    case 'drop': {
      const deed: Deed = { kind: verdict.verdict }
      return [{ end: verdict.verdict, state: record(place, rule, hit, deed, state, {}) }]
    }
    case 'jump':
    case 'goto': {
      const deed: Deed = { kind: verdict.verdict, chain: verdict.chain }
      const inside = record(place, rule, hit, deed, state, {})
      const branches = walkChain({ ...place, chain: verdict.chain, depth: place.depth + 1 }, inside)
      // Falling off a chain that was jumped to goes on behind the rule; after goto the calling chain is over as well.
      const off = verdict.verdict === 'jump' ? 'next' : 'return'
      return branches.map(({ end, state: at }) => ({ end: end === 'return' ? off : end, state: at }))
    }
  }
}

function walkDnat(place: Place, rule: NftRule, dnat: NftDnat, state: PacketState): readonly Progress[] {
  if ('to' in dnat) return rewrite(place, rule, dnat.to, null, state)
  return keyBranches(dnat.key, state, place.context).flatMap((branch) => {
    const hit =
      'map' in dnat
        ? findData(place.view, dnat.map, branch.key)
        : findEntry(dnat.entries, branch.types, branch.key)
    if (hit === null || !Array.isArray(hit.value)) return BREAK(branch.state)
    return rewrite(place, rule, hit.value as NftValue, hit, branch.state)
  })
}

function rewrite(
  place: Place,
  rule: NftRule,
  to: NftValue,
  hit: Hit | null,
  state: PacketState,
): readonly Progress[] {
  const destination = parseIp(to[0] ?? '')
  if (destination === null) {
    place.context.notUnderstood(`${place.view.table} ${place.chain}: dnat to ${to.join(' . ')}`)
    return BREAK(state)
  }
  const port = to[1] === undefined ? state.port : Number(to[1])
  const change = { destination, port, dnat: true }
  return [{ end: 'accept', state: record(place, rule, hit, { kind: 'dnat' }, state, change) }]
}

/** The state after a deed, with the step that tells of it. */
function record(
  place: Place,
  rule: NftRule | null,
  hit: Hit | null,
  deed: Deed,
  state: PacketState,
  change: Partial<PacketState>,
): PacketState {
  const after = { ...state, ...change }
  const { hook, base, view, chain, depth } = place
  const step = { hook, base, view, chain, rule, hit, deed, depth, before: state, after }
  return { ...after, steps: { last: step, earlier: state.steps } }
}
