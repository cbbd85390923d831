/** A minimal protocol buffers wire format: varints and length-delimited fields, which is all that is needed here. */

/** The bytes of one message: fields in the order they are given. */
export class ProtoWriter {
  readonly #parts: Buffer[] = []

  /** A string or message; empty strings are left out, as proto3 does, empty messages are not. */
  bytes(field: number, value: string | Buffer): this {
    if (value === '') return this
    const body = typeof value === 'string' ? Buffer.from(value) : value
    this.#parts.push(varint((field << 3) | 2), varint(body.length), body)
    return this
  }

  finish(): Buffer {
    return Buffer.concat(this.#parts)
  }
}

function varint(value: number): Buffer {
  const bytes: number[] = []
  let rest = value
  while (rest > 0x7f) {
    bytes.push((rest & 0x7f) | 0x80)
    rest >>>= 7
  }
  bytes.push(rest)
  return Buffer.from(bytes)
}

/** One field as it is on the wire. */
export type WireField =
  | { readonly number: number; readonly wire: 'varint'; readonly value: bigint }
  | { readonly number: number; readonly wire: 'bytes'; readonly value: Buffer }
  | { readonly number: number; readonly wire: 'fixed'; readonly value: Buffer }

/** The fields of a message, in order. @throws RangeError on what is no message. */
export function* readFields(message: Buffer): Generator<WireField> {
  let at = 0
  const next = (): bigint => {
    let [value, shift] = [0n, 0n]
    for (;;) {
      const byte = message[at++]
      if (byte === undefined) throw new RangeError('the message ends within a number')
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return value
      shift += 7n
    }
  }
  const take = (length: number): Buffer => {
    if (at + length > message.length) throw new RangeError('the message ends within a field')
    at += length
    return message.subarray(at - length, at)
  }
  while (at < message.length) {
    const tag = Number(next())
    const [number, wire] = [tag >>> 3, tag & 7]
    if (wire === 0) yield { number, wire: 'varint', value: next() }
    else if (wire === 2) yield { number, wire: 'bytes', value: take(Number(next())) }
    else if (wire === 1 || wire === 5) yield { number, wire: 'fixed', value: take(wire === 1 ? 8 : 4) }
    else throw new RangeError(`unknown wire type ${wire}`)
  }
}
