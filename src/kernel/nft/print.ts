import { printKey, printRule, printValue, printVerdict, quoted } from './print-rule.ts'
import type { NftOperation } from './port.ts'
import type {
  NftBaseChain,
  NftChain,
  NftElement,
  NftFamily,
  NftSet,
  NftTable,
  NftTableContents,
  NftType,
} from './ruleset.ts'

/**
 * A table in nft syntax, loadable by `nft -f` (1.0.6 and later). Deterministic: sets, non-base chains and elements are
 * sorted, base chains stand in the packet's order. The ownership of a table is not printed: nft would make the table
 * its own and take it away on exit.
 */
export function printTable(contents: NftTableContents): string {
  const { table } = contents
  const lines = [`table ${table.family} ${table.name} {`]
  lines.push(...tableAttributes(table).map((text) => `\t${text}`))
  for (const set of [...contents.sets.values()].sort(byName)) {
    lines.push('', ...setBlock(table.family, set, contents.elements.get(set.name) ?? []))
  }
  for (const chain of [...contents.chains.values()].sort(byPacketPath)) {
    lines.push('', `\tchain ${chain.name} {`, ...chainAttributes(chain).map((text) => `\t\t${text}`))
    for (const rule of contents.rules.get(chain.name) ?? []) {
      lines.push(`\t\t${printRule(table.family, rule)}`)
    }
    lines.push('\t}')
  }
  return `${[...lines, '}'].join('\n')}\n`
}

/** A transaction as a script for `nft -f`, one command a line, in the order given. */
export function printOperations(
  family: NftFamily,
  table: string,
  operations: readonly NftOperation[],
): string {
  return operations.map((operation) => `${printOperation(family, table, operation)}\n`).join('')
}

/** One step of a transaction as a command of nft; also how errors and logs name the step. */
export function printOperation(family: NftFamily, table: string, operation: NftOperation): string {
  const place = `${family} ${table}`
  switch (operation.op) {
    case 'add table':
      return `add table ${place}${braced(tableAttributes(operation.table))}`
    case 'delete table':
      return `delete table ${place}`
    case 'add chain':
      return `add chain ${place} ${operation.chain.name}${braced(chainAttributes(operation.chain))}`
    case 'flush chain':
    case 'delete chain':
      return `${operation.op} ${place} ${operation.chain}`
    case 'add rule':
      return `add rule ${place} ${operation.rule.chain} ${printRule(family, operation.rule)}`
    case 'add set': {
      const { set } = operation
      return `add ${kindOf(set)} ${place} ${set.name}${braced(setAttributes(family, set))}`
    }
    case 'flush set':
    case 'delete set':
      return `${operation.op} ${place} ${operation.set}`
    case 'add element':
      return `add element ${place} ${operation.element.set} { ${printElement(operation.element)} }`
    case 'delete element':
      return `delete element ${place} ${operation.element.set} { ${printValue(operation.element.key)} }`
  }
}

/** An element as it stands between the braces of its set: `key [timeout …] [comment "…"] [: data]`. */
export function printElement(element: NftElement): string {
  const { key, data, verdict, timeoutMs, comment } = element
  const parts = [printValue(key)]
  if (timeoutMs !== null) parts.push(`timeout ${printMilliseconds(timeoutMs)}`)
  if (comment !== null) parts.push(`comment ${quoted(comment)}`)
  if (data !== null) parts.push(`: ${printValue(data)}`)
  if (verdict !== null) parts.push(`: ${printVerdict(verdict)}`)
  return parts.join(' ')
}

function tableAttributes(table: NftTable): string[] {
  return [
    ...(table.dormant ? ['flags dormant;'] : []),
    ...(table.comment === null ? [] : [`comment ${quoted(table.comment)};`]),
  ]
}

function chainAttributes({ base, comment }: NftChain): string[] {
  const attributes = comment === null ? [] : [`comment ${quoted(comment)};`]
  if (base === null) return attributes
  const { type, hook, priority, policy } = base
  return [...attributes, `type ${type} hook ${hook} priority ${priority}; policy ${policy};`]
}

function setBlock(family: NftFamily, set: NftSet, elements: readonly NftElement[]): string[] {
  const lines = [`\t${kindOf(set)} ${set.name} {`]
  lines.push(...setAttributes(family, set).map((text) => `\t\t${text}`))
  const sorted = elements.toSorted((a, b) => compareValues(a.key, b.key)).map(printElement)
  if (sorted.length > 0) lines.push('\t\telements = {', `\t\t\t${sorted.join(',\n\t\t\t')}`, '\t\t}')
  return [...lines, '\t}']
}

function setAttributes(family: NftFamily, set: NftSet): string[] {
  const flags = [
    ...(set.interval ? ['interval'] : []),
    ...(set.dynamic ? ['dynamic'] : []),
    ...(set.timeout ? ['timeout'] : []),
  ]
  return [
    `${typesOf(family, set)};`,
    ...(set.size === null ? [] : [`size ${set.size};`]),
    ...(flags.length === 0 ? [] : [`flags ${flags.join(',')};`]),
    ...(set.timeoutSeconds === null ? [] : [`timeout ${printMilliseconds(set.timeoutSeconds * 1000)};`]),
    ...(set.comment === null ? [] : [`comment ${quoted(set.comment)};`]),
  ]
}

/**
 * `type …`, or `typeof …` where a number that the kernel computes is part of the key: nft refuses `numgen` for a key of
 * type mark or integer, although the kernel takes it.
 */
function typesOf(family: NftFamily, set: NftSet): string {
  const computed = set.key.some((type) => type === 'mark' || type === 'integer') && set.key.length > 1
  const name = computed ? (type: NftType) => EXAMPLE_OF[type](family) : (type: NftType) => type
  const key = `${computed ? 'typeof' : 'type'} ${set.key.map(name).join(' . ')}`
  if (set.data === null) return key
  return `${key} : ${set.data === 'verdict' ? 'verdict' : set.data.map(name).join(' . ')}`
}

const EXAMPLE_OF: Readonly<Record<NftType, (family: NftFamily) => string>> = {
  ipv4_addr: () => 'ip daddr',
  ipv6_addr: () => 'ip6 daddr',
  inet_proto: () => 'meta l4proto',
  inet_service: () => 'th dport',
  mark: (family) => printKey(family, [{ random: { mod: 2 } }]),
  integer: (family) => printKey(family, [{ random: { mod: 2 } }]),
  ifname: () => 'iifname',
}

const kindOf = (set: NftSet): 'set' | 'map' => (set.data === null ? 'set' : 'map')

const braced = (attributes: readonly string[]): string =>
  attributes.length === 0 ? '' : ` { ${attributes.join(' ')} }`

/** `1d2h3m4s5ms` without the zero parts, as nft prints times. */
export function printMilliseconds(total: number): string {
  const units = [
    ['d', 86_400_000],
    ['h', 3_600_000],
    ['m', 60_000],
    ['s', 1000],
    ['ms', 1],
  ] as const
  let rest = Math.max(0, Math.round(total))
  let text = ''
  for (const [unit, size] of units) {
    if (rest >= size) text += `${Math.floor(rest / size)}${unit}`
    rest %= size
  }
  return text === '' ? '0s' : text
}

const byName = (a: { readonly name: string }, b: { readonly name: string }): number =>
  compareText(a.name, b.name)

/** Base chains by hook and priority, then the others by name. */
function byPacketPath(a: NftChain, b: NftChain): number {
  return stageOf(a.base) - stageOf(b.base) || byName(a, b)
}

const HOOKS = ['prerouting', 'input', 'forward', 'output', 'postrouting'] as const

function stageOf(base: NftBaseChain | null): number {
  return base === null ? Number.MAX_SAFE_INTEGER : HOOKS.indexOf(base.hook) * 2 ** 33 + base.priority
}

function compareValues(a: readonly string[], b: readonly string[]): number {
  for (const [i, part] of a.entries()) {
    const order = compareText(part, b[i] ?? '')
    if (order !== 0) return order
  }
  return a.length - b.length
}

/** Runs of digits compare as numbers, all else by code unit: `cluster-2` before `cluster-10`, `10.0.0.2` before `10.0.0.10`. */
export function compareText(a: string, b: string): number {
  if (a === b) return 0
  let i = 0
  let j = 0
  while (i < a.length && j < b.length) {
    const [left, right] = [digitsAt(a, i), digitsAt(b, j)]
    if (left > i && right > j) {
      const order = Number(a.slice(i, left)) - Number(b.slice(j, right))
      if (order !== 0) return order
      i = left
      j = right
    } else {
      const order = a.charCodeAt(i++) - b.charCodeAt(j++)
      if (order !== 0) return order
    }
  }
  return a.length - i - (b.length - j) || (a < b ? -1 : 1)
}

function digitsAt(text: string, from: number): number {
  let end = from
  while (end < text.length && text.charCodeAt(end) >= 48 && text.charCodeAt(end) <= 57) end++
  return end
}
