import type {
  NftDnat,
  NftFamily,
  NftField,
  NftKey,
  NftKeyPart,
  NftRule,
  NftStatement,
  NftValue,
  NftVerdict,
} from './ruleset.ts'

/** A rule's statements and comment, without its chain. A rule with an unknown statement becomes a comment line. */
export function printRule(family: NftFamily, rule: NftRule): string {
  const parts = rule.statements.map((statement) => printStatement(family, statement))
  if (rule.comment !== null) parts.push(`comment ${quoted(rule.comment)}`)
  const text = parts.join(' ')
  return rule.statements.some((statement) => 'unknown' in statement) ? `# not understood: ${text}` : text
}

/** One statement in nft syntax. */
export function printStatement(family: NftFamily, statement: NftStatement): string {
  if ('match' in statement) return printMatch(family, statement.match)
  if ('matchMark' in statement) {
    const { mask, op, value } = statement.matchMark
    return `meta mark & ${mark(mask)} ${op} ${mark(value)}`
  }
  if ('matchSet' in statement) {
    const { key, op, set } = statement.matchSet
    return `${printKey(family, key)} ${op === 'in' ? '' : '!= '}@${set}`
  }
  if ('vmap' in statement) return `${printKey(family, statement.vmap.key)} vmap @${statement.vmap.map}`
  if ('anonymousVmap' in statement) {
    const { key, entries } = statement.anonymousVmap
    const body = entries.map(([value, verdict]) => `${printValue(value)} : ${printVerdict(verdict)}`)
    return `${printKey(family, key)} vmap { ${body.join(', ')} }`
  }
  if ('verdict' in statement) return printVerdict(statement)
  if ('reject' in statement) return printReject(family, statement.reject)
  if ('setMark' in statement) return printSetMark(statement.setMark)
  if ('dnat' in statement) return printDnat(family, statement.dnat)
  if ('masquerade' in statement) {
    return statement.masquerade.fullyRandom ? 'masquerade fully-random' : 'masquerade'
  }
  if ('updateSet' in statement) {
    const { set, key, op, timeoutSeconds } = statement.updateSet
    const fields = key.map((field) => printField(family, field)).join(' . ')
    return `${op} @${set} { ${fields}${timeoutSeconds === null ? '' : ` timeout ${timeoutSeconds}s`} }`
  }
  if ('counter' in statement) {
    return `counter packets ${statement.counter.packets} bytes ${statement.counter.bytes}`
  }
  return statement.unknown
}

export function printVerdict(verdict: NftVerdict): string {
  return 'chain' in verdict ? `${verdict.verdict} ${verdict.chain}` : verdict.verdict
}

/** Parts joined as in a concatenation. */
export function printValue(value: NftValue): string {
  return value.join(' . ')
}

/** A lookup key. */
export function printKey(family: NftFamily, key: NftKey): string {
  return key.map((part) => printKeyPart(family, part)).join(' . ')
}

/** A string for nft, which has no escape for the quote: it becomes an apostrophe. */
export function quoted(text: string): string {
  return `"${text.replaceAll('"', "'")}"`
}

function printKeyPart(family: NftFamily, part: NftKeyPart): string {
  if ('field' in part) return printField(family, part.field)
  if ('random' in part) return `numgen random mod ${part.random.mod}`
  const { of, mod, seed } = part.hash
  const fields = of.map((field) => printField(family, field)).join(' . ')
  return `jhash ${fields} mod ${mod}${seed === null ? '' : ` seed 0x${seed.toString(16)}`}`
}

function printField(family: NftFamily, field: NftField): string {
  switch (field) {
    case 'saddr':
    case 'daddr':
      return `${family === 'ip6' ? 'ip6' : 'ip'} ${field}`
    case 'sport':
    case 'dport':
      return `th ${field}`
    case 'l4proto':
    case 'mark':
      return `meta ${field}`
    default:
      return field
  }
}

type Match = Extract<NftStatement, { readonly match: unknown }>['match']

function printMatch(family: NftFamily, { left, op, right }: Match): string {
  const isName = left === 'iifname' || left === 'oifname'
  const values = isName ? right.map(quoted) : right
  const isBits = left === 'ct state' || left === 'ct status'
  const [only] = values
  const list = values.length === 1 && only !== undefined ? only : `{ ${values.join(', ')} }`
  // `!` says that none of the bits is set; `!=` would compare the whole state with them.
  const not = op === '==' ? '' : isBits ? '! ' : '!= '
  return `${printField(family, left)} ${not}${isBits ? values.join(',') : list}`
}

function printReject(family: NftFamily, how: 'port-unreachable' | 'tcp reset'): string {
  if (how === 'tcp reset') return 'reject with tcp reset'
  return `reject with ${family === 'ip6' ? 'icmpv6' : family === 'ip' ? 'icmp' : 'icmpx'} port-unreachable`
}

function printSetMark({ and, xor }: { readonly and: number; readonly xor: number }): string {
  const [keep, flip] = [and >>> 0, xor >>> 0]
  if (keep === 0xffffffff) return `meta mark set meta mark ^ ${mark(flip)}`
  if (flip === 0) return `meta mark set meta mark & ${mark(keep)}`
  if (keep === ~flip >>> 0) return `meta mark set meta mark | ${mark(flip)}`
  return `meta mark set meta mark & ${mark(keep)} ^ ${mark(flip)}`
}

function printDnat(family: NftFamily, dnat: NftDnat): string {
  if ('to' in dnat) {
    const [ip = '', port] = dnat.to
    if (port === undefined) return `dnat to ${ip}`
    return `dnat to ${ip.includes(':') ? `[${ip}]` : ip}:${port}`
  }
  const head = `dnat ${family === 'ip6' ? 'ip6' : 'ip'} to ${printKey(family, dnat.key)} map`
  if ('map' in dnat) return `${head} @${dnat.map}`
  return `${head} { ${dnat.entries.map(([key, data]) => `${printValue(key)} : ${printValue(data)}`).join(', ')} }`
}

const mark = (value: number): string => `0x${(value >>> 0).toString(16).padStart(8, '0')}`
