import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { PortShape } from '../../../test/support/service-maps.ts'
import { anyShapes, serviceMap, servicePort } from '../../../test/support/service-maps.ts'
import { MemoryNftNamespace } from '../../kernel/nft/memory.ts'
import type { NftPort } from '../../kernel/nft/port.ts'
import { printTable } from '../../kernel/nft/print.ts'
import { KernelError, UnsupportedError } from '../../shared/errors.ts'
import type { Entry } from '../mode.ts'
import { compile } from './compile.ts'
import { nftables } from './index.ts'
import type { NftablesRules } from './rules.ts'

const rulesOf = (shapes: readonly PortShape[], previous: NftablesRules | null = null): NftablesRules =>
  compile(serviceMap(shapes.map((shape) => servicePort('IPv4', shape))), previous)
const install = (
  nft: NftPort,
  to: NftablesRules,
  from: NftablesRules | null = null,
  entry: Entry = 'active',
) => nftables.apply({ nft }, { from, to, entry })
const dump = async (nft: NftPort): Promise<string> => printTable((await nft.read('ip', 'kube-proxy'))!)

const WEB: PortShape = { number: 1, cluster: [0, 1, 2], local: [0], nodePort: true, external: 'local' }
const STICKY: PortShape = { number: 2, cluster: [3, 4], affinitySeconds: 10_800 }

/** A port that does something else first, once, when it is asked to write. */
function interrupted(nft: NftPort, before: () => Promise<void>): NftPort {
  let pending = true
  return {
    features: () => nft.features(),
    read: (...args) => nft.read(...args),
    tables: () => nft.tables(),
    generation: () => nft.generation(),
    watch: (...args) => nft.watch(...args),
    async transaction(...args) {
      if (pending) {
        pending = false
        await before()
      }
      return nft.transaction(...args)
    },
    [Symbol.asyncDispose]: () => nft[Symbol.asyncDispose](),
  }
}

test(
  'whatever was there, the kernel holds what is wanted, and a second write writes nothing',
  { timeout: 30_000 },
  async () => {
    const entry = fc.constantFrom<Entry>('active', 'standby')
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(anyShapes, entry, fc.boolean()), { minLength: 1, maxLength: 5 }),
        async (steps) => {
          const nft = new MemoryNftNamespace().open()
          let installed: NftablesRules | null = null
          for (const [shapes, entry, known] of steps) {
            const to = rulesOf(shapes, installed)
            await install(nft, to, known ? installed : null, entry)
            expect(await nftables.verify({ nft }, to)).toEqual([])
            expect((await nft.tables()).map(({ dormant }) => dormant)).toEqual([entry === 'standby'])
            expect((await install(nft, to, to, entry)).operations).toBe(0)
            expect((await install(nft, to, null, entry)).operations).toBe(0)
            installed = to
          }
          await nftables.cleanup({ nft }, 'IPv4')
          expect(await nft.tables()).toEqual([])
        },
      ),
      { numRuns: 15 },
    )
  },
)

test('a write that somebody else got ahead of is repeated on what they left', async () => {
  const nft = new MemoryNftNamespace().open()
  const rules = rulesOf([WEB])
  const meddling = interrupted(nft, () =>
    nft.transaction('ip', 'other', [{ op: 'add table', table: { ...rules.base.table, name: 'other' } }]),
  )
  await install(meddling, rules)
  expect(await nftables.verify({ nft }, rules)).toEqual([])
})

test('a difference that no longer fits is found out and replaced by one that does', async () => {
  const nft = new MemoryNftNamespace().open()
  const rules = rulesOf([WEB])
  await install(nft, rules)
  await nft.transaction('ip', 'kube-proxy', [{ op: 'flush set', set: 'endpoints' }])
  const next = rulesOf([{ ...WEB, cluster: [0, 1] }], rules)
  const report = await install(nft, next, rules)
  expect(report.full).toBe(true)
  expect(await nftables.verify({ nft }, next)).toEqual([])
})

test('a write that fails leaves everything as it was and says which step failed', async () => {
  const nft = new MemoryNftNamespace().open()
  const rules = rulesOf([WEB])
  await install(nft, rules)
  const before = await dump(nft)
  const wrong = {
    chain: 'services',
    statements: [{ verdict: 'jump', chain: 'nowhere' }],
    comment: null,
  } as const
  const broken: NftablesRules = {
    ...rulesOf([WEB, STICKY], rules),
    base: { ...rules.base, rules: [...rules.base.rules, wrong] },
  }
  const failure = await install(nft, broken, rules).catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(KernelError)
  expect((failure as KernelError).operation).toContain('add rule')
  expect(await dump(nft)).toBe(before)
})

test("another process's table is not touched, and preflight says so", async () => {
  const namespace = new MemoryNftNamespace()
  const [first, second] = [namespace.open(), namespace.open()]
  const rules = rulesOf([WEB])
  await install(first, rules)
  const before = await dump(first)
  const findings = await nftables.preflight({ nft: second }, 'IPv4')
  expect(findings.map(({ severity }) => severity)).toEqual(['blocker'])
  await expect(install(second, rulesOf([STICKY]))).rejects.toThrow(UnsupportedError)
  await expect(nftables.cleanup({ nft: second }, 'IPv4')).rejects.toThrow('no other running process owns')
  expect(await dump(first)).toBe(before)
  await first[Symbol.asyncDispose]()
  expect(await nftables.preflight({ nft: second }, 'IPv4')).toEqual([])
  await install(second, rulesOf([STICKY]))
  expect((await second.tables())[0]?.owner).toBe('this port')
})

test('clients keep their endpoint when the entry closes and opens', async () => {
  const nft = new MemoryNftNamespace(() => 0).open()
  const rules = rulesOf([STICKY])
  await install(nft, rules)
  const set = [...(await nft.read('ip', 'kube-proxy'))!.sets.keys()].find((name) => name.startsWith('aff'))!
  const client = { set, key: ['10.128.0.9'], data: null, verdict: null, timeoutMs: 5000, comment: null }
  await nft.transaction('ip', 'kube-proxy', [{ op: 'add element', element: client }])
  await install(nft, rules, rules, 'standby')
  await install(nft, rules, rules, 'active')
  expect((await nft.read('ip', 'kube-proxy'))!.elements.get(set)).toEqual([client])
})

test('only changes of the own table by others count as drift', async () => {
  const namespace = new MemoryNftNamespace()
  const nft = namespace.open()
  const end = new AbortController()
  let calls = 0
  nftables.watchDrift({ nft }, 'IPv4', end.signal, () => calls++)
  const rules = rulesOf([WEB])
  await install(nft, rules)
  const other = namespace.open()
  const { table } = rules.base
  await other.transaction('ip', 'other', [{ op: 'add table', table: { ...table, name: 'other' } }])
  await other.transaction('ip6', 'kube-proxy', [{ op: 'add table', table: { ...table, family: 'ip6' } }])
  await nft.transaction('ip', 'kube-proxy', [{ op: 'delete table' }])
  await new Promise((resolve) => setImmediate(resolve))
  expect(calls).toBe(0)
  await other.transaction('ip', 'kube-proxy', [{ op: 'add table', table }])
  await expect.poll(() => calls).toBe(1)
  end.abort()
})
