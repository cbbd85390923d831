import type { Document } from 'yaml'

/** An alias whose anchor does not stand before it. */
export interface LooseAlias {
  /** Place in the text, counted from 0. */
  readonly offset: number
  readonly message: string
}

/**
 * Aliases that lead nowhere. The parser of the `yaml` package leaves them to whoever reads the values, and would throw
 * there without a place; `visit` is that package's, handed in by callers that load it late.
 */
export function looseAliases(
  document: Document.Parsed | Document,
  visit: (typeof import('yaml'))['visit'],
): readonly LooseAlias[] {
  const found: LooseAlias[] = []
  visit(document as Document, {
    Alias(_key, alias) {
      if (alias.resolve(document as Document) !== undefined) return
      found.push({
        offset: alias.range?.[0] ?? 0,
        message: `there is no anchor "&${alias.source}" before this alias`,
      })
    },
  })
  return found
}
