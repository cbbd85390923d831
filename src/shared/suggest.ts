/** The known word nearest to a misspelt one, or null if none is near (at most a third of its letters differ). */
export function nearest(word: string, known: Iterable<string>): string | null {
  let best: string | null = null
  let bestDistance = Math.max(1, Math.floor(word.length / 3)) + 1
  for (const candidate of known) {
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase())
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance]
  }
  return best
}

/** ` (did you mean "X"?)`, or nothing. */
export function didYouMean(word: string, known: Iterable<string>): string {
  const near = nearest(word, known)
  return near === null ? '' : ` (did you mean "${near}"?)`
}

/** Levenshtein distance: insertions, deletions and substitutions of one letter. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const substituted = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(substituted, row[j]! + 1, next[j - 1]! + 1))
    }
    row = next
  }
  return row[b.length]!
}
