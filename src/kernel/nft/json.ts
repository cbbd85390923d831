import { ProxyError } from '../../shared/errors.ts'
import { statementsOf } from './json-rules.ts'
import type { Json } from './json-values.ts'
import { isObject, listOf, member, UnknownShape, valueOf, verdictOf, protocolName } from './json-values.ts'
import type {
  NftBaseChain,
  NftChain,
  NftElement,
  NftFamily,
  NftRule,
  NftSet,
  NftTable,
  NftTableContents,
  NftType,
  NftValue,
} from './ruleset.ts'

interface Draft {
  readonly table: NftTable
  readonly chains: Map<string, NftChain>
  readonly rules: Map<string, NftRule[]>
  readonly sets: Map<string, NftSet>
  readonly elements: Map<string, NftElement[]>
}

/**
 * Reads what `nft -j list ruleset` prints (libnftables-json(5)): the tables of the families ip, ip6 and inet, in the
 * order of the listing. Statements that the rule model has no words for become `unknown`.
 *
 * @throws ProxyError NFT_JSON when the text is not such a listing.
 */
export function readNftJson(text: string): readonly NftTableContents[] {
  const drafts = new Map<string, Draft>()
  for (const entry of entriesOf(text)) {
    if (!isObject(entry)) continue
    const [[kind, value] = ['', null]] = Object.entries(entry)
    if (isObject(value)) readEntry(drafts, kind, value)
  }
  return [...drafts.values()]
}

function entriesOf(text: string): readonly Json[] {
  let document: Json
  try {
    document = JSON.parse(text) as Json
  } catch (cause) {
    throw new ProxyError(
      'NFT_JSON',
      'The rule set cannot be read: it is not JSON. Expected is the output of `nft -j list ruleset`.',
      { cause },
    )
  }
  const entries = member(document, 'nftables')
  if (!Array.isArray(entries)) {
    throw new ProxyError(
      'NFT_JSON',
      'The rule set cannot be read: there is no "nftables" list in it. Expected is the output of `nft -j list ruleset`.',
    )
  }
  return entries as readonly Json[]
}

function readEntry(drafts: Map<string, Draft>, kind: string, value: { readonly [key: string]: Json }): void {
  const family = value['family']
  if (family !== 'ip' && family !== 'ip6' && family !== 'inet') return
  if (kind === 'table') {
    const table = readTable(family, value)
    drafts.set(`${family} ${table.name}`, {
      table,
      chains: new Map(),
      rules: new Map(),
      sets: new Map(),
      elements: new Map(),
    })
    return
  }
  const draft = drafts.get(`${family} ${textOrEmpty(value['table'])}`)
  if (draft === undefined) return
  if (kind === 'chain') {
    const chain = readChain(value)
    if (chain !== null) draft.chains.set(chain.name, chain)
  } else if (kind === 'rule') {
    const rule = readRule(family, value)
    draft.rules.set(rule.chain, [...(draft.rules.get(rule.chain) ?? []), rule])
  } else if (kind === 'set' || kind === 'map') {
    const set = readSet(value)
    draft.sets.set(set.name, set)
    draft.elements.set(
      set.name,
      listOf(value['elem']).map((element) => readElement(set, element)),
    )
  }
}

function textOrEmpty(value: Json | undefined): string {
  return typeof value === 'string' ? value : ''
}

function commentOf(value: Json): string | null {
  const comment = member(value, 'comment')
  return typeof comment === 'string' ? comment : null
}

function readTable(family: NftFamily, value: Json): NftTable {
  const flags = listOf(member(value, 'flags'))
  return {
    family,
    name: textOrEmpty(member(value, 'name')),
    comment: commentOf(value),
    dormant: flags.includes('dormant'),
    owned: flags.includes('owner'),
  }
}

const HOOKS: readonly Json[] = ['prerouting', 'input', 'forward', 'output', 'postrouting']

/** null for a base chain of a hook that no routed packet passes (ingress, egress). */
function readChain(value: Json): NftChain | null {
  const name = textOrEmpty(member(value, 'name'))
  const comment = commentOf(value)
  const hook = member(value, 'hook')
  if (hook === undefined) return { name, comment, base: null }
  if (!HOOKS.includes(hook)) return null
  return {
    name,
    comment,
    base: {
      type: member(value, 'type') === 'nat' ? 'nat' : 'filter',
      hook: hook as NftBaseChain['hook'],
      priority: numberOrZero(member(value, 'prio')),
      policy: member(value, 'policy') === 'drop' ? 'drop' : 'accept',
    },
  }
}

function numberOrZero(value: Json | undefined): number {
  return typeof value === 'number' ? value : 0
}

function readRule(family: NftFamily, value: Json): NftRule {
  return {
    chain: textOrEmpty(member(value, 'chain')),
    statements: listOf(member(value, 'expr')).flatMap((expression) => statementsOf(expression, family)),
    comment: commentOf(value),
  }
}

const TYPES: readonly Json[] = [
  'ipv4_addr',
  'ipv6_addr',
  'inet_proto',
  'inet_service',
  'mark',
  'ifname',
  'integer',
]

/** Types that nothing here computes with compare as plain text. */
function typesOf(value: Json | undefined): readonly NftType[] {
  return listOf(value).map((type) => (TYPES.includes(type) ? (type as NftType) : 'integer'))
}

function readSet(value: Json): NftSet {
  const flags = listOf(member(value, 'flags'))
  const data = member(value, 'map')
  const timeout = member(value, 'timeout')
  const size = member(value, 'size')
  return {
    name: textOrEmpty(member(value, 'name')),
    comment: commentOf(value),
    key: typesOf(member(value, 'type')),
    data: data === undefined ? null : data === 'verdict' ? 'verdict' : typesOf(data),
    interval: flags.includes('interval'),
    // nft 1.0.6 leaves `dynamic` out of its JSON: a set with a size and a time-out is one that rules add to.
    dynamic: flags.includes('dynamic') || (flags.includes('timeout') && size !== undefined),
    timeout: flags.includes('timeout'),
    timeoutSeconds: typeof timeout === 'number' ? timeout : null,
    size: typeof size === 'number' ? size : null,
  }
}

/** Sets list keys; maps list `[key, data]` pairs; a key with extras is wrapped in `elem`. */
function readElement(set: NftSet, element: Json): NftElement {
  const [wrapped, data] = set.data === null ? [element] : listOf(element)
  const inner = member(wrapped, 'elem')
  const key = inner === undefined ? (wrapped ?? null) : (member(inner, 'val') ?? null)
  const life = member(inner, 'expires') ?? member(inner, 'timeout')
  return {
    set: set.name,
    key: plainValue(key).map((part, i) => (set.key[i] === 'inet_proto' ? protocolName(part) : part)),
    data: set.data !== null && set.data !== 'verdict' && data !== undefined ? plainValue(data) : null,
    verdict: set.data === 'verdict' && data !== undefined ? verdictOf(data) : null,
    timeoutMs: typeof life === 'number' ? life * 1000 : null,
    comment: inner === undefined ? null : commentOf(inner),
  }
}

/** Values of types that nothing here computes with are kept as their JSON text, which no packet's key equals. */
function plainValue(value: Json): NftValue {
  try {
    return valueOf(value)
  } catch (error) {
    if (error instanceof UnknownShape) return [JSON.stringify(value)]
    throw error
  }
}
