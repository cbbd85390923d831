import { execFileSync } from 'node:child_process'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { printTable } from './print.ts'
import { readNftJson } from './json.ts'
import { sampleTable } from './sample-table.ts'

const NAMESPACE = `sb-print-${process.pid}`
const nft = (args: readonly string[], input = ''): string =>
  execFileSync('ip', ['netns', 'exec', NAMESPACE, 'nft', ...args], { encoding: 'utf8', input })

beforeAll(() => execFileSync('ip', ['netns', 'add', NAMESPACE]))
afterAll(() => execFileSync('ip', ['netns', 'delete', NAMESPACE]))

test.each(['ip', 'ip6'] as const)('nft loads what the printer writes for %s', (family) => {
  nft(['-c', '-f', '-'], printTable(sampleTable(family)))
})

test.each(['ip', 'ip6'] as const)('the kernel holds what was printed for %s', (family) => {
  const sample = sampleTable(family)
  nft(['-f', '-'], printTable(sample))
  const [read] = readNftJson(nft(['-j', 'list', 'table', family, 'sample']))
  nft(['delete', 'table', family, 'sample'])
  expect([...read!.chains.keys()].sort()).toEqual([...sample.chains.keys()].sort())
  expect([...read!.sets.keys()].sort()).toEqual([...sample.sets.keys()].sort())
  for (const [chain, rules] of sample.rules) expect(read!.rules.get(chain)).toHaveLength(rules.length)
  for (const [set, elements] of sample.elements) {
    expect(
      read!.elements
        .get(set)
        ?.map(({ key }) => key.join())
        .sort(),
    ).toEqual(elements.map(({ key }) => key.join()).sort())
  }
})
