import { printTable } from '../../kernel/nft/print.ts'
import type { NftOperation } from '../../kernel/nft/port.ts'
import type {
  NftChain,
  NftElement,
  NftFamily,
  NftRule,
  NftSet,
  NftTableContents,
} from '../../kernel/nft/ruleset.ts'
import type { NodeView, ServicePort } from '../../services/service-map.ts'
import type { ShardedMap } from '../../shared/sharded-map.ts'
import type { ChainBlock } from './affinity.ts'
import type { NftablesBase } from './base.ts'
import { compareTables } from './change.ts'
import type { Fragment, SharedObject } from './fragment.ts'
import { compilePort } from './fragment.ts'

/**
 * What nftables mode installs for one IP family: immutable, and sharing with the rules it was compiled from whatever did
 * not change, so that {@link diff} costs what changed. What a Service port has for itself is not kept (at 10 000 Services
 * it would take 30 MB) but compiled again, in some 10 µs, when its port changes or all of the table is asked for.
 */
export interface NftablesRules {
  readonly family: Extract<NftFamily, 'ip' | 'ip6'>
  readonly node: NodeView
  readonly base: NftablesBase
  /** By ServicePortId. */
  readonly ports: ShardedMap<ServicePort>
  /** What several Service ports may need, by key, with the number of those that do. */
  readonly shared: ShardedMap<SharedUse>
  /** Elements in each set. */
  readonly counts: ReadonlyMap<string, number>
  /** Room in each fixed-size set: see capacity.ts. */
  readonly capacities: ReadonlyMap<string, number>
}

export interface SharedUse {
  readonly object: SharedObject
  readonly users: number
}

/** The whole table as data: for printing, tracing and comparing with the kernel. */
export function contents(rules: NftablesRules): NftTableContents {
  const table = new TableBuilder()
  table.addBase(rules)
  for (const port of rules.ports.values()) table.addFragment(compilePort(port, rules.node))
  for (const { object } of rules.shared.values()) table.addShared(object)
  return table.contents(rules)
}

/** The table in nft syntax, loadable by `nft -f`. */
export function print(rules: NftablesRules): string {
  return printTable(contents(rules))
}

/**
 * The steps that turn one table into the other in a single transaction, in an order that is valid at every step; empty
 * if they are the same. What went by as a whole is not taken apart: a set that goes takes its elements with it. Clients
 * in sets that rules fill, and the table's flags, are left alone.
 */
export function diff(from: NftablesRules | NftTableContents, to: NftablesRules): readonly NftOperation[] {
  if (!('ports' in from)) return compareTables(from, contents(to))
  if (from.capacities !== to.capacities || from.base !== to.base) {
    return compareTables(contents(from), contents(to))
  }
  const before = new TableBuilder()
  const after = new TableBuilder()
  for (const change of to.ports.changesSince(from.ports)) {
    if (change.before !== undefined) before.addFragment(compilePort(change.before, from.node))
    if (change.after !== undefined) after.addFragment(compilePort(change.after, to.node))
  }
  for (const change of to.shared.changesSince(from.shared)) {
    if (change.before?.object === change.after?.object) continue
    if (change.before !== undefined) before.addShared(change.before.object)
    if (change.after !== undefined) after.addShared(change.after.object)
  }
  before.addSetsUsedBy(after, from)
  after.addSetsUsedBy(before, to)
  return compareTables(before.contents(from), after.contents(to))
}

/** Collects parts of a table. */
class TableBuilder {
  readonly #chains = new Map<string, NftChain>()
  readonly #rules = new Map<string, NftRule[]>()
  readonly #sets = new Map<string, NftSet>()
  readonly #elements = new Map<string, NftElement[]>()

  addBase({ base, capacities }: NftablesRules): void {
    for (const chain of base.chains) this.#chains.set(chain.name, chain)
    for (const rule of base.rules) listIn(this.#rules, rule.chain).push(rule)
    for (const set of base.sets) this.#sets.set(set.name, sized(set, capacities))
    for (const element of base.elements) listIn(this.#elements, element.set).push(element)
  }

  addFragment(fragment: Fragment): void {
    for (const block of fragment.chains) this.#addBlock(block)
    for (const set of fragment.sets) this.#sets.set(set.name, set)
    for (const element of fragment.elements) listIn(this.#elements, element.set).push(element)
  }

  addShared(object: SharedObject): void {
    if ('block' in object) this.#addBlock(object.block)
    else listIn(this.#elements, object.element.set).push(object.element)
  }

  /** Declares the base sets that elements of either side lie in, so that both sides have them. */
  addSetsUsedBy(other: TableBuilder, { base, capacities }: NftablesRules): void {
    for (const set of base.sets) {
      if (this.#elements.has(set.name) || other.#elements.has(set.name)) {
        this.#sets.set(set.name, sized(set, capacities))
      }
    }
  }

  contents({ base }: NftablesRules): NftTableContents {
    return {
      table: base.table,
      chains: this.#chains,
      rules: this.#rules,
      sets: this.#sets,
      elements: this.#elements,
    }
  }

  #addBlock({ chain, rules }: ChainBlock): void {
    this.#chains.set(chain.name, chain)
    this.#rules.set(chain.name, [...rules])
  }
}

function sized(set: NftSet, capacities: ReadonlyMap<string, number>): NftSet {
  const size = capacities.get(set.name)
  return size === undefined ? set : { ...set, size }
}

function listIn<T>(lists: Map<string, T[]>, name: string): T[] {
  const known = lists.get(name)
  if (known !== undefined) return known
  const fresh: T[] = []
  lists.set(name, fresh)
  return fresh
}
