import type { NftField, NftKey, NftRule, NftStatement } from '../../kernel/nft/ruleset.ts'
import type { LocalDetector } from '../../services/service-map.ts'

/** `ip daddr . meta l4proto . th dport`: what a client dialled. */
export const FRONTEND_KEY: NftKey = fields('daddr', 'l4proto', 'dport')
/** `meta l4proto . th dport`: the same for node ports, whose address is any of the node's. */
export const NODE_PORT_KEY: NftKey = fields('l4proto', 'dport')

/** A lookup key made of packet fields. */
export function fields(...names: readonly NftField[]): NftKey {
  return names.map((field) => ({ field }))
}

/** A rule without a comment. */
export function rule(chain: string, ...statements: readonly NftStatement[]): NftRule {
  return { chain, statements, comment: null }
}

/** Field is (one of) the values. */
export function is(left: NftField, ...right: readonly string[]): NftStatement {
  return { match: { left, op: '==', right } }
}

/** Field is none of the values. */
export function isNot(left: NftField, ...right: readonly string[]): NftStatement {
  return { match: { left, op: '!=', right } }
}

/** A source address that is the node's own: a process of this node. */
export const FROM_THIS_NODE: NftStatement = is('fib saddr type', 'local')

export const NEW_FLOW: NftStatement = is('ct state', 'new')

export function jump(chain: string): NftStatement {
  return { verdict: 'jump', chain }
}

export function goto(chain: string): NftStatement {
  return { verdict: 'goto', chain }
}

/** Sets the bit that makes the masquerading chain give the flow the node's address. */
export function markForMasquerade(bit: number): NftStatement {
  const mark = masqueradeMark(bit)
  return { setMark: { and: ~mark >>> 0, xor: mark } }
}

/** The mark as an unsigned number. */
export function masqueradeMark(bit: number): number {
  return (1 << bit) >>> 0
}

/** Matches packets of pods of this node; null if there is no way to tell. */
export function fromLocalPod(detect: LocalDetector): NftStatement | null {
  return detection(detect, is)
}

/** Matches packets of anybody but pods of this node; null if there is no way to tell. */
export function notFromLocalPod(detect: LocalDetector): NftStatement | null {
  return detection(detect, isNot)
}

function detection(detect: LocalDetector, match: typeof is): NftStatement | null {
  switch (detect.by) {
    case 'source-cidr':
      return match('saddr', detect.cidr)
    case 'interface':
      return match('iifname', detect.name)
    case 'interface-prefix':
      return match('iifname', `${detect.prefix}*`)
    case 'none':
      return null
  }
}

/** DNAT to one of `count` endpoints at random, found in a map by frontend and index. */
export function dnatFrom(map: string, frontend: NftKey, count: number): NftStatement {
  return { dnat: { key: [...frontend, { random: { mod: count } }], map } }
}
