const NEWLINE = 0x0a

/** A line longer than allowed: whoever sends it does not speak the protocol. */
export class LineTooLongError extends Error {
  constructor(limit: number) {
    super(`a line of the stream is longer than ${limit} bytes`)
    this.name = 'LineTooLongError'
  }
}

/**
 * Cuts a byte stream into lines. Every byte is looked at once and copied at most once, however the stream is chunked:
 * the parts of an unfinished line are kept as they came and joined when its end arrives. Lines are handed out as
 * bytes, so a UTF-8 character that was torn between two chunks is whole again.
 */
export class LineSplitter {
  readonly #maxBytes: number
  #parts: Buffer[] = []
  #length = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** True while bytes wait for their newline. */
  get unfinished(): boolean {
    return this.#length > 0
  }

  /** The complete, non-blank lines that `chunk` finishes, in order, without their newline. */
  *push(chunk: Buffer): Generator<Buffer> {
    let start = 0
    for (;;) {
      const end = chunk.indexOf(NEWLINE, start)
      if (end < 0) break
      const line = this.#finish(chunk.subarray(start, end))
      start = end + 1
      if (line.length > 0 && !isBlank(line)) yield line
    }
    if (start < chunk.length) this.#keep(chunk.subarray(start))
  }

  #keep(part: Buffer): void {
    this.#parts.push(part)
    this.#length += part.length
    if (this.#length > this.#maxBytes) throw new LineTooLongError(this.#maxBytes)
  }

  #finish(last: Buffer): Buffer {
    if (this.#length === 0) return last
    this.#parts.push(last)
    const line = Buffer.concat(this.#parts, this.#length + last.length)
    this.#parts = []
    this.#length = 0
    return line
  }
}

function isBlank(line: Buffer): boolean {
  return line.every((byte) => byte === 0x20 || byte === 0x0d || byte === 0x09)
}
