import { canonicalSet } from './canonical.ts'
import type { DataType } from './datatypes.ts'
import { concatenatedTypeId, lengthOf, TYPES } from './datatypes.ts'
import type { AnonymousSet } from './compile-rule.ts'
import type { Writer } from './expressions.ts'
import type { NftSet } from './ruleset.ts'
import type { UserData } from './userdata.ts'
import { commentEntry, encodeUserData, SET_UDATA, word } from './userdata.ts'
import { DATA_TYPE_VERDICT, LIST_ELEM, SET, SET_DESC, SET_FIELD_LEN, SET_FLAG } from './wire.ts'

/** The longest key of the kernel's set for concatenated ranges has this many fields (NFT_REG32_COUNT allows 16). */
const MAX_PARTS = 5

/** The attributes of NFT_MSG_NEWSET for a named set, after the table. */
export function writeNamedSet(writer: Writer, wanted: NftSet, id: number): void {
  const set = canonicalSet(wanted)
  const concatenated = set.key.length > 1
  const flags =
    (set.interval ? SET_FLAG.INTERVAL : 0) |
    (set.interval && concatenated ? SET_FLAG.CONCAT : 0) |
    (set.data === null ? 0 : SET_FLAG.MAP) |
    (set.dynamic ? SET_FLAG.EVAL : 0) |
    (set.timeout ? SET_FLAG.TIMEOUT : 0)
  assertKey(set.name, set.key, set.interval)
  writeShape(writer, set.name, flags, set.key, set.data, id)
  writeDescription(writer, set.size, set.interval && concatenated ? set.key : null)
  if (set.timeoutSeconds !== null) writer.u64(SET.TIMEOUT, set.timeoutSeconds * 1000)
  const comment = set.comment === null ? [] : [commentEntry('set', set.comment)]
  writer.data(SET.USERDATA, encodeUserData([...describeTypes(set.key, set.data), ...comment]))
}

/** The same for a set that only the rule after it uses. */
export function writeAnonymousSet(writer: Writer, set: AnonymousSet): void {
  const concatenated = set.keyTypes.length > 1
  const flags =
    SET_FLAG.ANONYMOUS |
    SET_FLAG.CONSTANT |
    (set.interval ? SET_FLAG.INTERVAL : 0) |
    (set.interval && concatenated ? SET_FLAG.CONCAT : 0) |
    (set.dataTypes === null ? 0 : SET_FLAG.MAP)
  const name = anonymousName(set)
  assertKey('an anonymous set', set.keyTypes, set.interval)
  writeShape(writer, name, flags, set.keyTypes, set.dataTypes, set.id)
  const size = set.interval && !concatenated ? 2 * set.elements.length + 1 : set.elements.length
  writeDescription(writer, size, set.interval && concatenated ? set.keyTypes : null)
  writer.data(SET.USERDATA, encodeUserData(describeTypes(set.keyTypes, set.dataTypes)))
}

/** The kernel replaces %d by a number. */
export const anonymousName = (set: AnonymousSet): string => (set.dataTypes === null ? '__set%d' : '__map%d')

function assertKey(name: string, types: readonly DataType[], interval: boolean): void {
  if (types.length === 0 || types.length > MAX_PARTS) {
    throw new TypeError(`${name}: a key has 1 to ${MAX_PARTS} parts, not ${types.length}`)
  }
  const [only] = types
  // The kernel compares bytes from the first on; numbers in the order of a little-endian machine do not sort that way.
  if (interval && types.length === 1 && only !== undefined && TYPES[only].host) {
    throw new TypeError(`${name}: ranges of type ${only} are not possible`)
  }
}

function writeShape(
  writer: Writer,
  name: string,
  flags: number,
  key: readonly DataType[],
  data: AnonymousSet['dataTypes'],
  id: number,
): void {
  writer.text(SET.NAME, name)
  writer.u32(SET.FLAGS, flags)
  writer.u32(SET.KEY_TYPE, concatenatedTypeId(key))
  writer.u32(SET.KEY_LEN, lengthOf(key))
  if (data !== null) {
    const types = data === 'verdict' ? null : data
    writer.u32(SET.DATA_TYPE, types === null ? DATA_TYPE_VERDICT : concatenatedTypeId(types))
    writer.u32(SET.DATA_LEN, types === null ? 0 : lengthOf(types))
  }
  writer.u32(SET.ID, id)
}

function writeDescription(writer: Writer, size: number | null, fields: readonly DataType[] | null): void {
  if (size === null && fields === null) return
  const nest = writer.open(SET.DESC)
  if (size !== null) writer.u32(SET_DESC.SIZE, size)
  if (fields !== null) {
    const concat = writer.open(SET_DESC.CONCAT)
    for (const type of fields) {
      const field = writer.open(LIST_ELEM)
      writer.u32(SET_FIELD_LEN, TYPES[type].bytes)
      writer.close(field)
    }
    writer.close(concat)
  }
  writer.close(nest)
}

/**
 * What nft needs to know to print keys and data: their byte order, and for a key with a computed number what to call it
 * (`typeof … . numgen random mod 2`): with a plain type, nft could list the map but not load its own listing.
 */
function describeTypes(key: readonly DataType[], data: AnonymousSet['dataTypes']): UserData {
  const entries: (readonly [number, Uint8Array])[] = [[SET_UDATA.KEY_BYTEORDER, word(byteOrder(key))]]
  if (data !== null) {
    entries.push([SET_UDATA.DATA_BYTEORDER, word(data === 'verdict' ? 0 : byteOrder(data))])
  }
  const computed = key.length > 1 && key.some((type) => type === 'mark' || type === 'integer')
  if (computed) {
    entries.push([SET_UDATA.KEY_TYPEOF, typeOfConcatenation(key)])
    if (data !== null && data !== 'verdict') entries.push([SET_UDATA.DATA_TYPEOF, typeOfConcatenation(data)])
  }
  return entries
}

const HOST_ENDIAN = 1
const BIG_ENDIAN = 2

/** nft's enum byteorder; 0 (unknown) for concatenations and single bytes. */
function byteOrder(types: readonly DataType[]): number {
  const [only] = types
  if (types.length !== 1 || only === undefined || TYPES[only].bytes === 1) return 0
  return TYPES[only].host ? HOST_ENDIAN : BIG_ENDIAN
}

/** nft's numbers of expression kinds, and of the header descriptions within `payload`. */
const KIND = { PAYLOAD: 7, META: 9, CONCAT: 13, NUMGEN: 23, FIB: 24, CT: 12 } as const
const HEADER = { TH: 11, IP: 12, IP6: 13 } as const

function typeOfConcatenation(types: readonly DataType[]): Uint8Array {
  if (types.length === 1) return encodeUserData(typeOfExample(types[0]!))
  const parts = types.map((type, i) => [i, encodeUserData(typeOfExample(type))] as const)
  return encodeUserData([
    [0, word(KIND.CONCAT)],
    [1, encodeUserData(parts)],
  ])
}

/** An expression that has the type. */
function typeOfExample(type: DataType): UserData {
  const nested = (kind: number, ...words: readonly number[]): UserData => [
    [0, word(kind)],
    [1, encodeUserData(words.map((value, i) => [i, word(value)] as const))],
  ]
  switch (type) {
    case 'ipv4_addr':
      return nested(KIND.PAYLOAD, HEADER.IP, 12)
    case 'ipv6_addr':
      return nested(KIND.PAYLOAD, HEADER.IP6, 9)
    case 'inet_service':
      return nested(KIND.PAYLOAD, HEADER.TH, 2)
    case 'inet_proto':
      return nested(KIND.META, 16)
    case 'ifname':
      return nested(KIND.META, 6)
    case 'mark':
    case 'integer':
      return nested(KIND.NUMGEN, 1, 2, 0)
    case 'ct_state':
    case 'ct_status':
    case 'fib_addrtype':
      throw new TypeError(`${type} cannot stand beside a computed number in a key`)
  }
}
