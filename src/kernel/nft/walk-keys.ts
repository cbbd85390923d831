import type { NftField, NftKey, NftType } from './ruleset.ts'
import { canonicalValue, typeOfField, valueMatches } from './values.ts'
import type { PacketState, WalkContext } from './walk-state.ts'

/** One possible value of a key, with the branch in which it has that value. */
export interface KeyBranch {
  readonly key: readonly string[]
  readonly types: readonly NftType[]
  readonly state: PacketState
}

/** All values that a key can have for this packet: one, or one per value of its random and hash parts. */
export function keyBranches(parts: NftKey, state: PacketState, context: WalkContext): readonly KeyBranch[] {
  let branches: readonly KeyBranch[] = [{ key: [], types: [], state }]
  for (const part of parts) {
    branches = branches.flatMap((branch) => {
      if ('field' in part) {
        const value = fieldValue(part.field, branch.state, context)
        return value === null ? [] : [extend(branch, value, typeOfField(part.field), branch.state)]
      }
      return choices(part, branch.state).map(({ value, state }) =>
        extend(branch, String(value), 'integer', state),
      )
    })
  }
  return branches
}

function extend(branch: KeyBranch, value: string, type: NftType, state: PacketState): KeyBranch {
  return { key: [...branch.key, value], types: [...branch.types, type], state }
}

type ComputedPart = Exclude<NftKey[number], { readonly field: NftField }>

function choices(part: ComputedPart, state: PacketState): readonly { value: number; state: PacketState }[] {
  const mod = 'random' in part ? part.random.mod : part.hash.mod
  const values = Array.from({ length: mod }, (_, value) => value)
  if ('random' in part)
    return values.map((value) => ({ value, state: { ...state, weight: state.weight / mod } }))
  const name = JSON.stringify([part.hash, state.source, state.destination, state.port])
  const known = state.hashes[name]
  if (known !== undefined) return [{ value: known, state }]
  const sticky = state.sticky || (part.hash.of.includes('saddr') && !part.hash.of.includes('sport'))
  return values.map((value) => ({
    value,
    state: { ...state, sticky, weight: state.weight / mod, hashes: { ...state.hashes, [name]: value } },
  }))
}

/** A field's canonical value; null if the packet has none (the rule then does not match). */
export function fieldValue(field: NftField, state: PacketState, context: WalkContext): string | null {
  switch (field) {
    case 'saddr':
      return state.source
    case 'daddr':
      return state.destination
    case 'sport':
      return String(state.sourcePort)
    case 'dport':
      return String(state.port)
    case 'l4proto':
      return state.protocol.toLowerCase()
    case 'mark':
      return String(state.mark)
    case 'iifname':
      return state.inputInterface ?? ''
    case 'oifname':
      if (state.outputInterface === null)
        context.notUnderstood('the outgoing interface (oifname) is not known')
      return state.outputInterface ?? ''
    case 'ct state':
      return 'new'
    case 'ct status':
      return state.dnat ? 'dnat' : ''
    case 'fib saddr type':
      return context.isLocal(state.source) ? 'local' : 'unicast'
    case 'fib daddr type':
      return context.isLocal(state.destination) ? 'local' : 'unicast'
  }
}

/** Whether a plain match (field against one value or a list) holds. */
export function fieldMatches(
  match: { readonly left: NftField; readonly op: '==' | '!='; readonly right: readonly string[] },
  state: PacketState,
  context: WalkContext,
): boolean {
  const value = fieldValue(match.left, state, context)
  if (value === null) return false
  const type = typeOfField(match.left)
  const hit = match.right.some((pattern) =>
    type === 'integer' ? canonicalValue(type, pattern) === value : valueMatches(type, pattern, value),
  )
  return hit === (match.op === '==')
}
