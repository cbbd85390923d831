import fc from 'fast-check'
import { expect, test } from 'vitest'
import { decodeFlow } from '../conntrack/messages.ts'
import { decodeAddress, decodeLink } from '../link/decode.ts'
import { Attributes, parseMessages } from '../netlink/reader.ts'
import { parseAck } from '../netlink/request.ts'
import { NetlinkWriter } from '../netlink/writer.ts'
import { encodeBatch } from './batch.ts'
import { creationOf } from './contract.ts'
import { decodeElements } from './decode-elements.ts'
import { decodeExpressions } from './decode-expressions.ts'
import { decodeChain, decodeSet, decodeTable, decodeTableEntry } from './decode-objects.ts'
import { decodeRule } from './read.ts'
import { sampleTable } from './sample-table.ts'
import { decodeUserData } from './userdata.ts'
import { decodeChange } from './watch.ts'
import { outcomeOf } from './outcome.ts'

/** Everything that reads bytes from the kernel. */
function decodeAll(bytes: Buffer): void {
  const shape = decodeSet(bytes)
  decodeTable(bytes, 'ip')
  decodeTableEntry(bytes, 1)
  decodeChain(bytes)
  decodeRule(bytes, 'ip', () => null)
  decodeRule(bytes, 'inet', (name) => (shape === null ? null : { shape: { ...shape, name }, elements: [] }))
  if (shape !== null) decodeElements(shape, [bytes])
  decodeFlow(bytes)
  decodeLink(bytes)
  decodeAddress(bytes)
  decodeUserData(bytes)
  for (const message of parseMessages(bytes)) {
    parseAck(message)
    decodeChange(message)
  }
}

const sample = (['ip', 'ip6'] as const).map((family) =>
  encodeBatch({
    family,
    table: 'sample',
    operations: creationOf(sampleTable(family)),
    setOf: () => null,
    canOwn: true,
    generation: 7,
    sequence: 1,
  }),
)
const bodies = sample.flatMap(({ bytes }) => parseMessages(bytes).map(({ body }) => body))

test('no bytes make a decoder fail', () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 400 }), (bytes) => decodeAll(Buffer.from(bytes))))
})

test('no damage to a real message makes a decoder fail', () => {
  const damage = fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 6 })
  fc.assert(
    fc.property(fc.constantFrom(...bodies), damage, fc.nat(), (body, changes, cut) => {
      const bytes = Buffer.from(body)
      for (const [at, value] of changes) bytes[at % bytes.length] = value
      decodeAll(bytes)
      decodeAll(bytes.subarray(0, cut % (bytes.length + 1)))
    }),
    { numRuns: 2_000 },
  )
})

test('no answer to a batch makes the reading of its outcome fail', () => {
  const [batch] = sample
  const operations = creationOf(sampleTable('ip'))
  fc.assert(
    fc.property(fc.nat(40), fc.integer({ min: -200, max: 0 }), fc.nat(2_000), (sequence, errno, offset) => {
      const answer = Buffer.alloc(16 + 20 + 8)
      answer.writeUInt32LE(answer.length, 0)
      answer.writeUInt16LE(2, 4)
      answer.writeUInt16LE(0x300, 6)
      answer.writeUInt32LE(sequence, 8)
      answer.writeInt32LE(errno, 16)
      answer.writeUInt16LE(8, 36)
      answer.writeUInt16LE(2, 38)
      answer.writeUInt32LE(offset, 40)
      const sent = { batch: batch!, sequence: 1, family: 'ip', table: 'sample', operations } as const
      const error = outcomeOf(sent, [answer], false)
      const counts = sequence >= 1 && sequence <= batch!.messages.length
      expect(error === null).toBe(counts && errno === 0)
    }),
  )
})

test('attributes read back as they were written', () => {
  const attribute = fc.tuple(fc.integer({ min: 1, max: 0x3fff }), fc.uint8Array({ maxLength: 300 }))
  fc.assert(
    fc.property(fc.uniqueArray(attribute, { selector: ([type]) => type, maxLength: 12 }), (list) => {
      const writer = new NetlinkWriter(8)
      writer.begin(1, 2, 3)
      for (const [type, value] of list) writer.data(type, value)
      writer.end()
      const [message, ...others] = parseMessages(writer.bytes())
      expect(others).toEqual([])
      expect(message).toMatchObject({ type: 1, flags: 2, sequence: 3 })
      const attributes = new Attributes(message!.body)
      for (const [type, value] of list) expect(attributes.raw(type)).toEqual(Buffer.from(value))
    }),
  )
})

test('an attribute that is too long throws instead of wrapping', () => {
  const writer = new NetlinkWriter()
  expect(() => writer.data(1, new Uint8Array(65_532))).toThrow(RangeError)
  const nest = writer.open(1)
  for (let i = 0; i < 3; i++) writer.data(2, new Uint8Array(30_000))
  expect(() => writer.close(nest)).toThrow(RangeError)
})

test('a rule that nobody models reads as unknown', () => {
  const writer = new NetlinkWriter()
  const member = writer.open(1)
  writer.text(1, 'limit')
  writer.close(member)
  expect(
    decodeExpressions(new Attributes(writer.bytes()).list(1).concat(writer.bytes().subarray(4))),
  ).toContainEqual({ is: 'other', name: 'limit' })
})
