import type { FieldRead, Json } from './json-values.ts'
import {
  fieldOf,
  isObject,
  keyOf,
  listOf,
  member,
  numberOf,
  partOf,
  textOf,
  UnknownShape,
  valueOf,
  verdictOf,
  protocolName,
} from './json-values.ts'
import type { NftDnat, NftFamily, NftStatement, NftValue, NftVerdict } from './ruleset.ts'

/** The statements of one expression of a rule (`tcp dport 80` gives two); what is not modelled becomes `unknown`. */
export function statementsOf(expression: Json, family: NftFamily): readonly NftStatement[] {
  try {
    return readStatement(expression, family)
  } catch (error) {
    if (!(error instanceof UnknownShape)) throw error
    return [{ unknown: describeUnknown(expression) }]
  }
}

/** Begins with the statement's name, as the tracer expects of a `reject` it does not know. */
function describeUnknown(expression: Json): string {
  const name = isObject(expression) ? (Object.keys(expression)[0] ?? '') : ''
  return `${name} ${JSON.stringify(isObject(expression) ? expression[name] : expression)}`.trim()
}

function readStatement(expression: Json, family: NftFamily): readonly NftStatement[] {
  const verdict = verdictOf(expression)
  if (verdict !== null) return [verdict]
  if (!isObject(expression)) throw new UnknownShape(JSON.stringify(expression))
  const [[name, value] = ['', null]] = Object.entries(expression)
  switch (name) {
    case 'match':
      return readMatch(value, family)
    case 'vmap':
      return [readVmap(value)]
    case 'dnat':
      return [{ dnat: readDnat(value) }]
    case 'masquerade':
      return [{ masquerade: { fullyRandom: listOf(member(value, 'flags')).includes('fully-random') } }]
    case 'reject':
      return [readReject(value)]
    case 'mangle':
      return [readMangle(value)]
    case 'set':
      return [readSetUpdate(value)]
    case 'counter':
      return [{ counter: { packets: numberOrZero(value, 'packets'), bytes: numberOrZero(value, 'bytes') } }]
    default:
      throw new UnknownShape(name)
  }
}

function numberOrZero(value: Json | undefined, key: string): number {
  const number = member(value, key)
  return typeof number === 'number' ? number : 0
}

function readMatch(value: Json | undefined, family: NftFamily): readonly NftStatement[] {
  const left = member(value, 'left') ?? null
  const right = member(value, 'right') ?? null
  const op = operatorOf(member(value, 'op'))
  const masked = member(left, '&')
  if (masked !== undefined) return [readMaskedMark(listOf(masked), op, right)]
  if (typeof right === 'string' && right.startsWith('@')) {
    return [
      ...impliedByKey(left, family),
      { matchSet: { key: keyOf(left), op: op === '==' ? 'in' : 'not in', set: right.slice(1) } },
    ]
  }
  const read = fieldOf(left)
  const prefix = member(right, 'prefix')
  if (prefix !== undefined && read.field === 'mark') return [readMarkPrefix(prefix, op)]
  const set = member(right, 'set')
  const patterns = set === undefined ? listOf(right).map(partOf) : listOf(set).map(elementPart)
  const named = read.field === 'l4proto' ? patterns.map(protocolName) : patterns
  return [...implied(read, family), { match: { left: read.field, op, right: named } }]
}

/** An anonymous set's element may carry a comment or a counter. */
function elementPart(element: Json): string {
  const inner = member(element, 'elem')
  return partOf(inner === undefined ? element : (member(inner, 'val') ?? null))
}

function operatorOf(op: Json | undefined): '==' | '!=' {
  if (op === '==' || op === '!=') return op
  if (op === 'in') return '=='
  // None of the bits (of a connection's state) is set.
  if (op === '!') return '!='
  throw new UnknownShape(`operator ${JSON.stringify(op)}`)
}

/** What a field takes for granted and the table's family does not already say. */
function implied({ implied }: FieldRead, family: NftFamily): readonly NftStatement[] {
  return implied
    .filter(({ left }) => left === 'l4proto' || family === 'inet')
    .map(({ left, right }) => ({ match: { left, op: '==', right: [right] } }))
}

function impliedByKey(expression: Json, family: NftFamily): readonly NftStatement[] {
  const concat = member(expression, 'concat')
  const fields = (concat === undefined ? [expression] : listOf(concat)).filter(
    (part) => member(part, 'numgen') === undefined && member(part, 'jhash') === undefined,
  )
  return fields.flatMap((part) => implied(fieldOf(part), family))
}

function readMaskedMark(operands: readonly Json[], op: '==' | '!=', right: Json): NftStatement {
  const [field, mask] = operands
  if (field === undefined || fieldOf(field).field !== 'mark') throw new UnknownShape(JSON.stringify(field))
  return { matchMark: { mask: numberOf(mask), op, value: numberOf(right) } }
}

/** nft lists a test of a mark's highest bits as a prefix: `meta mark & 0x80000000 != 0` comes back as `!= 0/1`. */
function readMarkPrefix(prefix: Json, op: '==' | '!='): NftStatement {
  const mask = (0xffffffff << (32 - numberOf(member(prefix, 'len') ?? null))) >>> 0
  return { matchMark: { mask, op, value: numberOf(member(prefix, 'addr') ?? null) } }
}

function readVmap(value: Json | undefined): NftStatement {
  const key = keyOf(member(value, 'key') ?? null)
  const data = member(value, 'data')
  if (typeof data === 'string' && data.startsWith('@')) return { vmap: { key, map: data.slice(1) } }
  return { anonymousVmap: { key, entries: entriesOf(data, requireVerdict) } }
}

function requireVerdict(value: Json): NftVerdict {
  const verdict = verdictOf(value)
  if (verdict === null) throw new UnknownShape(JSON.stringify(value))
  return verdict
}

function entriesOf<T>(data: Json | undefined, read: (value: Json) => T): readonly (readonly [NftValue, T])[] {
  const set = member(data, 'set')
  if (set === undefined) throw new UnknownShape(JSON.stringify(data))
  return listOf(set).map((entry) => {
    const [key, value] = listOf(entry)
    const inner = member(key, 'elem')
    const plain = inner === undefined ? (key ?? null) : (member(inner, 'val') ?? null)
    return [valueOf(plain), read(value ?? null)] as const
  })
}

function readDnat(value: Json | undefined): NftDnat {
  const address = member(value, 'addr')
  const port = member(value, 'port')
  if (member(value, 'flags') !== undefined && address === undefined) throw new UnknownShape('dnat')
  const map = member(address, 'map')
  if (map === undefined) {
    if (address === undefined) throw new UnknownShape('dnat')
    const to = valueOf(address)
    return { to: port === undefined ? to : [...to, textOf(port)] }
  }
  const key = keyOf(member(map, 'key') ?? null)
  const data = member(map, 'data')
  if (typeof data === 'string' && data.startsWith('@')) return { key, map: data.slice(1) }
  const entries = entriesOf(data, valueOf)
  const extra = port === undefined ? [] : [textOf(port)]
  return { key, entries: entries.map(([at, to]) => [at, [...to, ...extra]] as const) }
}

function readReject(value: Json | undefined): NftStatement {
  const type = member(value, 'type')
  if (type === 'tcp reset') return { reject: 'tcp reset' }
  const code = member(value, 'expr')
  if (value === null || type === undefined || code === 'port-unreachable')
    return { reject: 'port-unreachable' }
  throw new UnknownShape('reject')
}

/** `meta mark set …`: a number, or the mark combined with a number by `|`, `&`, `^`, or nested combinations of them. */
function readMangle(value: Json | undefined): NftStatement {
  if (fieldOf(member(value, 'key') ?? null).field !== 'mark') throw new UnknownShape('mangle')
  return { setMark: markExpression(member(value, 'value') ?? null) }
}

/** Any chain of bit operations is mark → (mark & and) ^ xor. */
function markExpression(value: Json): { readonly and: number; readonly xor: number } {
  if (typeof value === 'number' || typeof value === 'string') return { and: 0, xor: numberOf(value) }
  for (const operator of ['|', '&', '^'] as const) {
    const operands = member(value, operator)
    if (operands === undefined) continue
    const [inner = null, ...rest] = listOf(operands)
    const base = member(inner, 'meta') === undefined ? markExpression(inner) : { and: 0xffffffff, xor: 0 }
    if (member(inner, 'meta') !== undefined && fieldOf(inner).field !== 'mark') break
    return rest.map(numberOf).reduce((at, bits) => combine(at, operator, bits), base)
  }
  throw new UnknownShape(JSON.stringify(value))
}

function combine(
  { and, xor }: { readonly and: number; readonly xor: number },
  operator: '|' | '&' | '^',
  bits: number,
): { readonly and: number; readonly xor: number } {
  if (operator === '^') return { and, xor: (xor ^ bits) >>> 0 }
  if (operator === '&') return { and: (and & bits) >>> 0, xor: (xor & bits) >>> 0 }
  return { and: (and & ~bits) >>> 0, xor: ((xor & ~bits) | bits) >>> 0 }
}

function readSetUpdate(value: Json | undefined): NftStatement {
  const op = member(value, 'op')
  if (op !== 'add' && op !== 'update') throw new UnknownShape('set')
  const element = member(value, 'elem') ?? null
  const inner = member(element, 'elem')
  const timeout = member(inner, 'timeout')
  const key = keyOf(inner === undefined ? element : (member(inner, 'val') ?? null)).map((part) => {
    if ('field' in part) return part.field
    throw new UnknownShape('set')
  })
  return {
    updateSet: {
      set: textOf(member(value, 'set')).replace(/^@/, ''),
      key,
      op,
      timeoutSeconds: timeout === undefined ? null : numberOf(timeout),
    },
  }
}
