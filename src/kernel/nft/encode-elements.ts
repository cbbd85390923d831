import type { DataType } from './datatypes.ts'
import { bytesOf, lengthOf, padded, rangeOf, TYPES, writeValue } from './datatypes.ts'
import type { Writer } from './expressions.ts'
import { writeData, writeVerdict } from './expressions.ts'
import type { NftElement, NftValue } from './ruleset.ts'
import { commentEntry, encodeUserData } from './userdata.ts'
import { DATA, ELEM, ELEM_FLAG, LIST_ELEM } from './wire.ts'

/** What the encoder must know of a set to write its elements. */
export interface ElementShape {
  readonly name: string
  readonly key: readonly DataType[]
  readonly data: readonly DataType[] | 'verdict' | null
  readonly interval: boolean
}

type Entry = Pick<NftElement, 'key' | 'data' | 'verdict'> & Partial<Pick<NftElement, 'timeoutMs' | 'comment'>>

/**
 * Writes an element as members of NFTA_SET_ELEM_LIST_ELEMENTS: one, or in a set of plain ranges a start and an end
 * (without end when the range goes to the last address). Returns how many. `forDeletion` leaves out all but the key.
 */
export function writeElement(
  writer: Writer,
  shape: ElementShape,
  entry: Entry,
  forDeletion: boolean,
): number {
  if (entry.key.length !== shape.key.length) {
    throw new TypeError(`${shape.name}: the key ${entry.key.join(' . ')} has not ${shape.key.length} parts`)
  }
  const [only] = shape.key
  if (shape.interval && shape.key.length === 1 && only !== undefined) {
    return writePlainRange(writer, shape, only, entry, forDeletion)
  }
  const member = writer.open(LIST_ELEM)
  if (shape.interval) writeRanges(writer, shape.key, entry.key)
  else writeKey(writer, ELEM.KEY, shape.key, entry.key)
  if (!forDeletion) writeRest(writer, shape, entry)
  writer.close(member)
  return 1
}

/** Writes some element, for a set that is not there: the kernel looks for the set before it looks at its elements. */
export function writeAnyKey(writer: Writer): number {
  const member = writer.open(LIST_ELEM)
  writeData(writer, ELEM.KEY, Buffer.alloc(4))
  writer.close(member)
  return 1
}

function writeRest(writer: Writer, shape: ElementShape, entry: Entry): void {
  if (shape.data === 'verdict') {
    if (entry.verdict === null) throw new TypeError(`${shape.name}: an element without verdict`)
    writeVerdict(writer, ELEM.DATA, entry.verdict)
  } else if (shape.data !== null) {
    if (entry.data?.length !== shape.data.length)
      throw new TypeError(`${shape.name}: an element without data`)
    writeKey(writer, ELEM.DATA, shape.data, entry.data)
  } else if (entry.data !== null || entry.verdict !== null) {
    throw new TypeError(`${shape.name} is a set; its elements have no data`)
  }
  if (entry.timeoutMs) writer.u64(ELEM.TIMEOUT, entry.timeoutMs)
  if (entry.comment) writer.data(ELEM.USERDATA, encodeUserData([commentEntry('element', entry.comment)]))
}

/** Parts one after the other on words of their own, in NFTA_DATA_VALUE. */
function writeKey(writer: Writer, attribute: number, types: readonly DataType[], value: NftValue): void {
  const nest = writer.open(attribute)
  let at = writer.attribute(DATA.VALUE, lengthOf(types))
  for (let i = 0; i < types.length; i++) {
    writeValue(types[i]!, value[i]!, writer.buffer, at)
    at += padded(types[i]!)
  }
  writer.close(nest)
}

/** First and last value of each part: NFTA_SET_ELEM_KEY and KEY_END. */
function writeRanges(writer: Writer, types: readonly DataType[], key: NftValue): void {
  const ranges = key.map((text, i) => rangeOf(types[i]!, text) ?? ([text, text] as const))
  for (const [i, type] of types.entries()) {
    const [first, last] = ranges[i]!
    if (TYPES[type].host && first !== last) throw new TypeError(`ranges of type ${type} are not possible`)
  }
  writeKey(
    writer,
    ELEM.KEY,
    types,
    ranges.map(([first]) => first),
  )
  writeKey(
    writer,
    ELEM.KEY_END,
    types,
    ranges.map(([, last]) => last),
  )
}

function writePlainRange(
  writer: Writer,
  shape: ElementShape,
  type: DataType,
  entry: Entry,
  forDeletion: boolean,
): number {
  const text = entry.key[0]!
  const [first, last] = rangeOf(type, text) ?? [text, text]
  const start = writer.open(LIST_ELEM)
  writeData(writer, ELEM.KEY, bytesOf(type, first))
  if (!forDeletion) writeRest(writer, shape, entry)
  writer.close(start)
  const end = successor(bytesOf(type, last))
  if (end === null) return 1
  const member = writer.open(LIST_ELEM)
  writer.u32(ELEM.FLAGS, ELEM_FLAG.INTERVAL_END)
  writeData(writer, ELEM.KEY, end)
  writer.close(member)
  return 2
}

/** The number after, or null after the last. */
function successor(bytes: Buffer): Buffer | null {
  const next = Buffer.from(bytes)
  for (let i = next.length - 1; i >= 0; i--) {
    next[i] = (next[i]! + 1) & 0xff
    if (next[i] !== 0) return next
  }
  return null
}
