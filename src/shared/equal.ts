/**
 * True if two plain values (JSON-like: primitives, arrays, records) have the same content. Fields named in `except`
 * are left out, at the top level only. Shared parts cost nothing.
 */
export function sameContent(a: unknown, b: unknown, except: readonly string[] = []): boolean {
  if (Object.is(a, b)) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (Array.isArray(a)) return Array.isArray(b) && sameItems(a, b)
  if (Array.isArray(b)) return false
  const [left, right] = [a as Readonly<Record<string, unknown>>, b as Readonly<Record<string, unknown>>]
  let count = 0
  for (const key in left) {
    count++
    if (except.includes(key)) continue
    if (!Object.hasOwn(right, key) || !sameContent(left[key], right[key])) return false
  }
  for (const _ in right) count--
  return count === 0
}

function sameItems(a: readonly unknown[], b: readonly unknown[]): boolean {
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) if (!sameContent(a[i], b[i])) return false
  return true
}

/** `before` if `after` has the same content, else `after`: so that what did not change keeps its identity. */
export function keepIfSame<T>(before: T | undefined, after: T): T {
  return before !== undefined && sameContent(before, after) ? before : after
}
