/**
 * What `nft` keeps beside kernel objects to print them as they were written: a list of (type, length, value) with one
 * byte each for type and length (libnftnl udata). The kernel stores the bytes unread.
 */
export type UserData = readonly (readonly [type: number, value: Uint8Array])[]

/** Comment types per kind of object. */
export const COMMENT_TYPE = { table: 0, chain: 0, rule: 0, set: 7, element: 0 } as const
/** Of sets. */
export const SET_UDATA = { KEY_BYTEORDER: 0, DATA_BYTEORDER: 1, KEY_TYPEOF: 3, DATA_TYPEOF: 4 } as const

const MAX_VALUE = 255
/** Longest comment in bytes: nft's own limit (NFTNL_UDATA_COMMENT_MAXLEN). */
export const MAX_COMMENT_BYTES = 128

export function encodeUserData(entries: UserData): Uint8Array {
  const parts: number[] = []
  for (const [type, value] of entries) {
    if (value.length > MAX_VALUE) throw new RangeError(`user data of ${value.length} bytes is too long`)
    parts.push(type, value.length, ...value)
  }
  return Uint8Array.from(parts)
}

/** Stops at the first malformed entry. */
export function decodeUserData(bytes: Uint8Array): UserData {
  const entries: (readonly [number, Uint8Array])[] = []
  for (let at = 0; at + 2 <= bytes.length;) {
    const end = at + 2 + bytes[at + 1]!
    if (end > bytes.length) break
    entries.push([bytes[at]!, bytes.subarray(at + 2, end)])
    at = end
  }
  return entries
}

/** Comments as nft can print and load them: it has no escape for the quote. */
export const canonicalComment = (comment: string): string => comment.replaceAll('"', "'")

/** A comment as user data: zero-terminated text. */
export function commentEntry(
  kind: keyof typeof COMMENT_TYPE,
  comment: string,
): readonly [number, Uint8Array] {
  const bytes = Buffer.from(`${canonicalComment(comment)}\0`)
  if (bytes.length > MAX_COMMENT_BYTES) {
    throw new RangeError(`a comment has at most ${MAX_COMMENT_BYTES - 1} bytes: ${comment}`)
  }
  return [COMMENT_TYPE[kind], bytes]
}

/** The comment in an object's user data, or null. */
export function commentIn(kind: keyof typeof COMMENT_TYPE, bytes: Uint8Array | null): string | null {
  if (bytes === null) return null
  const entry = decodeUserData(bytes).find(([type]) => type === COMMENT_TYPE[kind])
  if (entry === undefined) return null
  return Buffer.from(entry[1]).toString('utf8').replace(/\0.*$/s, '')
}

/** A number in the order of this machine, as nft stores it. */
export function word(value: number): Uint8Array {
  const bytes = new Uint8Array(4)
  new DataView(bytes.buffer).setUint32(0, value, true)
  return bytes
}
