import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { NetlinkWriter } from '../netlink/writer.ts'
import { parseMessages } from '../netlink/reader.ts'
import { encodeBatch } from './batch.ts'
import { canonicalContents, canonicalRule } from './canonical.ts'
import { compileRule } from './compile-rule.ts'
import { creationOf, element, set } from './contract.ts'
import { decodeExpressions } from './decode-expressions.ts'
import { decodeSet } from './decode-objects.ts'
import { decompileRule } from './decompile-rule.ts'
import { writeExpressions } from './expressions.ts'
import type { NftOperation } from './port.ts'
import type { NftFamily, NftRule, NftSet } from './ruleset.ts'
import { sampleTable } from './sample-table.ts'
import { attributesIn } from '../netlink/reader.ts'

const GOLDEN = join(import.meta.dirname, 'golden')

const encode = (
  family: NftFamily,
  operations: readonly NftOperation[],
  setOf: (name: string) => NftSet | null = () => null,
) => encodeBatch({ family, table: 'sample', operations, setOf, canOwn: true, generation: null, sequence: 1 })

/** A message a block: its number, then 16 bytes a line as `hexdump -C` has them. */
function hexdump(bytes: Buffer): string {
  let at = 0
  let text = ''
  for (const message of parseMessages(bytes)) {
    const length = 16 + message.body.length
    text += `# message ${message.sequence}: type 0x${message.type.toString(16)}\n`
    for (let line = at; line < at + length; line += 16) {
      const row = bytes.subarray(line, Math.min(line + 16, at + length))
      const hex = [...row].map((byte) => byte.toString(16).padStart(2, '0')).join(' ')
      const ascii = [...row]
        .map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : '.'))
        .join('')
      text += `${(line - at).toString(16).padStart(4, '0')}  ${hex.padEnd(47)}  |${ascii}|\n`
    }
    at += (length + 3) & ~3
  }
  return text
}

/** Set UPDATE_GOLDEN=1 to write the file anew; then look at the difference. */
function expectGolden(name: string, text: string): void {
  const path = join(GOLDEN, `${name}.hex`)
  if (process.env['UPDATE_GOLDEN'] === '1') writeFileSync(path, text)
  expect(text).toBe(readFileSync(path, 'utf8'))
}

test.each(['ip', 'ip6'] as const)('a table with every shape is these bytes, for %s', (family) => {
  expectGolden(`sample-${family}`, hexdump(encode(family, creationOf(sampleTable(family))).bytes))
})

test('the exchange of an endpoint is these bytes', () => {
  const { sets } = sampleTable('ip')
  const key = '10.96.0.1 . tcp . 80 . 0'
  const operations: NftOperation[] = [
    { op: 'delete element', element: element('endpoints', key, { data: ['10.1.0.7', '8080'] }) },
    { op: 'add element', element: element('endpoints', key, { data: ['10.1.0.9', '8080'] }) },
  ]
  expectGolden('exchange', hexdump(encode('ip', operations, (name) => sets.get(name) ?? null).bytes))
})

test('the end of a table is these bytes', () => {
  const operations: NftOperation[] = [
    { op: 'add table', table: { family: 'ip', name: 'sample', comment: null, dormant: true, owned: true } },
    { op: 'flush chain', chain: 'a' },
    { op: 'delete chain', chain: 'a' },
    { op: 'flush set', set: 's' },
    { op: 'delete set', set: 's' },
    { op: 'delete table' },
  ]
  expectGolden('end', hexdump(encode('ip', operations).bytes))
})

test('every message belongs to the operation that it carries out', () => {
  const operations = creationOf(sampleTable('ip'))
  const { messages } = encode('ip', operations)
  const covered = messages.flatMap((message) =>
    message === null ? [] : message.members === null ? [message.operation] : message.members,
  )
  expect([...new Set(covered)]).toEqual(operations.map((_, i) => i))
  expect([messages[0], messages.at(-1)]).toEqual([null, null])
})

test('long lists of elements are cut before the 16-bit length of an attribute', () => {
  const operations: NftOperation[] = [
    { op: 'add set', set: set('s', { key: ['ipv4_addr', 'inet_service'] }) },
    ...Array.from({ length: 5_000 }, (_, i) => ({
      op: 'add element' as const,
      element: element('s', `10.0.${i >> 8}.${i & 255} . 80`),
    })),
  ]
  const { bytes, messages } = encode('ip', operations)
  expect(messages).toHaveLength(5)
  for (const { body } of parseMessages(bytes)) {
    for (const [, value] of attributesIn(body.subarray(4))) expect(value.length).toBeLessThan(65_532)
  }
  expect(parseMessages(bytes)).toHaveLength(5)
})

test.each(['ip', 'ip6'] as const)('rules read back from their own instructions, for %s', (family) => {
  const sample = canonicalContents(sampleTable(family))
  for (const rule of [...sample.rules.values()].flat())
    expect(throughBytes(family, rule)).toEqual(rule.statements)
})

/** Compiles, writes, reads and decompiles a rule, with named sets as the sample has them. */
function throughBytes(family: NftFamily, rule: NftRule): unknown {
  const { sets } = sampleTable(family === 'ip6' ? 'ip6' : 'ip')
  let id = 0
  const compiled = compileRule(
    { family, setOf: (name) => sets.get(name) ?? null, nextSetId: () => ++id },
    rule,
  )
  const writer = new NetlinkWriter()
  writeExpressions(writer, compiled.expressions)
  const members = [...attributesIn(writer.bytes())].map(([, value]) => value)
  const anonymous = new Map(compiled.sets.map((set) => [set.dataTypes === null ? '__set%d' : '__map%d', set]))
  return decompileRule(family, decodeExpressions(members), (name) => {
    const inline = anonymous.get(name)
    const operation: NftOperation = { op: 'add set', set: sets.get(name) ?? set(name) }
    const [, message] = parseMessages(encode(family, [operation]).bytes)
    const shape = decodeSet(message!.body)!
    if (inline === undefined) return { shape, elements: [] }
    const elements = inline.elements.map((entry) => ({ ...entry, set: name, timeoutMs: null, comment: null }))
    return { shape: { ...shape, anonymous: true, keyBytes: 4 }, elements }
  })
}

test('the canonical form of a canonical form is itself', () => {
  for (const family of ['ip', 'ip6'] as const) {
    const once = canonicalContents(sampleTable(family))
    expect(canonicalContents(once)).toEqual(once)
  }
})

test('what means the same has one canonical form', () => {
  const rule = (...statements: NftRule['statements']): NftRule => ({ chain: 'a', statements, comment: null })
  const match = (left: 'saddr' | 'l4proto' | 'ct state' | 'iifname' | 'mark', ...right: string[]) =>
    ({ match: { left, op: '==', right } }) as const
  expect(
    canonicalRule(
      'ip',
      rule(
        match('saddr', '10.0.0.0-10.255.255.255'),
        match('saddr', '10.0.0.1/32'),
        match('l4proto', 'udp', '6'),
        match('ct state', 'established', 'invalid'),
        match('iifname', '"veth*"'),
        { matchMark: { mask: -1, op: '==', value: 1 } },
      ),
    ).statements,
  ).toEqual([
    match('saddr', '10.0.0.0/8'),
    match('saddr', '10.0.0.1'),
    match('l4proto', 'tcp', 'udp'),
    match('ct state', 'invalid', 'established'),
    match('iifname', 'veth*'),
    match('mark', '1'),
  ])
})

test('what the kernel or nft could not take is refused before anything is sent', () => {
  const rule = (family: NftFamily, ...statements: NftRule['statements']) =>
    encode(family, [{ op: 'add rule', rule: { chain: 'a', statements, comment: null } }])
  expect(() => rule('inet', { match: { left: 'saddr', op: '==', right: ['10.0.0.1'] } })).toThrow(TypeError)
  expect(() => rule('ip', { match: { left: 'saddr', op: '==', right: ['fd00::1'] } })).toThrow(TypeError)
  expect(() => rule('ip', { match: { left: 'iifname', op: '==', right: ['a*', 'b'] } })).toThrow(TypeError)
  expect(() => rule('ip', { match: { left: 'dport', op: '==', right: ['65536'] } })).toThrow(TypeError)
  expect(() => rule('ip', { match: { left: 'dport', op: '==', right: [] } })).toThrow(TypeError)
  expect(() => encode('ip', [{ op: 'add set', set: set('s', { key: ['mark'], interval: true }) }])).toThrow(
    TypeError,
  )
  const comment = 'x'.repeat(128)
  expect(() => encode('ip', [{ op: 'add chain', chain: { name: 'a', comment, base: null } }])).toThrow(
    RangeError,
  )
})
