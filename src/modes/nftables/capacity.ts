import { SET } from './names.ts'

/** Sets of a fixed size: the kernel's fast hash, which refuses elements beyond its size (ENFILE). */
const SIZED: readonly string[] = Object.values(SET).filter(
  (name) => name !== SET.firewallAllow && name !== SET.nodePortIps,
)
const SMALLEST = 1024
/** A set is made anew, twice as large as needed, when fuller than this. */
const FULL = 0.8
/** … and when it holds less than this part of what it could. */
const ALMOST_EMPTY = 1 / 32

/**
 * How many elements each fixed-size set must have room for. A capacity that is installed is kept while it is neither
 * too full nor almost empty, so that a set is seldom rewritten; hence it depends on `previous`, and nothing else in a
 * rule set does.
 */
export function capacitiesFor(
  counts: ReadonlyMap<string, number>,
  previous: ReadonlyMap<string, number> | null,
): ReadonlyMap<string, number> {
  const wanted = SIZED.map((name) => {
    const count = counts.get(name) ?? 0
    const installed = previous?.get(name)
    const keep = installed !== undefined && count <= installed * FULL && !isAlmostEmpty(count, installed)
    return [name, keep ? installed : freshCapacity(count)] as const
  })
  const same = previous !== null && wanted.every(([name, capacity]) => previous.get(name) === capacity)
  return same ? previous : new Map(wanted)
}

function isAlmostEmpty(count: number, capacity: number): boolean {
  return capacity > SMALLEST && count < capacity * ALMOST_EMPTY
}

/** The power of two that is at least twice the count. */
function freshCapacity(count: number): number {
  let capacity = SMALLEST
  while (capacity < 2 * count) capacity *= 2
  return capacity
}
