import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { PortShape } from '../../../test/support/service-maps.ts'
import { anyShapes, nodeView, serviceMap, servicePort } from '../../../test/support/service-maps.ts'
import type { NftOperation } from '../../kernel/nft/port.ts'
import { printOperations } from '../../kernel/nft/print.ts'
import type { NodeView } from '../../services/service-map.ts'
import { createTable } from './change.ts'
import { compile } from './compile.ts'
import type { NftablesRules } from './rules.ts'
import { contents, diff, print } from './rules.ts'

const rulesOf = (
  shapes: readonly PortShape[],
  previous: NftablesRules | null = null,
  node: NodeView = nodeView(),
): NftablesRules =>
  compile(
    serviceMap(
      shapes.map((shape) => servicePort('IPv4', shape, node)),
      node,
    ),
    previous,
  )

/** Everything but the room in sets, which may depend on what was installed. */
const withoutRoom = (rules: NftablesRules): string => print(rules).replaceAll(/\tsize \d+;\n/g, '')
const script = (operations: readonly NftOperation[]): string[] =>
  printOperations('ip', 'kube-proxy', operations).trimEnd().split('\n')

const WEB: PortShape = { number: 1, cluster: [0, 1, 2, 3, 4], local: [0] }

describe('compiling', () => {
  test('step by step gives the same as at once', { timeout: 30_000 }, () => {
    fc.assert(
      fc.property(fc.array(anyShapes, { minLength: 1, maxLength: 6 }), (steps) => {
        const nodes = [nodeView(), nodeView('IPv4', { nodePortAddresses: 'any-local', nodePortIps: [] })]
        let rules: NftablesRules | null = null
        for (const [i, shapes] of steps.entries()) {
          const node = nodes[(i >> 1) & 1]!
          rules = rulesOf(shapes, rules, node)
          const fresh = rulesOf(shapes, null, node)
          expect(withoutRoom(rules)).toBe(withoutRoom(fresh))
          expect(users(rules)).toEqual(users(fresh))
          expect(nonZero(rules.counts)).toEqual(nonZero(fresh.counts))
        }
      }),
    )
  })

  test('counts the elements that are there', () => {
    fc.assert(
      fc.property(anyShapes, (shapes) => {
        const rules = rulesOf(shapes)
        const there = [...contents(rules).elements].map(([set, list]) => [set, list.length] as const)
        expect(nonZero(rules.counts)).toEqual(new Map(there.sort()))
      }),
    )
  })

  test('does not depend on the order of Services', () => {
    fc.assert(
      fc.property(anyShapes, (shapes) => {
        expect(print(rulesOf(shapes.toReversed()))).toBe(print(rulesOf(shapes)))
      }),
    )
  })

  test('gives every key of a set one element only', () => {
    fc.assert(
      fc.property(anyShapes, (shapes) => {
        for (const list of contents(rulesOf(shapes)).elements.values()) {
          const keys = list.map(({ key }) => key.join(' '))
          expect(new Set(keys).size).toBe(keys.length)
        }
      }),
    )
  })

  test('refers only to chains and sets that are there, and keeps no class that nobody uses', () => {
    fc.assert(
      fc.property(anyShapes, anyShapes, (before, after) => {
        const table = contents(rulesOf(after, rulesOf(before)))
        const text = print(rulesOf(after, rulesOf(before)))
        const chains = [...text.matchAll(/(?:goto|jump) ([^\s,}]+)/g)].map(([, name]) => name!)
        const sets = [...text.matchAll(/@(\S+)/g)].map(([, name]) => name!)
        expect(chains.filter((name) => !table.chains.has(name))).toEqual([])
        expect(sets.filter((name) => !table.sets.has(name))).toEqual([])
        const used = new Set(chains)
        const idle = [...table.chains.values()].filter(({ name, base }) => base === null && !used.has(name))
        expect(idle.map(({ name }) => name).filter((name) => !ALWAYS_THERE.has(name))).toEqual([])
      }),
    )
  })

  test('names and comments stay within the limits of nft, and those of different ports apart', () => {
    const long: PortShape = { ...WEB, affinitySeconds: 60, nameLength: 300 }
    const table = contents(rulesOf([long, { ...long, number: 2 }]))
    const lengths = [...table.chains.keys(), ...table.sets.keys()].map((name) => name.length)
    expect(Math.max(...lengths)).toBeLessThan(256)
    const comments = [...table.elements.values()].flat().map(({ comment }) => comment ?? '')
    expect(Math.max(...comments.map((text) => Buffer.byteLength(text)))).toBe(128 - 1)
    const own = [...table.sets.keys()].filter((name) => name.startsWith('affinity-'))
    expect(own).toHaveLength(10)
  })
})

/** Fixed chains that only elements of an empty map would lead to. */
const ALWAYS_THERE = new Set(['firewall-sources', 'reject-chain'])
const users = (rules: NftablesRules): Record<string, number> =>
  Object.fromEntries(rules.shared.sorted().map(([key, use]) => [key, use.users]))
const nonZero = (counts: ReadonlyMap<string, number>): Map<string, number> =>
  new Map([...counts].filter(([, count]) => count > 0).sort())

describe('the difference', () => {
  test('of equal rules is nothing, whether known or read', () => {
    fc.assert(
      fc.property(anyShapes, (shapes) => {
        const rules = rulesOf(shapes)
        expect(diff(rules, rulesOf(shapes))).toEqual([])
        expect(diff(contents(rules), rules)).toEqual([])
      }),
    )
  })

  test('is the same from known rules as from a table that was read', () => {
    const sorted = (operations: readonly NftOperation[]): string[] => script(operations).sort()
    fc.assert(
      fc.property(anyShapes, anyShapes, (before, after) => {
        const from = rulesOf(before)
        const to = rulesOf(after, from)
        expect(sorted(diff(from, to))).toEqual(sorted(diff(contents(from), to)))
      }),
    )
  })

  test('of one endpoint for another is one element out and one in', () => {
    const before = rulesOf([WEB])
    const after = rulesOf([{ ...WEB, cluster: [0, 1, 2, 3, 9] }], before)
    expect(script(diff(before, after))).toEqual([
      'delete element ip kube-proxy endpoints { 10.96.0.2 . tcp . 80 . 4 }',
      'add element ip kube-proxy endpoints { 10.96.0.2 . tcp . 80 . 4 : 10.128.0.10 . 8080 }',
    ])
  })

  test('of an endpoint less is a class less and another more', () => {
    const before = rulesOf([WEB])
    const after = rulesOf([{ ...WEB, cluster: [0, 1, 2, 3] }], before)
    expect(script(diff(before, after))).toEqual([
      'delete element ip kube-proxy endpoints { 10.96.0.2 . tcp . 80 . 4 }',
      'delete element ip kube-proxy service-ips { 10.96.0.2 . tcp . 80 }',
      'delete chain ip kube-proxy cluster-5',
      'add chain ip kube-proxy cluster-4',
      'add rule ip kube-proxy cluster-4 ip saddr != 10.128.0.0/9 meta mark set meta mark | 0x00004000',
      'add rule ip kube-proxy cluster-4 dnat ip to ip daddr . meta l4proto . th dport . numgen random mod 4 map @endpoints',
      'add element ip kube-proxy service-ips { 10.96.0.2 . tcp . 80 comment "ns/svc-1:http" : goto cluster-4 }',
    ])
  })

  test('of a changed affinity time-out makes the sets anew, with the rules that use them', () => {
    const before = rulesOf([{ ...WEB, cluster: [0], affinitySeconds: 60 }])
    const after = rulesOf([{ ...WEB, cluster: [0], affinitySeconds: 90 }], before)
    expect(script(diff(before, after)).map((line) => line.replace(/-\w{8}-ns\S*/, ''))).toEqual([
      expect.stringMatching(/^flush chain ip kube-proxy (service|endpoint)/),
      expect.stringMatching(/^flush chain ip kube-proxy (service|endpoint)/),
      expect.stringMatching(/^delete set ip kube-proxy affinity/),
      expect.stringMatching(/^add set ip kube-proxy affinity .* timeout 1m30s;/),
      expect.stringMatching(/^add rule/),
      expect.stringMatching(/^add rule/),
      expect.stringMatching(/^add rule/),
      expect.stringMatching(/^add rule/),
    ])
  })
})

/**
 * What a full write costs: chains, sets, rules and elements by number of Services and endpoints. A change of these is
 * a change of speed at scale.
 */
test.each([
  { services: 1, endpoints: 1, objects: { chains: 17, sets: 13, elements: 4, operations: 59 } },
  { services: 100, endpoints: 5, objects: { chains: 17, sets: 13, elements: 701, operations: 756 } },
  { services: 1000, endpoints: 5, objects: { chains: 17, sets: 13, elements: 7001, operations: 7056 } },
  { services: 10, endpoints: 1000, objects: { chains: 17, sets: 13, elements: 10_021, operations: 10_076 } },
])('$services Services of $endpoints endpoints are so many objects', ({ services, endpoints, objects }) => {
  const shapes = Array.from({ length: services }, (_, number) => ({
    number,
    cluster: Array.from({ length: endpoints }, (_, i) => (number * endpoints + i) % 65_000),
  }))
  const table = contents(rulesOf(shapes))
  const elements = [...table.elements.values()].flat().length
  const { length } = createTable(table)
  expect({ chains: table.chains.size, sets: table.sets.size, elements, operations: length }).toEqual(objects)
})
