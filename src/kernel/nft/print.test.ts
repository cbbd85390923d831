import { expect, test } from 'vitest'
import { compareText, printMilliseconds, printOperations, printTable } from './print.ts'
import { sampleTable } from './sample-table.ts'
import type { NftTableContents } from './ruleset.ts'

test('a table prints in nft syntax, sorted, base chains in the order of the path', () => {
  const text = printTable(sampleTable('ip'))
  expect(text).toContain(
    'typeof ip daddr . meta l4proto . th dport . numgen random mod 2 : ip daddr . th dport;',
  )
  expect(text).toContain('10.96.0.1 . tcp . 80 comment "ns/svc:http" : goto cluster-2')
  expect(text).toContain(
    `ip saddr != 10.0.0.0/8 meta mark set meta mark | 0x00004000 comment "from 'outside'"`,
  )
  expect(text).toContain('10.1.0.7 timeout 1h30m250ms')
  expect([...text.matchAll(/chain (\S+) \{/g)].map(([, name]) => name)).toEqual([
    'nat-prerouting',
    'filter-forward',
    'nat-postrouting',
    'cluster-2',
    'cluster-10',
    'endpoint-a/b.c_1',
  ])
})

test('the order in which objects were collected does not show', () => {
  const table = sampleTable('ip6')
  const backwards = <V>(map: ReadonlyMap<string, V>): Map<string, V> => new Map([...map].toReversed())
  const shuffled: NftTableContents = {
    ...table,
    chains: backwards(table.chains),
    sets: backwards(table.sets),
    elements: new Map([...table.elements].map(([name, list]) => [name, list.toReversed()])),
  }
  expect(printTable(shuffled)).toBe(printTable(table))
})

test('each step of a transaction is one command', () => {
  const { table, sets, elements } = sampleTable('ip')
  const element = elements.get('service-ips')![0]!
  const script = printOperations('ip', 'sample', [
    { op: 'add table', table: { ...table, dormant: true } },
    { op: 'flush chain', chain: 'cluster-2' },
    { op: 'delete chain', chain: 'cluster-2' },
    { op: 'add chain', chain: { name: 'services', comment: null, base: null } },
    { op: 'add set', set: sets.get('clients')! },
    { op: 'delete set', set: 'sources' },
    { op: 'delete element', element },
    { op: 'add element', element },
    { op: 'add rule', rule: { chain: 'services', statements: [{ verdict: 'return' }], comment: null } },
    { op: 'delete table' },
  ])
  expect(script.split('\n')).toEqual([
    'add table ip sample { flags dormant; comment "every shape once"; }',
    'flush chain ip sample cluster-2',
    'delete chain ip sample cluster-2',
    'add chain ip sample services',
    'add set ip sample clients { type ipv4_addr; size 65535; flags dynamic,timeout; timeout 3h; }',
    'delete set ip sample sources',
    'delete element ip sample service-ips { 10.96.0.1 . tcp . 80 }',
    'add element ip sample service-ips { 10.96.0.1 . tcp . 80 comment "ns/svc:http" : goto cluster-2 }',
    'add rule ip sample services return',
    'delete table ip sample',
    '',
  ])
})

test('a statement that the model does not know never reaches nft', () => {
  const table = sampleTable('ip')
  const rules = new Map(table.rules)
  rules.set('cluster-2', [{ chain: 'cluster-2', statements: [{ unknown: 'limit rate 5/s' }], comment: null }])
  expect(printTable({ ...table, rules })).toContain('# not understood: limit rate 5/s')
})

test('numbers within names and addresses sort as numbers', () => {
  const sorted = ['a-10', 'a-9', 'a', '10.0.0.10', '10.0.0.9', 'b-01', 'b-1'].sort(compareText)
  expect(sorted).toEqual(['10.0.0.9', '10.0.0.10', 'a', 'a-9', 'a-10', 'b-01', 'b-1'])
})

test('times print as nft prints them', () => {
  expect([10_800_000, 90_061_000, 5, 0].map(printMilliseconds)).toEqual(['3h', '1d1h1m1s', '5ms', '0s'])
})
