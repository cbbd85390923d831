const HEADER = 16
const NLA_F_NESTED = 0x8000
const NLA_MAX = 0xffff

/**
 * Builds netlink messages one after the other in one growing buffer (linux/netlink.h). Lengths are written when a
 * message or nest ends; an attribute that outgrows its 16-bit length throws instead of wrapping silently.
 *
 * Headers and lengths are in host order: all platforms of the product are little-endian.
 */
export class NetlinkWriter {
  #buffer: Buffer
  #length = 0
  #messageStart = -1

  constructor(initialBytes = 4096) {
    this.#buffer = Buffer.alloc(initialBytes)
  }

  /** Bytes written so far: the offset of what comes next. */
  get length(): number {
    return this.#length
  }

  /** What was written; a view that the next write may invalidate. */
  bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length)
  }

  /** Starts a message; its length is set by {@link end}. */
  begin(type: number, flags: number, sequence: number): void {
    if (this.#messageStart >= 0) throw new Error('a netlink message is still open')
    this.#messageStart = this.#length
    const at = this.reserve(HEADER)
    this.#buffer.writeUInt16LE(type, at + 4)
    this.#buffer.writeUInt16LE(flags, at + 6)
    this.#buffer.writeUInt32LE(sequence >>> 0, at + 8)
  }

  end(): void {
    this.#buffer.writeUInt32LE(this.#length - this.#messageStart, this.#messageStart)
    this.#messageStart = -1
  }

  /** Appends zeros, rounded up to 4, and returns where they start. */
  reserve(bytes: number): number {
    const at = this.#length
    const next = at + ((bytes + 3) & ~3)
    if (next > this.#buffer.length) this.#grow(next)
    this.#length = next
    return at
  }

  /** The buffer itself, for writing into what was reserved. Invalid after the next reservation. */
  get buffer(): Buffer {
    return this.#buffer
  }

  /** An attribute of `length` bytes (padded with zeros); returns where its value starts. */
  attribute(type: number, length: number): number {
    if (length + 4 > NLA_MAX) throw new RangeError(`netlink attribute ${type} of ${length} bytes is too long`)
    const at = this.reserve(length + 4)
    this.#buffer.writeUInt16LE(length + 4, at)
    this.#buffer.writeUInt16LE(type, at + 2)
    return at + 4
  }

  /** Opens a nest; give what it returns to {@link close}. */
  open(type: number): number {
    return this.attribute(type | NLA_F_NESTED, 0) - 4
  }

  close(nest: number): void {
    const length = this.#length - nest
    if (length > NLA_MAX) throw new RangeError(`netlink nest of ${length} bytes is too long`)
    this.#buffer.writeUInt16LE(length, nest)
  }

  /** A zero-terminated text. */
  text(type: number, value: string): void {
    const length = Buffer.byteLength(value)
    const at = this.attribute(type, length + 1)
    this.#buffer.write(value, at)
  }

  data(type: number, value: Uint8Array): void {
    const at = this.attribute(type, value.length)
    this.#buffer.set(value, at)
  }

  u8(type: number, value: number): void {
    const at = this.attribute(type, 1)
    this.#buffer.writeUInt8(value, at)
  }

  /** Big endian, as netfilter has all its numbers. */
  u16(type: number, value: number): void {
    const at = this.attribute(type, 2)
    this.#buffer.writeUInt16BE(value, at)
  }

  /** Big endian, as netfilter has all its numbers. */
  u32(type: number, value: number): void {
    const at = this.attribute(type, 4)
    this.#buffer.writeUInt32BE(value >>> 0, at)
  }

  /** Big endian, as netfilter has all its numbers. */
  u64(type: number, value: number): void {
    const at = this.attribute(type, 8)
    this.#buffer.writeBigUInt64BE(BigInt(value), at)
  }

  #grow(needed: number): void {
    const bigger = Buffer.alloc(Math.max(needed, this.#buffer.length * 2))
    this.#buffer.copy(bigger, 0, 0, this.#length)
    this.#buffer = bigger
  }
}
