/**
 * nf_tables objects as plain data: what the encoder turns into netlink, the printer into `nft` syntax, the JSON
 * reader makes from `nft -j list ruleset`, and the tracer interprets. Only shapes that `nft list ruleset` can print
 * belong here.
 */

export type NftFamily = 'ip' | 'ip6' | 'inet'

/** A packet field or piece of state that can be loaded, matched or made part of a key. */
export type NftField =
  | 'saddr' // ip saddr / ip6 saddr, by the table's family
  | 'daddr'
  | 'sport' // th sport
  | 'dport' // th dport
  | 'l4proto' // meta l4proto
  | 'mark' // meta mark
  | 'iifname'
  | 'oifname'
  | 'ct state'
  | 'ct status'
  | 'fib saddr type' // fib saddr type: local, unicast, …
  | 'fib daddr type'

/** One part of a lookup key: a field, or a number the kernel computes. */
export type NftKeyPart =
  | { readonly field: NftField }
  /** 0 … mod-1, evenly at random for each packet. */
  | { readonly random: { readonly mod: number } }
  /** Hash of fields, modulo. */
  | {
      readonly hash: { readonly of: readonly NftField[]; readonly mod: number; readonly seed: number | null }
    }

export type NftKey = readonly NftKeyPart[]

/**
 * Key or data of an element, one text per part as `nft` prints it: address or prefix or `first-last` range, `tcp`, `80`,
 * `0x00004000` or a decimal mark. Ranges and prefixes only in interval sets.
 */
export type NftValue = readonly string[]

export type NftVerdict =
  | { readonly verdict: 'accept' | 'drop' | 'continue' | 'return' }
  | { readonly verdict: 'jump' | 'goto'; readonly chain: string }

/** Types that keys and data are made of. */
export type NftType =
  'ipv4_addr' | 'ipv6_addr' | 'inet_proto' | 'inet_service' | 'mark' | 'ifname' | 'integer'

export interface NftTable {
  readonly family: NftFamily
  readonly name: string
  readonly comment: string | null
  /** All base chains out of the packet path. */
  readonly dormant: boolean
  /**
   * Only the owner's netlink socket may change the table, where the kernel has it (with `persist`: it outlives the
   * socket). A dormant table has no owner until it is woken, because the kernel changes no flag of one that has.
   */
  readonly owned: boolean
}

export interface NftChain {
  readonly name: string
  readonly comment: string | null
  readonly base: NftBaseChain | null
}

export interface NftBaseChain {
  readonly type: 'filter' | 'nat'
  readonly hook: 'prerouting' | 'input' | 'forward' | 'output' | 'postrouting'
  /** Lower comes first; dstnat = -100, filter = 0, srcnat = 100. */
  readonly priority: number
  readonly policy: 'accept' | 'drop'
}

export interface NftRule {
  readonly chain: string
  readonly statements: readonly NftStatement[]
  /** At most 128 bytes (kernel limit of nft). */
  readonly comment: string | null
}

/** A set (`data` null) or a map. */
export interface NftSet {
  readonly name: string
  readonly comment: string | null
  readonly key: readonly NftType[]
  readonly data: readonly NftType[] | 'verdict' | null
  /** Elements may be prefixes or ranges. */
  readonly interval: boolean
  /** Elements are added by rules (`update @set`). */
  readonly dynamic: boolean
  /** Elements expire; default life in seconds when `timeoutSeconds` is not null. */
  readonly timeout: boolean
  readonly timeoutSeconds: number | null
  /** Fixed capacity (fast hash; adding beyond it is ENFILE); null = grows. */
  readonly size: number | null
}

export interface NftElement {
  readonly set: string
  readonly key: NftValue
  /** For data maps. */
  readonly data: NftValue | null
  /** For verdict maps. */
  readonly verdict: NftVerdict | null
  /** Life in milliseconds from now; null = the set's default or for ever. */
  readonly timeoutMs: number | null
  readonly comment: string | null
}

export type NftStatement =
  /** Field equals (or is one of) the right side; `ct state`/`ct status` test bits (`in`). Prefixes for addresses, `name*` for interfaces. */
  | {
      readonly match: { readonly left: NftField; readonly op: '==' | '!='; readonly right: readonly string[] }
    }
  /** (meta mark & mask) == or != value. */
  | { readonly matchMark: { readonly mask: number; readonly op: '==' | '!='; readonly value: number } }
  | { readonly matchSet: { readonly key: NftKey; readonly op: 'in' | 'not in'; readonly set: string } }
  | { readonly vmap: { readonly key: NftKey; readonly map: string } }
  | {
      readonly anonymousVmap: {
        readonly key: NftKey
        readonly entries: readonly (readonly [NftValue, NftVerdict])[]
      }
    }
  | NftVerdict
  /** icmp(v6) port-unreachable, or a TCP RST. */
  | { readonly reject: 'port-unreachable' | 'tcp reset' }
  /** mark = (mark & and) ^ xor; `or` a bit b with and = ~b, xor = b. */
  | { readonly setMark: { readonly and: number; readonly xor: number } }
  | { readonly dnat: NftDnat }
  | { readonly masquerade: { readonly fullyRandom: boolean } }
  /** Adds or refreshes an element made from packet fields. */
  | {
      readonly updateSet: {
        readonly set: string
        readonly key: readonly NftField[]
        readonly op: 'add' | 'update'
        readonly timeoutSeconds: number | null
      }
    }
  | { readonly counter: { readonly packets: number; readonly bytes: number } }
  /** Anything the reader met and does not model; never written. The tracer says so instead of guessing. */
  | { readonly unknown: string }

/** Where a DNAT goes: one address, a named map keyed by packet fields, or an anonymous map. */
export type NftDnat =
  | { readonly to: NftValue }
  | { readonly key: NftKey; readonly map: string }
  | { readonly key: NftKey; readonly entries: readonly (readonly [NftValue, NftValue])[] }

/** A table with everything in it. Chains and sets by name, rules in order within their chain, elements by set. */
export interface NftTableContents {
  readonly table: NftTable
  readonly chains: ReadonlyMap<string, NftChain>
  readonly rules: ReadonlyMap<string, readonly NftRule[]>
  readonly sets: ReadonlyMap<string, NftSet>
  readonly elements: ReadonlyMap<string, readonly NftElement[]>
}
