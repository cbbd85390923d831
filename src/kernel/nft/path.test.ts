import { describe, expect, test } from 'vitest'
import type { Ip } from '../../net/ip.ts'
import { followPacket } from './path.ts'
import { viewOf } from './rule-view.ts'
import type { NftBaseChain, NftElement, NftRule, NftSet, NftStatement, NftTableContents } from './ruleset.ts'
import type { PacketState, WalkContext } from './walk-state.ts'

const SET: Omit<NftSet, 'name' | 'key' | 'data'> = {
  comment: null,
  interval: false,
  dynamic: false,
  timeout: false,
  timeoutSeconds: null,
  size: null,
}

interface Parts {
  readonly name?: string
  readonly chains: Readonly<
    Record<string, { base?: NftBaseChain; rules: readonly (readonly NftStatement[])[] }>
  >
  readonly sets?: readonly NftSet[]
  readonly elements?: readonly Pick<NftElement, 'set' | 'key' | 'data' | 'verdict'>[]
}

function table({ name = 't', chains, sets = [], elements = [] }: Parts): NftTableContents {
  const rules = new Map<string, NftRule[]>()
  for (const [chain, { rules: list }] of Object.entries(chains)) {
    rules.set(
      chain,
      list.map((statements) => ({ chain, statements, comment: null })),
    )
  }
  return {
    table: { family: 'ip', name, comment: null, dormant: false, owned: false },
    chains: new Map(
      Object.entries(chains).map(([chain, { base }]) => [
        chain,
        { name: chain, comment: null, base: base ?? null },
      ]),
    ),
    rules,
    sets: new Map(sets.map((set) => [set.name, set])),
    elements: new Map(
      sets.map((set) => [
        set.name,
        elements
          .filter((element) => element.set === set.name)
          .map((element) => ({ ...element, timeoutMs: null, comment: null })),
      ]),
    ),
  }
}

const base = (
  hook: NftBaseChain['hook'],
  type: NftBaseChain['type'] = 'filter',
  priority = 0,
  policy: NftBaseChain['policy'] = 'accept',
): NftBaseChain => ({ type, hook, priority, policy })

const START: PacketState = {
  source: '10.0.0.9' as Ip,
  sourcePort: 40_000,
  destination: '10.96.0.1' as Ip,
  port: 80,
  protocol: 'TCP',
  inputInterface: 'eth0',
  outputInterface: null,
  mark: 0,
  dnat: false,
  masquerade: false,
  sticky: false,
  weight: 1,
  hashes: {},
  steps: null,
}

function follow(
  tables: readonly NftTableContents[],
  origin: 'received' | 'local' = 'received',
  start: Partial<PacketState> = {},
): { readonly ends: string[]; readonly notes: string[]; readonly states: readonly PacketState[] } {
  const notes: string[] = []
  const context: WalkContext = {
    isLocal: (ip) => ip === '10.0.0.2',
    masqueradeSource: () => '10.0.0.2' as Ip,
    notUnderstood: (text) => notes.push(text),
  }
  const ends = followPacket(tables.map(viewOf), 'IPv4', { ...START, ...start }, origin, context)
  return {
    ends: ends.map(
      ({ end, state }) => `${end} ${state.destination}:${state.port} ${state.weight.toFixed(2)}`,
    ),
    states: ends.map(({ state }) => state),
    notes,
  }
}

describe('a packet on its way through nf_tables', () => {
  test('a random dnat gives every endpoint its even share', () => {
    const nat = table({
      chains: {
        pre: {
          base: base('prerouting', 'nat', -100),
          rules: [
            [
              {
                dnat: {
                  key: [{ random: { mod: 2 } }],
                  entries: [
                    [['0'], ['10.1.0.1', '8080']],
                    [['1'], ['10.1.0.2', '8080']],
                  ],
                },
              },
            ],
          ],
        },
      },
    })
    expect(follow([nat]).ends).toEqual(['forwarded 10.1.0.1:8080 0.50', 'forwarded 10.1.0.2:8080 0.50'])
  })

  test('a concatenated lookup mixes packet fields, a random number and an interval', () => {
    const nat = table({
      sets: [
        {
          ...SET,
          name: 'eps',
          key: ['ipv4_addr', 'inet_service', 'mark'],
          data: ['ipv4_addr', 'inet_service'],
        },
        { ...SET, name: 'allow', key: ['ipv4_addr', 'ipv4_addr'], data: null, interval: true },
      ],
      elements: [
        { set: 'eps', key: ['10.96.0.1', '80', '0x00000000'], data: ['10.1.0.1', '1'], verdict: null },
        { set: 'eps', key: ['10.96.0.1', '80', '1'], data: ['10.1.0.2', '2'], verdict: null },
        { set: 'allow', key: ['10.96.0.1', '10.0.0.0/30'], data: null, verdict: null },
        { set: 'allow', key: ['10.96.0.1', '10.0.0.8-10.0.0.20'], data: null, verdict: null },
      ],
      chains: {
        first: {
          base: base('prerouting', 'filter', -110),
          rules: [
            [
              { matchSet: { key: [{ field: 'daddr' }, { field: 'saddr' }], op: 'not in', set: 'allow' } },
              { verdict: 'drop' },
            ],
          ],
        },
        pre: {
          base: base('prerouting', 'nat', -100),
          rules: [
            [{ dnat: { key: [{ field: 'daddr' }, { field: 'dport' }, { random: { mod: 2 } }], map: 'eps' } }],
          ],
        },
      },
    })
    expect(follow([nat]).ends).toEqual(['forwarded 10.1.0.1:1 0.50', 'forwarded 10.1.0.2:2 0.50'])
    expect(follow([nat], 'received', { source: '10.0.0.21' as Ip }).ends).toEqual(['drop 10.96.0.1:80 1.00'])
  })

  test('return and the end of a chain go on after a jump, but not after a goto', () => {
    const drop: NftStatement = { verdict: 'drop' }
    const by = (how: 'jump' | 'goto'): NftTableContents =>
      table({
        chains: {
          fwd: { base: base('forward'), rules: [[{ verdict: how, chain: 'sub' }], [drop]] },
          sub: { rules: [[{ verdict: 'return' }], [drop]] },
        },
      })
    expect(follow([by('jump')]).ends).toEqual(['drop 10.96.0.1:80 1.00'])
    expect(follow([by('goto')]).ends).toEqual(['forwarded 10.96.0.1:80 1.00'])
  })

  test('accept ends one base chain only; a later one may still drop', () => {
    const early = table({
      chains: { a: { base: base('forward', 'filter', 0), rules: [[{ verdict: 'accept' }]] } },
    })
    const late = table({
      name: 'foreign',
      chains: { b: { base: base('forward', 'filter', 10, 'drop'), rules: [] } },
    })
    expect(follow([late, early]).ends).toEqual(['drop 10.96.0.1:80 1.00'])
  })

  test('of two nat chains at one priority the one registered last settles the destination', () => {
    const to = (ip: string): NftTableContents =>
      table({ chains: { n: { base: base('prerouting', 'nat', -100), rules: [[{ dnat: { to: [ip] } }]] } } })
    expect(follow([to('10.1.0.1'), to('10.1.0.2')]).ends).toEqual(['forwarded 10.1.0.2:80 1.00'])
  })

  test('a packet of this node for this node passes input by loopback, and nat only once', () => {
    const both = table({
      chains: {
        out: { base: base('output', 'nat', -100), rules: [[{ dnat: { to: ['10.0.0.2', '81'] } }]] },
        pre: { base: base('prerouting', 'nat', -100), rules: [[{ dnat: { to: ['10.9.9.9'] } }]] },
        inp: { base: base('input'), rules: [[{ reject: 'port-unreachable' }]] },
      },
    })
    expect(follow([both], 'local').ends).toEqual(['reject 10.0.0.2:81 1.00'])
  })

  test('the mark asks for masquerading and ct status tells of the dnat', () => {
    const nat = table({
      chains: {
        pre: {
          base: base('prerouting', 'nat', -100),
          rules: [[{ setMark: { and: 0xffffbfff, xor: 0x4000 } }, { dnat: { to: ['10.1.0.1', '8080'] } }]],
        },
        post: {
          base: base('postrouting', 'nat', 100),
          rules: [
            [
              { match: { left: 'ct status', op: '==', right: ['dnat'] } },
              { matchMark: { mask: 0x4000, op: '!=', value: 0 } },
              { masquerade: { fullyRandom: true } },
            ],
          ],
        },
      },
    })
    expect(follow([nat]).states.map(({ source, masquerade }) => [source, masquerade])).toEqual([
      ['10.0.0.2', true],
    ])
  })

  test('a rule with an unknown statement does not match and is named', () => {
    const odd = table({
      chains: {
        f: { base: base('forward'), rules: [[{ unknown: 'limit {"rate":5}' }, { verdict: 'drop' }]] },
      },
    })
    expect(follow([odd])).toMatchObject({
      ends: ['forwarded 10.96.0.1:80 1.00'],
      notes: ['t f: limit {"rate":5}'],
    })
  })
})
