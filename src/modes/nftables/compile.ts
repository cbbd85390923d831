import type { NodeView, ServiceMap, ServicePort } from '../../services/service-map.ts'
import { ShardedMap } from '../../shared/sharded-map.ts'
import type { NftablesBase } from './base.ts'
import { compileBase } from './base.ts'
import { capacitiesFor } from './capacity.ts'
import type { SharedObject } from './fragment.ts'
import { countElements, sharedBy } from './fragment.ts'
import type { NftablesRules, SharedUse } from './rules.ts'

/**
 * Turns what Kubernetes wants on this node into a table. `previous` saves work: only Service ports that are other
 * objects than in it are compiled. But for the room in fixed-size sets (capacity.ts) the result is the same without it.
 */
export function compile(map: ServiceMap, previous: NftablesRules | null = null): NftablesRules {
  const known = previous !== null && sameForPorts(previous.node, map.node) ? previous : null
  const base =
    previous !== null && sameForBase(previous.node, map.node) ? previous.base : compileBase(map.node)
  const tally = new Tally(known, base)
  const before = known?.ports ?? ShardedMap.empty<ServicePort>()
  for (const change of map.ports.changesSince(before)) {
    if (change.before !== undefined) tally.release(change.before)
    if (change.after !== undefined) tally.use(change.after, map.node)
  }
  const shared = tally.shared()
  const counts = tally.counts()
  return Object.freeze({
    family: map.family === 'IPv4' ? 'ip' : 'ip6',
    node: map.node,
    base,
    ports: map.ports,
    shared,
    counts,
    capacities: capacitiesFor(counts, previous?.capacities ?? null),
  } satisfies NftablesRules)
}

/** Counts who uses shared objects and how many elements each set has, as changes to the previous rules. */
class Tally {
  readonly #known: NftablesRules | null
  readonly #users = new Map<string, number>()
  readonly #objects = new Map<string, SharedObject>()
  readonly #elements = new Map<string, number>()

  constructor(known: NftablesRules | null, base: NftablesBase) {
    this.#known = known
    // Of the base only the element count matters, and only when it is not in the previous counts already.
    if (known === null || known.base !== base) {
      for (const { set } of known?.base.elements ?? []) this.#count(set, -1)
      for (const { set } of base.elements) this.#count(set, 1)
    }
  }

  use(port: ServicePort, node: NodeView): void {
    this.#add(port, node, 1)
  }

  /** Takes back a port of the previous rules. */
  release(port: ServicePort): void {
    if (this.#known !== null) this.#add(port, this.#known.node, -1)
  }

  /** Comes before {@link counts}, which it adds to. */
  shared(): ShardedMap<SharedUse> {
    return (this.#known?.shared ?? ShardedMap.empty<SharedUse>()).edit((draft) => {
      for (const [key, change] of this.#users) {
        if (change === 0) continue
        const object = this.#objects.get(key)!
        const before = draft.get(key)?.users ?? 0
        const users = before + change
        if (users === 0) draft.delete(key)
        else draft.set(key, { object, users })
        if ('element' in object) this.#count(object.element.set, Number(users > 0) - Number(before > 0))
      }
    })
  }

  counts(): ReadonlyMap<string, number> {
    const counts = new Map(this.#known?.counts)
    for (const [set, change] of this.#elements) counts.set(set, (counts.get(set) ?? 0) + change)
    return counts
  }

  #add(port: ServicePort, node: NodeView, sign: 1 | -1): void {
    countElements(port, node, (set, elements) => this.#count(set, sign * elements))
    for (const { key } of sharedBy(port, node, this.#object)) {
      this.#users.set(key, (this.#users.get(key) ?? 0) + sign)
    }
  }

  readonly #object = (key: string, build: () => SharedObject): SharedObject => {
    const known = this.#objects.get(key)
    if (known !== undefined) return known
    const object = this.#known?.shared.get(key)?.object ?? build()
    this.#objects.set(key, object)
    return object
  }

  #count(set: string, change: number): void {
    this.#elements.set(set, (this.#elements.get(set) ?? 0) + change)
  }
}

/** Whether a Service port compiles to the same on both nodes. */
function sameForPorts(a: NodeView, b: NodeView): boolean {
  return a === b || fingerprint(a, []) === fingerprint(b, [])
}

function sameForBase(a: NodeView, b: NodeView): boolean {
  const inputs = ['nodePortAddresses', 'nodePortIps', 'serviceCidrs'] as const
  return a === b || fingerprint(a, inputs) === fingerprint(b, inputs)
}

function fingerprint(node: NodeView, inputs: readonly (keyof NodeView)[]): string {
  const common = ['family', 'detectLocal', 'masqueradeBit'] as const
  return JSON.stringify([...common, ...inputs].map((name) => node[name]))
}
