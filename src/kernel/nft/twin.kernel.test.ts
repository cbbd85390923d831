import { afterAll, expect, test } from 'vitest'
import { makeNamespace } from '../test-namespace.ts'
import { comparable, creationOf, element, set } from './contract.ts'
import { readNftJson } from './json.ts'
import { openNft } from './linux.ts'
import type { NftOperation } from './port.ts'
import { printOperations } from './print.ts'
import type { NftFamily, NftKey, NftRule, NftStatement, NftTableContents } from './ruleset.ts'
import { sampleTable } from './sample-table.ts'

const OURS = makeNamespace('twin-a')
const THEIRS = makeNamespace('twin-b')
afterAll(() => [OURS, THEIRS].forEach((namespace) => namespace.close()))

/** The ruleset as nft tells it, without what differs from one writing to the next. */
function listing(namespace: typeof OURS): unknown {
  const json = namespace.run(['nft', '-j', 'list', 'ruleset'])
  return JSON.parse(json, (key, value: unknown) => {
    if (key === 'handle' || key === 'expires') return undefined
    if ((key !== 'elem' && key !== 'set') || !Array.isArray(value)) return value
    return value.map((member) => JSON.stringify(member)).sort()
  })
}

const text = (namespace: typeof OURS): string =>
  namespace.run(['nft', 'list', 'ruleset']).replaceAll(/ expires \w+/g, '')

/** Writes with our encoder and with nft, compares what nft lists in both, and returns what our reader reads in both. */
async function twins(family: NftFamily, table: string, operations: readonly NftOperation[]) {
  await using ours = await openNft({ netns: OURS.path })
  await using theirs = await openNft({ netns: THEIRS.path })
  await ours.transaction(family, table, operations)
  THEIRS.run(['nft', '-f', '-'], printOperations(family, table, operations))
  try {
    expect(listing(OURS)).toEqual(listing(THEIRS))
    // Listing as text is how administrators look; it must never make nft crash.
    expect(text(OURS).split('\n').length).toBe(text(THEIRS).split('\n').length)
    return [await ours.read(family, table), await theirs.read(family, table)] as const
  } finally {
    for (const port of [ours, theirs]) await port.transaction(family, table, [{ op: 'delete table' }])
  }
}

test.each(['ip', 'ip6'] as const)(
  'the kernel holds the same after our batch as after nft -f, for %s',
  async (family) => {
    const sample = sampleTable(family)
    const [ours, theirs] = await twins(family, 'sample', creationOf(sample))
    expect(comparable(ours)).toEqual(comparable(sample))
    // nft says `typeof numgen` where we say `mark`: the same four bytes.
    expect(comparable({ ...theirs!, sets: sample.sets })).toEqual(comparable(sample))
  },
)

const frontend: NftKey = [{ field: 'daddr' }, { field: 'l4proto' }, { field: 'dport' }]

/** Shapes that the sample has not. */
function moreStatements(family: 'ip' | 'ip6'): readonly (readonly NftStatement[])[] {
  const [a, b, wide, odd] =
    family === 'ip'
      ? ['10.0.0.1', '10.0.0.2', '10.0.0.0/8', '10.128.0.0/9']
      : ['fd00::1', 'fd00::2', 'fd00::/8', 'fd00:8000::/17']
  const match = (
    left:
      | 'saddr'
      | 'daddr'
      | 'dport'
      | 'l4proto'
      | 'ct state'
      | 'ct status'
      | 'iifname'
      | 'oifname'
      | 'mark'
      | 'fib saddr type',
    op: '==' | '!=',
    ...right: string[]
  ): NftStatement => ({ match: { left, op, right } })
  const hash = { hash: { of: ['saddr'], mod: 3, seed: null } } as const
  const tcp = match('l4proto', '==', 'tcp')
  return [
    [match('saddr', '==', wide), match('daddr', '!=', odd)],
    [match('saddr', '==', a, b), match('daddr', '!=', a, odd)],
    [match('l4proto', '==', 'tcp', 'udp', 'sctp'), match('dport', '!=', '80-90')],
    [tcp, match('dport', '==', '80-90'), match('dport', '==', '80', '443', '8000-8999')],
    [match('ct state', '==', 'established', 'related'), { verdict: 'accept' }],
    [match('ct state', '!=', 'new'), match('ct status', '!=', 'dnat', 'snat')],
    [match('ct status', '==', 'dnat'), { verdict: 'drop' }],
    [match('iifname', '==', 'eth0', 'eth1'), match('oifname', '!=', 'lo'), match('iifname', '==', 'cali*')],
    [match('mark', '==', '16384'), match('fib saddr type', '==', 'local', 'broadcast')],
    [{ matchMark: { mask: 0x4000, op: '==', value: 0x4000 } }, { setMark: { and: 0xffffbfff, xor: 0 } }],
    [{ setMark: { and: ~0x4000 >>> 0, xor: 0x4000 } }, { counter: { packets: 3, bytes: 180 } }],
    [{ matchSet: { key: [{ field: 'saddr' }], op: 'not in', set: 'networks' } }, { verdict: 'return' }],
    [{ vmap: { key: [{ field: 'dport' }], map: 'by-port' } }],
    [
      {
        anonymousVmap: {
          key: [hash],
          entries: [
            [['0'], { verdict: 'drop' }],
            [['1'], { verdict: 'goto', chain: 'other' }],
            [['2'], { verdict: 'accept' }],
          ],
        },
      },
    ],
    [{ anonymousVmap: { key: frontend, entries: [[[a, 'tcp', '80'], { verdict: 'drop' }]] } }],
    [{ dnat: { key: [...frontend, hash], map: 'endpoints' } }],
    [
      {
        dnat: {
          key: [...frontend, { hash: { of: ['saddr', 'dport'], mod: 3, seed: 0xdead } }],
          map: 'endpoints',
        },
      },
    ],
    [
      tcp,
      {
        dnat: {
          key: [{ random: { mod: 2 } }],
          entries: [
            [['0'], [a, '80']],
            [['1'], [b, '81']],
          ],
        },
      },
    ],
    [{ dnat: { to: [a] } }],
    [tcp, { reject: 'tcp reset' }],
    [{ masquerade: { fullyRandom: false } }],
    [{ updateSet: { set: 'seen', key: ['saddr', 'l4proto', 'dport'], op: 'add', timeoutSeconds: null } }],
  ]
}

test.each(['ip', 'ip6'] as const)(
  'every further shape is written as nft writes it, for %s',
  async (family) => {
    const address = family === 'ip' ? ('ipv4_addr' as const) : ('ipv6_addr' as const)
    const key3 = [address, 'inet_proto', 'inet_service'] as const
    const networks =
      family === 'ip' ? ['10.0.0.0/8', '11.0.0.1-11.0.0.5', '255.0.0.0/8'] : ['fd00::/16', 'ff00::/8']
    const rules = moreStatements(family).map((statements): NftRule => ({
      chain: 'shapes',
      statements,
      comment: null,
    }))
    const chain = (name: string): NftOperation => ({
      op: 'add chain',
      chain: { name, comment: null, base: null },
    })
    const sets = [
      set('networks', { key: [address], interval: true }),
      set('by-port', { data: 'verdict', comment: 'a map' }),
      set('endpoints', { key: [...key3, 'mark'], data: [address, 'inet_service'], size: 8 }),
      set('seen', { key: key3, dynamic: true, timeout: true, timeoutSeconds: 60 }),
    ]
    const operations: NftOperation[] = [
      // Not dormant: nft 1.0.6 breaks off its JSON at the flag of such a table, whoever wrote it.
      { op: 'add table', table: { family, name: 'more', comment: null, dormant: false, owned: false } },
      ...sets.map((set) => ({ op: 'add set', set }) as const),
      chain('other'),
      chain('shapes'),
      ...rules.map((rule) => ({ op: 'add rule', rule }) as const),
      ...networks.map((network) => ({ op: 'add element', element: element('networks', network) }) as const),
      {
        op: 'add element',
        element: element('by-port', '80', { verdict: { verdict: 'jump', chain: 'other' } }),
      },
    ]
    const [ours, theirs] = await twins(family, 'more', operations)
    const wanted: NftTableContents = { ...ours!, rules: new Map([['shapes', rules]]) }
    expect(comparable(ours)).toEqual(comparable(wanted))
    expect(comparable(theirs)?.rules).toEqual(comparable(wanted)?.rules)
    expect(
      ours!.elements
        .get('networks')
        ?.map(({ key }) => key[0])
        .sort(),
    ).toEqual(networks.toSorted())
  },
)

test('both readers, of netlink and of JSON, read the same rules', async () => {
  await using port = await openNft({ netns: OURS.path })
  await port.transaction('ip', 'sample', creationOf(sampleTable('ip')))
  const [json] = readNftJson(OURS.run(['nft', '-j', 'list', 'table', 'ip', 'sample']))
  const read = await port.read('ip', 'sample')
  await port.transaction('ip', 'sample', [{ op: 'delete table' }])
  expect(comparable({ ...json!, sets: read!.sets })?.rules).toEqual(comparable(read)?.rules)
})

test('rules of others that the model has no words for read as unknown, and the rest is read', async () => {
  OURS.run(
    ['nft', '-f', '-'],
    `table ip foreign {
       set s { type ether_addr; elements = { 00:11:22:33:44:55 } }
       set m { type ipv4_addr; flags interval; auto-merge; elements = { 10.0.0.0/8, 10.1.0.0/16 } }
       chain c {
         type filter hook input priority 0; policy drop;
         tcp dport 22 limit rate 5/second counter accept
         ip ttl 3 log prefix "x" drop
         ether saddr @s snat ip to 1.2.3.4
         ip saddr @m meta nftrace set 1
       }
     }`.replace(' snat ip to 1.2.3.4', ' meta priority set 1'),
  )
  await using port = await openNft({ netns: OURS.path })
  const read = await port.read('ip', 'foreign')
  await port.transaction('ip', 'foreign', [{ op: 'delete table' }])
  const statements = read!.rules.get('c')!.map(({ statements }) => statements)
  expect(statements[0]).toEqual([
    { match: { left: 'l4proto', op: '==', right: ['tcp'] } },
    { match: { left: 'dport', op: '==', right: ['22'] } },
    { unknown: 'limit' },
    { counter: { packets: 0, bytes: 0 } },
    { verdict: 'accept' },
  ])
  expect(statements[1]).toMatchObject([
    { unknown: expect.stringContaining('match') },
    { unknown: 'log' },
    { verdict: 'drop' },
  ])
  expect(statements[3]).toMatchObject([{ matchSet: { set: 'm' } }, { unknown: expect.any(String) }])
  expect(read!.elements.get('m')).toHaveLength(1)
  expect(read!.chains.get('c')?.base?.policy).toBe('drop')
})
