import { canonicalStatement } from './canonical.ts'
import { textOf, typeOfField } from './datatypes.ts'
import type { DecodedSet } from './decode-objects.ts'
import { matchOf, rangeMatch } from './decompile-match.ts'
import type { NftExpression } from './expressions.ts'
import { CMP, DNAT, META, NAT_FLAGS, REJECT } from './expressions.ts'
import type { Content } from './registers.ts'
import { contentOf, describe, keyAt } from './registers.ts'
import type { NftDnat, NftElement, NftFamily, NftField, NftStatement } from './ruleset.ts'
import { FAMILY_NUMBER } from './wire.ts'

/** A set that a rule refers to, with its elements if it is anonymous. */
export interface ReferredSet {
  readonly shape: DecodedSet
  readonly elements: readonly NftElement[]
}

export type SetLookup = (name: string) => ReferredSet | null

/**
 * What a rule's instructions say: the inverse of compileRule. Runs them with registers that hold descriptions instead of
 * values. What the model has no words for becomes `{ unknown }`, beginning with a name of the statement.
 */
export function decompileRule(
  family: NftFamily,
  expressions: readonly NftExpression[],
  setOf: SetLookup,
): NftStatement[] {
  const registers = new Map<number, Content>()
  const statements: NftStatement[] = []
  for (let i = 0; i < expressions.length; i++) {
    const e = expressions[i]!
    const content = contentOf(family, e, registers)
    if (content !== null && 'to' in e && typeof e.to === 'number') {
      registers.set(e.to, content)
      continue
    }
    const next = expressions[i + 1]
    if (
      e.is === 'cmp' &&
      e.op === CMP.GTE &&
      next?.is === 'cmp' &&
      next.op === CMP.LTE &&
      next.from === e.from
    ) {
      statements.push(rangeMatch(registers.get(e.from), '==', e.data, next.data))
      i++
      continue
    }
    const statement = statementOf({ family, registers, setOf }, e)
    if (statement !== null) statements.push(spelt(family, statement))
  }
  return statements
}

/** A value of another length than its field has cannot be spelt: whoever wrote it meant something else. */
function spelt(family: NftFamily, statement: NftStatement): NftStatement {
  try {
    return canonicalStatement(family, statement)
  } catch (error) {
    if (!(error instanceof TypeError || error instanceof RangeError)) throw error
    return { unknown: JSON.stringify(statement) }
  }
}

interface State {
  readonly family: NftFamily
  readonly registers: Map<number, Content>
  readonly setOf: SetLookup
}

/** Null for instructions that only prepare a later one. */
function statementOf(state: State, e: NftExpression): NftStatement | null {
  const { registers } = state
  switch (e.is) {
    case 'cmp':
      return matchOf(registers.get(e.from), e)
    case 'range':
      return rangeMatch(registers.get(e.from), e.op === 0 ? '==' : '!=', e.first, e.last)
    case 'verdict':
      return e.verdict
    case 'counter':
      return { counter: { packets: e.packets, bytes: e.bytes } }
    case 'masq':
      return masqueradeOf(e.flags)
    case 'reject':
      return rejectOf(state.family, e.type, e.code)
    case 'set meta':
      return markOf(e.key, registers.get(e.from))
    case 'lookup':
      return lookupOf(state, e)
    case 'dynset':
      return updateOf(state, e)
    case 'nat':
      return natOf(state, e)
    case 'other':
      // nft puts a conversion before look-ups in sets of ranges that leaves single bytes as they are.
      return e.name === 'byteorder' ? null : { unknown: e.name }
    default:
      return { unknown: e.is }
  }
}

function masqueradeOf(flags: number): NftStatement {
  if ((flags & ~NAT_FLAGS.RANDOM_FULLY) !== 0) return { unknown: `masquerade flags 0x${flags.toString(16)}` }
  return { masquerade: { fullyRandom: flags !== 0 } }
}

function rejectOf(family: NftFamily, type: number, code: number): NftStatement {
  if (type === REJECT.TCP_RST) return { reject: 'tcp reset' }
  const port = family === 'ip6' ? 4 : 3
  if (type === REJECT.ICMP_UNREACH && family !== 'inet' && code === port)
    return { reject: 'port-unreachable' }
  if (type === REJECT.ICMPX && code === 1) return { reject: 'port-unreachable' }
  return { unknown: `reject type ${type} code ${code}` }
}

function markOf(key: number, content: Content | undefined): NftStatement {
  if (key === META.MARK && content?.holds === 'data' && content.data.length >= 4) {
    return { setMark: { and: 0, xor: content.data.readUInt32LE(0) } }
  }
  if (
    key === META.MARK &&
    content?.holds === 'masked' &&
    content.field === 'mark' &&
    content.mask.length === 4
  ) {
    return { setMark: { and: content.mask.readUInt32LE(0), xor: content.xor.readUInt32LE(0) } }
  }
  return { unknown: `mangle meta ${key} with ${describe(content)}` }
}

function lookupOf(state: State, e: Extract<NftExpression, { readonly is: 'lookup' }>): NftStatement | null {
  const set = state.setOf(e.set)
  const key = set === null ? null : keyAt(state.registers, e.from, set.shape.keyBytes)
  if (set === null || key === null) {
    if (typeof e.to === 'number') {
      state.registers.set(e.to, { holds: 'unknown', what: `the data of map ${e.set}` })
      return null
    }
    return {
      unknown: `${e.to === 'verdict' ? 'vmap' : 'match'} ${describe(state.registers.get(e.from))} @${e.set}`,
    }
  }
  const { elements } = set
  if (typeof e.to === 'number') {
    const to = set.shape.anonymous
      ? { entries: elements.map(({ key, data }) => [key, data ?? []] as const) }
      : { map: e.set }
    state.registers.set(e.to, { holds: 'mapped', key, to })
    return null
  }
  if (e.to === 'verdict') {
    if (!set.shape.anonymous) return { vmap: { key, map: e.set } }
    const entries = elements.flatMap(({ key, verdict }) =>
      verdict === null ? [] : [[key, verdict] as const],
    )
    return entries.length < elements.length
      ? { unknown: `vmap ${e.set}` }
      : { anonymousVmap: { key, entries } }
  }
  if (!set.shape.anonymous) return { matchSet: { key, op: e.inverse ? 'not in' : 'in', set: e.set } }
  const [only] = key
  if (key.length !== 1 || only === undefined || !('field' in only)) return { unknown: `match set ${e.set}` }
  const right = elements.map(({ key }) => key[0] ?? '')
  return { match: { left: only.field, op: e.inverse ? '!=' : '==', right } }
}

function updateOf(state: State, e: Extract<NftExpression, { readonly is: 'dynset' }>): NftStatement {
  const set = state.setOf(e.set)
  const key = set === null ? null : keyAt(state.registers, e.from, set.shape.keyBytes)
  const fields = key?.flatMap((part): NftField[] => ('field' in part ? [part.field] : [])) ?? []
  if (key === null || fields.length < key.length || e.op > 1) return { unknown: `set @${e.set}` }
  return {
    updateSet: {
      set: e.set,
      key: fields,
      op: e.op === 0 ? 'add' : 'update',
      timeoutSeconds: e.timeoutMs === null ? null : e.timeoutMs / 1000,
    },
  }
}

function natOf(state: State, e: Extract<NftExpression, { readonly is: 'nat' }>): NftStatement {
  const dnat = e.type === DNAT && e.family === FAMILY_NUMBER[state.family] ? dnatOf(state, e) : null
  const plain = (e.flags & ~(NAT_FLAGS.MAP_IPS | NAT_FLAGS.PROTO_SPECIFIED)) === 0
  return dnat !== null && plain
    ? { dnat }
    : { unknown: `${e.type === DNAT ? 'dnat' : 'snat'} flags ${e.flags}` }
}

function dnatOf(
  { family, registers }: State,
  e: Extract<NftExpression, { readonly is: 'nat' }>,
): NftDnat | null {
  const address = registers.get(e.address)
  if (address?.holds === 'mapped') return { key: address.key, ...address.to }
  if (address?.holds !== 'data') return null
  const type = typeOfField('daddr', family)
  if (e.port === null) return { to: [textOf(type, address.data)] }
  const port = registers.get(e.port)
  if (port?.holds !== 'data') return null
  return { to: [textOf(type, address.data), textOf('inet_service', port.data)] }
}
