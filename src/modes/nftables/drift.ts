import { printElement } from '../../kernel/nft/print.ts'
import type { NftElement, NftSet } from '../../kernel/nft/ruleset.ts'
import type { Drift } from '../mode.ts'
import type { TableDifference } from './change.ts'

/** A difference between the kernel's table and the wanted one, in words. */
export function driftOf(difference: TableDifference, family: string): Drift[] {
  const set = ({ name }: NftSet): string => `${family} set ${name}`
  const chain = (name: string): string => `${family} chain ${name}`
  const element = (item: NftElement): string => `${family} set ${item.set} element ${item.key.join(' . ')}`
  return [
    ...difference.missingSets.map((item) => drift(set(item), 'missing')),
    ...difference.unexpectedSets.map((item) => drift(set(item), 'unexpected')),
    ...difference.differentSets.map((item) => drift(set(item), 'different', 'type, flags, size or comment')),
    ...difference.missingChains.map(({ name }) => drift(chain(name), 'missing')),
    ...difference.unexpectedChains.map(({ name }) => drift(chain(name), 'unexpected')),
    ...difference.rehookedChains.map(({ name }) => drift(chain(name), 'different', 'hook or priority')),
    ...difference.rewrittenChains.map((name) => drift(chain(name), 'different', 'rules')),
    ...difference.missingElements.map((item) => drift(element(item), 'missing', printElement(item))),
    ...difference.unexpectedElements.map((item) => drift(element(item), 'unexpected', printElement(item))),
    ...difference.differentElements.map(({ before, after }) =>
      drift(element(after), 'different', `${printElement(before)} instead of ${printElement(after)}`),
    ),
  ]
}

const drift = (object: string, kind: Drift['kind'], detail = ''): Drift => ({ object, kind, detail })
