import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import fc from 'fast-check'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { anyShapes, nodeView, serviceMap, servicePort } from '../../../test/support/service-maps.ts'
import type { PortShape } from '../../../test/support/service-maps.ts'
import { openNft } from '../../kernel/nft/linux.ts'
import type { NftPort } from '../../kernel/nft/port.ts'
import type { IpFamily } from '../../net/family.ts'
import { compile } from './compile.ts'
import { nftables } from './index.ts'
import type { NftablesRules } from './rules.ts'
import { print } from './rules.ts'

const NAMESPACE = `sb-nftables-${process.pid}`
const nft = (args: readonly string[], input = ''): string =>
  execFileSync('ip', ['netns', 'exec', NAMESPACE, 'nft', ...args], { encoding: 'utf8', input })
const listing = (): string => nft(['list', 'ruleset'])

let port: NftPort
let kernel: { readonly nft: NftPort }
beforeAll(() => execFileSync('ip', ['netns', 'add', NAMESPACE]))
afterAll(() => execFileSync('ip', ['netns', 'delete', NAMESPACE]))
beforeEach(async () => {
  port = await openNft({ netns: `/run/netns/${NAMESPACE}` })
  kernel = { nft: port }
})
afterEach(async () => {
  await nftables.cleanup(kernel, 'IPv4')
  await nftables.cleanup(kernel, 'IPv6')
  await port[Symbol.asyncDispose]()
})

const rulesOf = (
  shapes: readonly PortShape[],
  previous: NftablesRules | null = null,
  family: IpFamily = 'IPv4',
): NftablesRules =>
  compile(
    serviceMap(
      shapes.map((shape) => servicePort(family, shape)),
      nodeView(family),
    ),
    previous,
  )
const install = (to: NftablesRules, from: NftablesRules | null = null) =>
  nftables.apply(kernel, { from, to, entry: 'active' })

const WEB: PortShape = { number: 1, cluster: [0, 1, 2], local: [0], nodePort: true, external: 'local' }
const STICKY: PortShape = { number: 2, cluster: [3, 4], affinitySeconds: 10_800 }
const GUARDED: PortShape = { ...WEB, number: 3, sourceRanges: ['203.0.113.0/25', '203.0.113.64/26'] }

describe.each(['IPv4', 'IPv6'] as const)('%s', (family) => {
  const shapes = anyShapes.map((list) => list.map(forFamily(family)))

  test('nft loads what is printed, and the kernel holds what was compiled', async () => {
    await fc.assert(
      fc.asyncProperty(shapes, async (list) => {
        const rules = rulesOf(list, null, family)
        nft(['-c', '-f', '-'], print(rules))
        await install(rules)
        expect(await nftables.verify(kernel, rules)).toEqual([])
        await nftables.cleanup(kernel, family)
      }),
      { numRuns: 10 },
    )
  })

  test('from any rules to any others the difference leads in one step, known or read', async () => {
    await fc.assert(
      fc.asyncProperty(shapes, shapes, fc.boolean(), async (before, after, known) => {
        const from = rulesOf(before, null, family)
        const to = rulesOf(after, from, family)
        await install(from)
        await install(to, known ? from : null)
        expect(await nftables.verify(kernel, to)).toEqual([])
        expect((await install(to, to)).operations).toBe(0)
        expect((await install(to)).operations).toBe(0)
        await nftables.cleanup(kernel, family)
      }),
      { numRuns: 25 },
    )
  })
})

/** Source ranges of the family. */
function forFamily(family: IpFamily): (shape: PortShape) => PortShape {
  return (shape) => {
    if (family === 'IPv4' || shape.sourceRanges == null) return shape
    return { ...shape, sourceRanges: shape.sourceRanges.map((_, i) => `fd00:203:${i}::/48`) }
  }
}

test('removing the mode leaves the rule set as it was, and can be done twice', async () => {
  nft(['-f', '-'], 'add table ip other\nadd chain ip other c { type filter hook input priority 0; }\n')
  const before = listing()
  await install(rulesOf([WEB, STICKY, GUARDED]))
  expect(listing()).not.toBe(before)
  await nftables.cleanup(kernel, 'IPv4')
  expect(listing()).toBe(before)
  await nftables.cleanup(kernel, 'IPv4')
  expect(listing()).toBe(before)
  nft(['delete', 'table', 'ip', 'other'])
})

test('standby is complete but out of the path of packets', async () => {
  const rules = rulesOf([WEB])
  await nftables.apply(kernel, { from: null, to: rules, entry: 'standby' })
  expect(listing()).toContain('flags dormant')
  expect(await nftables.verify(kernel, rules)).toEqual([])
  const next = rulesOf([WEB, STICKY], rules)
  await nftables.apply(kernel, { from: rules, to: next, entry: 'active' })
  expect(listing()).not.toContain('dormant')
  expect(await nftables.verify(kernel, next)).toEqual([])
  await nftables.apply(kernel, { from: next, to: next, entry: 'standby' })
  expect(listing()).toContain('flags dormant')
})

test('what others did to the table is named, and mended without knowing what they did', async () => {
  await port[Symbol.asyncDispose]()
  const rules = rulesOf([WEB, GUARDED])
  // A table that nobody owns, as older kernels have it, so that nft may change it.
  nft(['-f', '-'], print(rules))
  nft(['add', 'set', 'ip', 'kube-proxy', 'stray', '{ type ipv4_addr; }'])
  nft(['flush', 'chain', 'ip', 'kube-proxy', 'services'])
  nft(['delete', 'element', 'ip', 'kube-proxy', 'cluster-ips', '{ 10.96.0.2 }'])
  port = await openNft({ netns: `/run/netns/${NAMESPACE}` })
  kernel = { nft: port }
  expect((await nftables.verify(kernel, rules)).map(({ object, kind }) => `${kind} ${object}`)).toEqual([
    'unexpected ip set stray',
    'different ip chain services',
    'missing ip set cluster-ips element 10.96.0.2',
  ])
  await install(rules)
  expect(await nftables.verify(kernel, rules)).toEqual([])
})

test('a table that vanished is written anew although it was known', async () => {
  const rules = rulesOf([WEB])
  await install(rules)
  await port.transaction('ip', 'kube-proxy', [{ op: 'delete table' }])
  const report = await install(rules, rules)
  expect(report.full).toBe(true)
  expect(await nftables.verify(kernel, rules)).toEqual([])
})

test('a set that grows too full is made anew under its name, together with the rules that use it', async () => {
  const many = (count: number): PortShape[] =>
    Array.from({ length: count }, (_, number) => ({ number, cluster: [0, 1] }))
  const small = rulesOf(many(300))
  await install(small)
  const large = rulesOf(many(900), small)
  expect(large.capacities.get('endpoints')).toBeGreaterThan(small.capacities.get('endpoints')!)
  const report = await install(large, small)
  expect(report.full).toBe(false)
  expect(await nftables.verify(kernel, large)).toEqual([])
  const shrunk = rulesOf(many(500), large)
  expect(shrunk.capacities).toBe(large.capacities)
  expect((await install(shrunk, large)).operations).toBe(400 * (1 + 2 + 1))
})

describe('clients with session affinity', () => {
  const clientsIn = async (): Promise<readonly { client: string; ms: number | null }[]> => {
    const table = await port.read('ip', 'kube-proxy')
    return [...table!.elements]
      .filter(([name]) => name.startsWith('affinity-'))
      .flatMap(([, list]) => list.map(({ key, timeoutMs }) => ({ client: key[0]!, ms: timeoutMs })))
  }
  const stick = async (rules: NftablesRules, client: string, seconds: number): Promise<void> => {
    const set = [...(await port.read('ip', 'kube-proxy'))!.sets.keys()].find((name) =>
      name.startsWith('affinity-'),
    )!
    await port.transaction(rules.family, 'kube-proxy', [
      {
        op: 'add element',
        element: { set, key: [client], data: null, verdict: null, timeoutMs: seconds * 1000, comment: null },
      },
    ])
  }

  test('stay when endpoints come and go, and when the table is adopted', async () => {
    const rules = rulesOf([STICKY])
    await install(rules)
    await stick(rules, '10.128.0.99', 100)
    const grown = rulesOf([{ ...STICKY, cluster: [3, 4, 5, 6] }], rules)
    await install(grown, rules)
    expect((await clientsIn()).map(({ client }) => client)).toEqual(['10.128.0.99'])
    const other = rulesOf([STICKY, WEB])
    await install(other)
    expect((await clientsIn()).map(({ client }) => client)).toEqual(['10.128.0.99'])
  })

  test('stay when the time-out changes, for no longer than the new one', async () => {
    const rules = rulesOf([STICKY])
    await install(rules)
    await stick(rules, '10.128.0.99', 9000)
    const shorter = rulesOf([{ ...STICKY, affinitySeconds: 60 }], rules)
    await install(shorter, rules)
    expect(await nftables.verify(kernel, shorter)).toEqual([])
    const [kept, ...rest] = await clientsIn()
    expect(rest).toEqual([])
    expect(kept!.ms).toBeGreaterThan(50_000)
    expect(kept!.ms).toBeLessThanOrEqual(60_000)
  })

  test('go with the endpoint that left', async () => {
    const rules = rulesOf([STICKY])
    await install(rules)
    await stick(rules, '10.128.0.99', 100)
    const sets = [...(await port.read('ip', 'kube-proxy'))!.sets.keys()].filter((n) => n.startsWith('aff'))
    const gone = sets[0]!.includes('10.128.0.4') ? 3 : 4
    const fewer = rulesOf([{ ...STICKY, cluster: [gone === 3 ? 4 : 3] }], rules)
    await install(fewer, rules)
    expect(await clientsIn()).toEqual([])
  })
})

test.skipIf(!existsSync(UPSTREAM()))(
  "kube-proxy's own table is taken over: nothing is left of it that is not wanted",
  async () => {
    nft(['-f', '-'], readFileSync(UPSTREAM(), 'utf8'))
    const rules = rulesOf([WEB, STICKY, GUARDED])
    const report = await install(rules)
    expect(report.full).toBe(true)
    expect(await nftables.verify(kernel, rules)).toEqual([])
    expect((await install(rules)).operations).toBe(0)
    nft(['delete', 'table', 'ip6', 'kube-proxy'])
  },
)

/** What kube-proxy 1.36.1 wrote; beside the repository. */
function UPSTREAM(): string {
  const golden = '../../../../shared/golden/all-in-one/nftables/nft-list-ruleset.txt'
  return resolve(import.meta.dirname, golden)
}
