import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
import { readNftJson } from './json.ts'
import type { NftStatement, NftTableContents } from './ruleset.ts'

const GOLDEN = resolve(import.meta.dirname, '../../../../shared/golden')

function listing(...entries: unknown[]): NftTableContents {
  const table = { table: { family: 'ip', name: 't', handle: 1 } }
  const chain = { chain: { family: 'ip', table: 't', name: 'c', handle: 2 } }
  const [contents] = readNftJson(JSON.stringify({ nftables: [{ metainfo: {} }, table, chain, ...entries] }))
  return contents!
}

function statements(...expr: unknown[]): readonly NftStatement[] {
  return listing({ rule: { family: 'ip', table: 't', chain: 'c', expr } }).rules.get('c')![0]!.statements
}

describe('reading the JSON of nft', () => {
  test('a port of one protocol is two matches', () => {
    expect(
      statements({ match: { op: '==', left: { payload: { protocol: 'tcp', field: 'dport' } }, right: 22 } }),
    ).toEqual([
      { match: { left: 'l4proto', op: '==', right: ['tcp'] } },
      { match: { left: 'dport', op: '==', right: ['22'] } },
    ])
  })

  test('an address list holds prefixes and ranges', () => {
    const right = {
      set: ['10.0.0.1', { prefix: { addr: '10.1.0.0', len: 16 } }, { range: ['10.3.0.1', '10.3.0.9'] }],
    }
    expect(
      statements({ match: { op: '!=', left: { payload: { protocol: 'ip', field: 'saddr' } }, right } }),
    ).toEqual([
      { match: { left: 'saddr', op: '!=', right: ['10.0.0.1', '10.1.0.0/16', '10.3.0.1-10.3.0.9'] } },
    ])
  })

  test('bit operations on the mark become one and/xor pair', () => {
    const mark = { meta: { key: 'mark' } }
    const set = (value: unknown): readonly NftStatement[] => statements({ mangle: { key: mark, value } })
    expect(set({ '|': [mark, 0x4000] })).toEqual([{ setMark: { and: 0xffffbfff, xor: 0x4000 } }])
    expect(set({ '^': [mark, 0x4000] })).toEqual([{ setMark: { and: 0xffffffff, xor: 0x4000 } }])
    expect(set({ '|': [{ '&': [mark, 0xff] }, 0x100] })).toEqual([{ setMark: { and: 0xff, xor: 0x100 } }])
    expect(set(5)).toEqual([{ setMark: { and: 0, xor: 5 } }])
  })

  test('a test of the highest bits of the mark, which nft lists as a prefix, is read as a mask', () => {
    const match = (len: number): unknown => ({
      match: { op: '!=', left: { meta: { key: 'mark' } }, right: { prefix: { addr: 0, len } } },
    })
    expect(statements(match(1))).toEqual([{ matchMark: { mask: 0x80000000, op: '!=', value: 0 } }])
    expect(statements(match(2))).toEqual([{ matchMark: { mask: 0xc0000000, op: '!=', value: 0 } }])
  })

  test('what is not modelled is kept as unknown, with its name first', () => {
    const [unknown] = statements({ limit: { rate: 5, per: 'second' } })
    expect(unknown).toEqual({ unknown: 'limit {"rate":5,"per":"second"}' })
    expect(statements({ reject: { type: 'icmpx', expr: 'admin-prohibited' } })).toEqual([
      { unknown: 'reject {"type":"icmpx","expr":"admin-prohibited"}' },
    ])
  })

  test('an element keeps its comment and what is left of its life', () => {
    const contents = listing({
      set: {
        family: 'ip',
        table: 't',
        name: 's',
        type: 'ipv4_addr',
        flags: ['timeout', 'dynamic'],
        elem: [{ elem: { val: '10.0.0.1', timeout: 600, expires: 33, comment: 'one' } }],
      },
    })
    expect(contents.elements.get('s')).toEqual([
      { set: 's', key: ['10.0.0.1'], data: null, verdict: null, timeoutMs: 33_000, comment: 'one' },
    ])
  })

  test('text that is no listing is refused with the way to get one', () => {
    expect(() => readNftJson('table ip x {')).toThrow(/nft -j list ruleset/)
    expect(() => readNftJson('{}')).toThrow(/no "nftables" list/)
  })

  const skipGolden = !existsSync(GOLDEN)
  test.skipIf(skipGolden)(
    `everything that upstream's kube-proxy writes is understood${skipGolden ? ' (skipped: ../shared/golden is not here)' : ''}`,
    () => {
      const unknown = readdirSync(GOLDEN).flatMap((name) => {
        const file = join(GOLDEN, name, 'nftables/nft-list-ruleset.json')
        if (!existsSync(file)) return []
        return readNftJson(readFileSync(file, 'utf8')).flatMap(({ rules }) =>
          [...rules.values()].flat().flatMap((rule) => rule.statements.filter((s) => 'unknown' in s)),
        )
      })
      expect(unknown).toEqual([])
      expect(readdirSync(GOLDEN).length).toBeGreaterThan(50)
    },
  )
})

test('protocols are known by number, as nft lists them where there is no /etc/protocols', () => {
  const table = { family: 'ip', table: 't' }
  const type = ['ipv4_addr', 'inet_proto', 'inet_service']
  const elem = [[{ concat: ['10.96.0.7', 6, 80] }, { accept: null }]]
  const match = { op: '==', left: { meta: { key: 'l4proto' } }, right: { set: [6, 17] } }
  const nftables = [
    { table: { family: 'ip', name: 't' } },
    { map: { ...table, name: 'm', type, map: 'verdict', elem } },
    { chain: { ...table, name: 'c' } },
    { rule: { ...table, chain: 'c', expr: [{ match }, { accept: null }] } },
  ]
  const [read] = readNftJson(JSON.stringify({ nftables }))
  expect(read!.elements.get('m')![0]!.key).toEqual(['10.96.0.7', 'tcp', '80'])
  expect(JSON.stringify(read!.rules.get('c'))).toContain('["tcp","udp"]')
})
