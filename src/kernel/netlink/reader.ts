const TYPE_MASK = 0x3fff

/** One message of a datagram. `body` is what follows the netlink header. */
export interface NetlinkMessage {
  readonly type: number
  readonly flags: number
  readonly sequence: number
  /** The port id of the socket it answers, or in events of the one that caused it; 0 = the kernel. */
  readonly port: number
  readonly body: Buffer
}

/** The messages in a datagram; stops at the first malformed header. */
export function parseMessages(datagram: Buffer): NetlinkMessage[] {
  const messages: NetlinkMessage[] = []
  for (let at = 0; at + 16 <= datagram.length;) {
    const length = datagram.readUInt32LE(at)
    if (length < 16 || at + length > datagram.length) break
    messages.push({
      type: datagram.readUInt16LE(at + 4),
      flags: datagram.readUInt16LE(at + 6),
      sequence: datagram.readUInt32LE(at + 8),
      port: datagram.readUInt32LE(at + 12),
      body: datagram.subarray(at + 16, at + length),
    })
    at += (length + 3) & ~3
  }
  return messages
}

/**
 * Reads attributes. What is absent, or shorter than asked for, reads as null: a kernel newer or older than this
 * code may leave out or add attributes, and nothing that the kernel sends may crash the reader.
 */
export class Attributes {
  readonly #values: Map<number, Buffer>

  constructor(bytes: Buffer) {
    this.#values = new Map()
    for (const [type, value] of attributesIn(bytes)) this.#values.set(type, value)
  }

  raw(type: number): Buffer | null {
    return this.#values.get(type) ?? null
  }

  nested(type: number): Attributes | null {
    const value = this.raw(type)
    return value === null ? null : new Attributes(value)
  }

  /** The members of a nest that is a list, in order. */
  list(type: number): Buffer[] {
    const value = this.raw(type)
    return value === null ? [] : [...attributesIn(value)].map(([, member]) => member)
  }

  text(type: number): string | null {
    const value = this.raw(type)
    if (value === null) return null
    const end = value.indexOf(0)
    return value.toString('utf8', 0, end < 0 ? value.length : end)
  }

  u8(type: number): number | null {
    const value = this.raw(type)
    return value === null || value.length < 1 ? null : value.readUInt8(0)
  }

  u16(type: number): number | null {
    const value = this.raw(type)
    return value === null || value.length < 2 ? null : value.readUInt16BE(0)
  }

  u32(type: number): number | null {
    const value = this.raw(type)
    return value === null || value.length < 4 ? null : value.readUInt32BE(0)
  }

  u64(type: number): number | null {
    const value = this.raw(type)
    return value === null || value.length < 8 ? null : Number(value.readBigUInt64BE(0))
  }
}

/** Attribute types (without flag bits) and values, in order; stops at the first malformed one. */
export function* attributesIn(bytes: Buffer): Generator<readonly [number, Buffer]> {
  for (let at = 0; at + 4 <= bytes.length;) {
    const length = bytes.readUInt16LE(at)
    if (length < 4 || at + length > bytes.length) return
    yield [bytes.readUInt16LE(at + 2) & TYPE_MASK, bytes.subarray(at + 4, at + length)] as const
    at += (length + 3) & ~3
  }
}
