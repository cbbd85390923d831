import { describe, expect, test } from 'vitest'
import type { KernelError } from '../../shared/errors.ts'
import { canonicalContents } from './canonical.ts'
import type { NftChange, NftOperation, NftPort } from './port.ts'
import type {
  NftBaseChain,
  NftChain,
  NftElement,
  NftFamily,
  NftSet,
  NftTableContents,
  NftVerdict,
} from './ruleset.ts'
import { sampleTable } from './sample-table.ts'

/** A network namespace of which any number of ports can be opened, as if by different processes. */
export interface NftWorld {
  open(): Promise<NftPort>
  /** The port is that of an owner who ends: its ports are closed. */
  close(): Promise<void>
}

/** Tests that an implementation need not pass, by name, with the reason. */
export type Exemptions = Readonly<Record<string, string>>

const TABLE = 'contract'

export const addTable = (
  rest: { readonly owned?: boolean; readonly dormant?: boolean } = {},
): NftOperation => ({
  op: 'add table',
  table: { family: 'ip', name: TABLE, comment: null, dormant: false, owned: false, ...rest },
})
export const chain = (name: string): NftChain => ({ name, comment: null, base: null })
export const addChain = (name: string): NftOperation => ({ op: 'add chain', chain: chain(name) })
export const set = (name: string, rest: Partial<NftSet> = {}): NftSet => ({
  name,
  comment: null,
  key: ['inet_service'],
  data: null,
  interval: false,
  dynamic: false,
  timeout: false,
  timeoutSeconds: null,
  size: null,
  ...rest,
})
export const addSet = (name: string, rest: Partial<NftSet> = {}): NftOperation => ({
  op: 'add set',
  set: set(name, rest),
})
export const element = (set: string, key: string, rest: Partial<NftElement> = {}): NftElement => ({
  set,
  key: key.split(' . '),
  data: null,
  verdict: null,
  timeoutMs: null,
  comment: null,
  ...rest,
})
export const goTo = (chain: string): NftVerdict => ({ verdict: 'goto', chain })
const add = (...of: Parameters<typeof element>): NftOperation => ({
  op: 'add element',
  element: element(...of),
})
const remove = (...of: Parameters<typeof element>): NftOperation => ({
  op: 'delete element',
  element: element(...of),
})

/** Creates everything in a table, in an order that the kernel accepts. */
export function creationOf(contents: NftTableContents): NftOperation[] {
  return [
    { op: 'add table', table: contents.table },
    ...[...contents.sets.values()].map((set) => ({ op: 'add set', set }) as const),
    ...[...contents.chains.values()].map((chain) => ({ op: 'add chain', chain }) as const),
    ...[...contents.rules.values()].flat().map((rule) => ({ op: 'add rule', rule }) as const),
    ...[...contents.elements.values()].flat().map((element) => ({ op: 'add element', element }) as const),
  ]
}

/** Canonical, and without the remaining lives of elements, which differ from one reading to the next. */
export function comparable(contents: NftTableContents | null): NftTableContents | null {
  if (contents === null) return null
  const elements = new Map(
    [...contents.elements].map(([name, list]) => [name, list.map((e) => ({ ...e, timeoutMs: null }))]),
  )
  return canonicalContents({ ...contents, elements })
}

interface Ground {
  readonly world: NftWorld
  readonly port: NftPort
}

type Case = (ground: Ground) => Promise<void>

/** What every implementation of the nf_tables port does. `open` makes a fresh, empty namespace. */
export function testNftPort(name: string, open: () => Promise<NftWorld>, exemptions: Exemptions = {}): void {
  describe(`nf_tables (${name})`, () => {
    const cases: Readonly<Record<string, Case>> = {
      ...wholeTables,
      ...refusals,
      ...transactions,
      ...elements,
      ...ownership,
      ...watching,
    }
    for (const [title, run] of Object.entries(cases)) {
      const reason = exemptions[title]
      test.skipIf(reason !== undefined)(reason === undefined ? title : `${title} (${reason})`, async () => {
        const world = await open()
        try {
          await using port = await world.open()
          await run({ world, port })
        } finally {
          await world.close()
        }
      })
    }
    test('every exemption is of a test that exists', () => {
      expect(Object.keys(exemptions).filter((title) => cases[title] === undefined)).toEqual([])
    })
  })
}

const apply = (port: NftPort, ...operations: readonly NftOperation[]): Promise<void> =>
  port.transaction('ip', TABLE, operations)

async function refused(
  port: NftPort,
  errnoName: string,
  ...operations: readonly NftOperation[]
): Promise<string> {
  const error = await apply(port, ...operations).then(
    () => null,
    (reason: unknown) => reason as KernelError,
  )
  expect(error).toMatchObject({ errnoName })
  return error?.operation ?? ''
}

const wholeTables: Record<string, Case> = {
  'a table that is not there reads as null': async ({ port }) => {
    expect(await port.read('ip', TABLE)).toBeNull()
  },
  'everything written reads back': async ({ port }) => {
    for (const family of ['ip', 'ip6'] as const) {
      const sample = sampleTable(family)
      await port.transaction(family, 'sample', creationOf(sample))
      expect(comparable(await port.read(family, 'sample'))).toEqual(comparable(sample))
    }
    expect((await port.tables()).map(({ family, name }) => `${family} ${name}`).sort()).toEqual([
      'ip sample',
      'ip6 sample',
    ])
  },
  'a deleted table is gone with all that was in it': async ({ port }) => {
    await apply(port, ...creationOf(named(sampleTable('ip'))))
    await apply(port, { op: 'delete table' })
    expect(await port.tables()).toEqual([])
    await apply(port, addTable())
    expect((await port.read('ip', TABLE))?.chains.size).toBe(0)
  },
  'a table is put out of the packet path and back': async ({ port }) => {
    await apply(port, addTable({ dormant: true }))
    expect((await port.tables())[0]?.dormant).toBe(true)
    await apply(port, addTable())
    expect((await port.read('ip', TABLE))?.table.dormant).toBe(false)
  },
  'adding what is there already changes nothing': async ({ port }) => {
    const sample = named(sampleTable('ip'))
    await apply(port, ...creationOf(sample))
    await apply(port, ...creationOf(sample).filter(({ op }) => op !== 'add rule'))
    expect(comparable(await port.read('ip', TABLE))).toEqual(comparable(sample))
  },
}

const named = (contents: NftTableContents): NftTableContents => ({
  ...contents,
  table: { ...contents.table, name: TABLE },
})

const rule = (chain: string, ...statements: readonly NftVerdict[]): NftOperation => ({
  op: 'add rule',
  rule: { chain, statements, comment: null },
})

const refusals: Record<string, Case> = {
  'steps on a table that is not there are refused': async ({ port }) => {
    expect(await refused(port, 'ENOENT', addChain('a'))).toBe(`add chain ip ${TABLE} a`)
    expect(await refused(port, 'ENOENT', { op: 'delete table' })).toBe(`delete table ip ${TABLE}`)
  },
  'a chain that a rule jumps to cannot be deleted': async ({ port }) => {
    await apply(port, addTable(), addChain('a'), addChain('b'), rule('a', { verdict: 'jump', chain: 'b' }))
    expect(await refused(port, 'EBUSY', { op: 'delete chain', chain: 'b' })).toBe(
      `delete chain ip ${TABLE} b`,
    )
    await apply(port, { op: 'flush chain', chain: 'a' }, { op: 'delete chain', chain: 'b' })
    expect([...((await port.read('ip', TABLE))?.chains.keys() ?? [])]).toEqual(['a'])
  },
  'a chain that an element leads to cannot be deleted': async ({ port }) => {
    await apply(
      port,
      addTable(),
      addChain('a'),
      addSet('m', { data: 'verdict' }),
      add('m', '1', { verdict: goTo('a') }),
    )
    await refused(port, 'EBUSY', { op: 'delete chain', chain: 'a' })
    await apply(port, { op: 'flush set', set: 'm' }, { op: 'delete chain', chain: 'a' })
  },
  'a set that a rule looks up cannot be deleted': async ({ port }) => {
    const statement = { matchSet: { key: [{ field: 'dport' }], op: 'in', set: 's' } } as const
    await apply(port, addTable(), addChain('a'), addSet('s'), {
      op: 'add rule',
      rule: { chain: 'a', statements: [statement], comment: null },
    })
    await refused(port, 'EBUSY', { op: 'delete set', set: 's' })
    await apply(port, { op: 'delete chain', chain: 'a' }, { op: 'delete set', set: 's' })
  },
  'references to what is not there are refused': async ({ port }) => {
    await apply(port, addTable(), addChain('a'), addSet('m', { data: 'verdict' }))
    await refused(port, 'ENOENT', rule('a', goTo('nowhere')))
    await refused(port, 'ENOENT', rule('nowhere', { verdict: 'drop' }))
    await refused(port, 'ENOENT', add('m', '1', { verdict: goTo('nowhere') }))
    await refused(port, 'ENOENT', add('nowhere', '1'))
    await refused(port, 'ENOENT', { op: 'flush chain', chain: 'nowhere' })
    await refused(port, 'ENOENT', { op: 'flush set', set: 'nowhere' })
    await refused(port, 'ENOENT', { op: 'delete set', set: 'nowhere' })
  },
  'a set of another shape is refused': async ({ port }) => {
    await apply(port, addTable(), addSet('s'))
    await refused(port, 'EEXIST', addSet('s', { key: ['ipv4_addr'] }))
  },
  'a base chain of another hook is refused': async ({ port }) => {
    const base = { type: 'filter', hook: 'input', priority: 0, policy: 'accept' } as const
    await apply(port, addTable(), { op: 'add chain', chain: { ...chain('a'), base } })
    const addBase = (name: string, rest: Partial<NftBaseChain>): NftOperation => ({
      op: 'add chain',
      chain: { ...chain(name), base: { ...base, ...rest } },
    })
    await apply(port, addBase('a', { policy: 'drop' }), addChain('a'), addChain('plain'))
    await refused(port, 'EOPNOTSUPP', addBase('a', { hook: 'output' }))
    await refused(port, 'EOPNOTSUPP', addBase('a', { priority: 1 }))
    await refused(port, 'EEXIST', addBase('a', { type: 'nat' }))
    await refused(port, 'EOPNOTSUPP', addBase('plain', {}))
    await refused(port, 'EOPNOTSUPP', addBase('n', { type: 'nat', hook: 'forward' }))
    await refused(port, 'EOPNOTSUPP', addChain('b'), rule('b', { verdict: 'jump', chain: 'a' }))
    expect((await port.read('ip', TABLE))?.chains.get('a')?.base?.policy).toBe('drop')
  },
  'what cannot be expressed is a TypeError, and nothing is applied': async ({ port }) => {
    await apply(port, addTable(), addChain('a'), addSet('s'))
    const unknown = {
      op: 'add rule',
      rule: { chain: 'a', statements: [{ unknown: 'x' }], comment: null },
    } as const
    await expect(apply(port, addChain('b'), unknown)).rejects.toThrow(TypeError)
    await expect(apply(port, add('s', '80 . 81'))).rejects.toThrow(TypeError)
    await expect(apply(port, add('s', 'http'))).rejects.toThrow(TypeError)
    expect((await port.read('ip', TABLE))?.chains.size).toBe(1)
  },
}

const transactions: Record<string, Case> = {
  'a refused step undoes the steps before it, and the error names it': async ({ port }) => {
    await apply(port, addTable(), addSet('s'), add('s', '1'))
    const steps = [addChain('a'), add('s', '2'), remove('s', '1'), remove('s', '9'), add('s', '3')]
    expect(await refused(port, 'ENOENT', ...steps)).toBe(`delete element ip ${TABLE} s { 9 }`)
    const contents = await port.read('ip', TABLE)
    expect(contents?.chains.size).toBe(0)
    expect(contents?.elements.get('s')?.map(({ key }) => key[0])).toEqual(['1'])
  },
  'each commit counts the generation up, and a stale one is refused': async ({ port }) => {
    await apply(port, addTable())
    const generation = await port.generation()
    await port.transaction('ip', TABLE, [addChain('a')], { expectGeneration: generation })
    expect(await port.generation()).toBe(generation + 1)
    await expect(
      port.transaction('ip', TABLE, [addChain('b')], { expectGeneration: generation }),
    ).rejects.toMatchObject({ errnoName: 'ERESTART' })
    await refused(port, 'ENOENT', { op: 'delete chain', chain: 'b' })
  },
  'transactions apply in the order they were given': async ({ port }) => {
    const order = Array.from({ length: 20 }, (_, i) => apply(port, addTable(), addChain(`c${i}`)))
    await Promise.all([...order, apply(port, { op: 'delete chain', chain: 'c19' })])
    expect((await port.read('ip', TABLE))?.chains.size).toBe(19)
  },
  'a failed transaction does not stop those behind it': async ({ port }) => {
    const failing = apply(port, { op: 'delete table' })
    const next = apply(port, addTable())
    await expect(failing).rejects.toMatchObject({ errnoName: 'ENOENT' })
    await next
  },
  'a table is replaced by another of its name in one step': async ({ port }) => {
    await apply(port, addTable(), addChain('a'), addSet('s', { key: ['ipv4_addr'] }))
    await apply(port, { op: 'delete table' }, addTable(), addSet('s'), add('s', '80'))
    const contents = await port.read('ip', TABLE)
    expect([contents?.chains.size, contents?.sets.get('s')?.key]).toEqual([0, ['inet_service']])
  },
  'ten thousand elements go in at once': async ({ port }) => {
    const many = Array.from({ length: 10_000 }, (_, i) => add('s', String(i + 1)))
    await apply(port, addTable(), addSet('s', { size: 20_000 }), ...many)
    expect((await port.read('ip', TABLE))?.elements.get('s')).toHaveLength(10_000)
    const last = many.at(-1)!
    expect(await refused(port, 'ENOENT', ...many.slice(0, 9_000), remove('s', '20000'), last)).toContain(
      '20000',
    )
  },
}

const elements: Record<string, Case> = {
  'a key with other data is refused, and replaced when it is deleted first': async ({ port }) => {
    const map = addSet('m', { data: ['ipv4_addr', 'inet_service'] })
    await apply(port, addTable(), map, add('m', '1', { data: ['10.0.0.1', '80'] }))
    await apply(port, add('m', '1', { data: ['10.0.0.1', '80'] }))
    await refused(port, 'EEXIST', add('m', '1', { data: ['10.0.0.1', '81'] }))
    await apply(port, remove('m', '1'), add('m', '1', { data: ['10.0.0.1', '81'] }))
    expect((await port.read('ip', TABLE))?.elements.get('m')?.[0]?.data).toEqual(['10.0.0.1', '81'])
  },
  'a full set takes no more, and has room for what was deleted': async ({ port }) => {
    await apply(port, addTable(), addSet('s', { size: 2 }), add('s', '1'), add('s', '2'))
    expect(await refused(port, 'ENFILE', add('s', '3'))).toBe(`add element ip ${TABLE} s { 3 }`)
    await apply(port, remove('s', '1'), add('s', '3'))
  },
  'one value has one spelling': async ({ port }) => {
    const shape = { key: ['ipv4_addr', 'inet_proto', 'mark'] } as const
    await apply(port, addTable(), addSet('s', shape), add('s', '10.0.0.1 . 6 . 0x10'))
    await apply(port, add('s', '10.0.0.1 . tcp . 16'))
    expect((await port.read('ip', TABLE))?.elements.get('s')?.map(({ key }) => key)).toEqual([
      ['10.0.0.1', 'tcp', '16'],
    ])
  },
  'plain ranges read back as they were written': async ({ port }) => {
    const ranges = ['10.0.0.0/8', '11.0.0.0/8', '12.0.0.1', '12.0.0.3-12.0.0.9', '255.0.0.0/8']
    await apply(
      port,
      addTable(),
      addSet('r', { key: ['ipv4_addr'], interval: true }),
      ...ranges.map((r) => add('r', r)),
    )
    const read = await port.read('ip', TABLE)
    expect(
      read?.elements
        .get('r')
        ?.map(({ key }) => key[0])
        .sort(),
    ).toEqual(ranges)
    await refused(port, 'EEXIST', add('r', '10.1.0.0/16'))
    await apply(port, ...ranges.slice(1).map((range) => remove('r', range)))
    expect((await port.read('ip', TABLE))?.elements.get('r')).toHaveLength(1)
  },
  'ranges in concatenations read back as they were written': async ({ port }) => {
    const keys = ['10.0.0.1 . 80 . 0.0.0.0/0', '10.0.0.1 . 81-90 . 192.168.0.0/16', '10.0.0.2 . 80 . 1.2.3.4']
    const shape = { key: ['ipv4_addr', 'inet_service', 'ipv4_addr'], interval: true } as const
    await apply(port, addTable(), addSet('r', shape), ...keys.map((key) => add('r', key)))
    const read = (await port.read('ip', TABLE))?.elements.get('r')
    expect(read?.map(({ key }) => key.join(' . ')).sort()).toEqual(keys)
    await apply(port, ...keys.slice(1).map((key) => remove('r', key)))
    expect((await port.read('ip', TABLE))?.elements.get('r')).toHaveLength(1)
  },
  'elements expire': async ({ port }) => {
    await apply(
      port,
      addTable(),
      addSet('s', { timeout: true }),
      add('s', '1', { timeoutMs: 250 }),
      add('s', '2'),
    )
    const first = (await port.read('ip', TABLE))?.elements.get('s')?.find(({ key }) => key[0] === '1')
    expect(first?.timeoutMs).toBeGreaterThan(0)
    expect(first?.timeoutMs).toBeLessThanOrEqual(250)
    await expect
      .poll(async () => (await port.read('ip', TABLE))?.elements.get('s')?.map(({ key }) => key[0]), {
        timeout: 5_000,
      })
      .toEqual(['2'])
  },
}

const ownership: Record<string, Case> = {
  'an owned table is closed to others until its owner is gone, and stays': async ({ world, port: other }) => {
    const owner = await world.open()
    if ((await owner.features()).ownedTables !== true) return
    await apply(owner, addTable({ owned: true }), addChain('a'))
    await refused(other, 'EPERM', addChain('b'))
    expect((await other.tables())[0]).toMatchObject({ owner: 'another', persistent: true })
    expect((await owner.tables())[0]).toMatchObject({ owner: 'this port' })
    await owner[Symbol.asyncDispose]()
    await expect.poll(async () => (await other.tables())[0]?.owner).toBe('nobody')
    await apply(other, addTable({ owned: true }), addChain('b'))
    expect((await other.tables())[0]).toMatchObject({ owner: 'this port' })
    expect((await other.read('ip', TABLE))?.chains.size).toBe(2)
  },
  'a dormant table is owned by whoever wakes it, and cannot be put to sleep again': async ({ port }) => {
    if ((await port.features()).ownedTables !== true) return
    await apply(port, addTable({ owned: true, dormant: true }))
    expect((await port.tables())[0]).toMatchObject({ owner: 'nobody', persistent: true, dormant: true })
    await apply(port, addTable({ owned: true }))
    expect((await port.tables())[0]).toMatchObject({ owner: 'this port', dormant: false })
    await refused(port, 'EOPNOTSUPP', addTable({ owned: true, dormant: true }))
  },

  'a table made without owner cannot be owned later': async ({ port }) => {
    if ((await port.features()).ownedTables !== true) return
    await apply(port, addTable())
    await refused(port, 'EOPNOTSUPP', addTable({ owned: true }))
  },
  'looking for features leaves nothing behind': async ({ port }) => {
    const generation = await port.generation()
    expect(await port.features()).toEqual({ ownedTables: expect.any(Boolean), fib: expect.any(Boolean) })
    expect(await port.tables()).toEqual([])
    expect(await port.generation()).toBe(generation)
  },
}

const watching: Record<string, Case> = {
  'changes by others are told, in order, and changes by oneself are not': async ({ world, port }) => {
    await using other = await world.open()
    const changes: (NftChange | 'resync')[] = []
    const end = new AbortController()
    port.watch(end.signal, (change) => changes.push(change))
    await apply(port, addTable(), addSet('s'))
    await apply(other, add('s', '1'))
    await apply(port, add('s', '2'))
    await apply(other, add('s', '3'))
    await expect.poll(() => changes.length).toBe(2)
    end.abort()
    const told = changes.map((change) => (change === 'resync' ? change : `${change.how} ${change.what}`))
    expect(told).toEqual(['new element', 'new element'])
    expect(
      changes.every((change) => change !== 'resync' && change.table === TABLE && isIp(change.family)),
    ).toBe(true)
  },
  'nothing is told after the end': async ({ port, world }) => {
    await using other = await world.open()
    const [ended, open] = [[] as unknown[], [] as unknown[]]
    const end = new AbortController()
    port.watch(end.signal, (change) => ended.push(change))
    other.watch(new AbortController().signal, (change) => open.push(change))
    end.abort()
    await apply(port, addTable())
    await expect.poll(() => open.length).toBe(1)
    expect(ended).toEqual([])
  },
}

const isIp = (family: NftFamily): boolean => family === 'ip'
