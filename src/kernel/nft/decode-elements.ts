import { Attributes, attributesIn } from '../netlink/reader.ts'
import { verdictIn } from './decode-expressions.ts'
import type { DecodedSet } from './decode-objects.ts'
import type { DataType } from './datatypes.ts'
import { lengthOf, padded, rangeText, textOf, TYPES } from './datatypes.ts'
import type { NftElement, NftValue } from './ruleset.ts'
import { commentIn } from './userdata.ts'
import { DATA, ELEM, ELEM_FLAG, ELEM_LIST } from './wire.ts'

interface RawElement {
  readonly key: Buffer
  readonly keyEnd: Buffer | null
  readonly flags: number
  readonly rest: Omit<NftElement, 'set' | 'key'>
}

/** The elements in the messages of a dump, as they were written: ranges joined, prefixes as prefixes. */
export function decodeElements(set: DecodedSet, bodies: readonly Buffer[]): NftElement[] {
  const raw: RawElement[] = []
  for (const body of bodies) {
    if (body.length < 4) continue
    for (const member of new Attributes(body.subarray(4)).list(ELEM_LIST.ELEMENTS)) {
      const element = decodeElement(set, member)
      if (element !== null) raw.push(element)
    }
  }
  const known = lengthOf(set.key) === set.keyBytes
  const [only] = set.key
  if (set.interval && known && set.key.length === 1 && only !== undefined) return joinRanges(set, only, raw)
  return raw.map(({ key, keyEnd, rest }) => ({
    set: set.name,
    key: known ? valueOf(set.key, key, keyEnd ?? key) : [`0x${key.toString('hex')}`],
    ...rest,
  }))
}

/** Written without {@link Attributes} for the sake of tables with ten thousands of elements. */
function decodeElement(set: DecodedSet, member: Buffer): RawElement | null {
  let [key, keyEnd, data, userData]: (Buffer | null)[] = [null, null, null, null]
  let flags = 0
  let timeout: number | null = null
  let expiration: number | null = null
  for (const [type, value] of attributesIn(member)) {
    if (type === ELEM.KEY) key = firstValue(value)
    else if (type === ELEM.KEY_END) keyEnd = firstValue(value)
    else if (type === ELEM.DATA) data = value
    else if (type === ELEM.FLAGS && value.length >= 4) flags = value.readUInt32BE(0)
    else if (type === ELEM.TIMEOUT && value.length >= 8) timeout = Number(value.readBigUInt64BE(0))
    else if (type === ELEM.EXPIRATION && value.length >= 8) expiration = Number(value.readBigUInt64BE(0))
    else if (type === ELEM.USERDATA) userData = value
  }
  if (!key || (flags & ELEM_FLAG.CATCHALL) !== 0) return null
  return {
    key,
    keyEnd: keyEnd ?? null,
    flags,
    rest: {
      data: set.data === null || set.data === 'verdict' || !data ? null : dataOf(set, set.data, data),
      verdict: set.data === 'verdict' && data ? verdictIn(new Attributes(data)) : null,
      timeoutMs: set.set.timeout ? (expiration ?? timeout) : null,
      comment: commentIn('element', userData ?? null),
    },
  }
}

/** NFTA_DATA_VALUE of a nest that has nothing else. */
function firstValue(nest: Buffer): Buffer | null {
  if (nest.length < 4) return null
  const length = nest.readUInt16LE(0)
  return (nest.readUInt16LE(2) & 0x3fff) === DATA.VALUE && length >= 4 && length <= nest.length
    ? nest.subarray(4, length)
    : null
}

function dataOf(set: DecodedSet, types: readonly DataType[], data: Buffer): NftValue | null {
  const value = firstValue(data)
  if (!value) return null
  return lengthOf(types) === set.dataBytes ? valueOf(types, value, value) : [`0x${value.toString('hex')}`]
}

/** Texts of the parts; where first and last differ, ranges. */
export function valueOf(types: readonly DataType[], first: Buffer, last: Buffer): NftValue {
  let at = 0
  return types.map((type) => {
    const end = at + TYPES[type].bytes
    const [from, to] = [first.subarray(at, end), last.subarray(at, end)]
    at += padded(type)
    return first === last || from.equals(to) ? textOf(type, from) : rangeText(type, from, to)
  })
}

/** Starts and ends of plain ranges come as elements of their own, in no order; an end is the first value after. */
function joinRanges(set: DecodedSet, type: DataType, raw: readonly RawElement[]): NftElement[] {
  const isEnd = ({ flags }: RawElement): boolean => (flags & ELEM_FLAG.INTERVAL_END) !== 0
  const sorted = raw.toSorted((a, b) => Buffer.compare(a.key, b.key) || Number(isEnd(b)) - Number(isEnd(a)))
  const elements: NftElement[] = []
  let start: RawElement | null = null
  const close = (last: Buffer): void => {
    if (start === null) return
    elements.push({ set: set.name, key: [rangeText(type, start.key, last)], ...start.rest })
    start = null
  }
  for (const element of sorted) {
    if (isEnd(element)) close(predecessor(element.key))
    else {
      close(predecessor(element.key))
      start = element
    }
  }
  close(Buffer.alloc(TYPES[type].bytes, 0xff))
  return elements
}

function predecessor(bytes: Buffer): Buffer {
  const previous = Buffer.from(bytes)
  for (let i = previous.length - 1; i >= 0; i--) {
    previous[i] = (previous[i]! - 1) & 0xff
    if (previous[i] !== 0xff) break
  }
  return previous
}
