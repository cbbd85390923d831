import { ApiAnswerError } from './errors.ts'

const QUOTE = 0x22
const BACKSLASH = 0x5c
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
const OPEN_ARRAY = 0x5b
const CLOSE_ARRAY = 0x5d
const COMMA = 0x2c
const ITEMS_KEY = /"items"\s*:\s*$/

/** The list object around the items: `items` is always empty here. */
export interface ListShell {
  readonly kind?: string
  readonly metadata?: { readonly resourceVersion?: string; readonly continue?: string }
  readonly items?: readonly unknown[] | null
}

/**
 * Takes a Kubernetes list apart while it arrives: each item is parsed as soon as its last byte is there, and never
 * two at a time, so that a list of any size needs memory for one item and not for all. It follows strings and
 * brackets only; JSON.parse judges the pieces.
 */
export class JsonListSplitter {
  #depth = 0
  #inString = false
  #escaped = false
  #inItems = false
  #parts: Buffer[] = []
  #shell: Buffer[] = []

  /** What is around the items, when the answer is complete. @throws ApiAnswerError if it is no complete list */
  finish(): ListShell {
    const text = Buffer.concat(this.#shell).toString('utf8')
    const shell = parse(text) as ListShell | null
    if (typeof shell !== 'object' || shell === null || !('items' in shell)) {
      throw new ApiAnswerError(`The answer is no list: it is ${text.slice(0, 80)}.`)
    }
    return shell
  }

  /** The items that `chunk` completes. @throws ApiAnswerError */
  *push(chunk: Buffer): Generator<unknown> {
    let start = 0
    for (let i = 0; i < chunk.length; i++) {
      const byte = chunk[i]!
      if (this.#inString) {
        if (this.#escaped) this.#escaped = false
        else if (byte === BACKSLASH) this.#escaped = true
        else if (byte === QUOTE) this.#inString = false
      } else if (byte === QUOTE) {
        this.#inString = true
      } else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
        if (byte === OPEN_ARRAY && this.#depth === 1 && !this.#inItems) {
          this.#shell.push(chunk.subarray(start, i))
          start = i
          this.#inItems = ITEMS_KEY.test(this.#shellTail())
          if (this.#inItems) {
            this.#shell.push(chunk.subarray(i, i + 1))
            start = i + 1
          }
        }
        this.#depth++
      } else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) {
        this.#depth--
        if (this.#inItems && this.#depth === 1) {
          yield* this.#item(chunk.subarray(start, i))
          this.#inItems = false
          start = i
        }
      } else if (byte === COMMA && this.#inItems && this.#depth === 2) {
        yield* this.#item(chunk.subarray(start, i))
        start = i + 1
      }
    }
    if (start < chunk.length) (this.#inItems ? this.#parts : this.#shell).push(chunk.subarray(start))
  }

  *#item(last: Buffer): Generator<unknown> {
    this.#parts.push(last)
    const text = Buffer.concat(this.#parts).toString('utf8')
    this.#parts = []
    if (text.trim() !== '') yield parse(text)
  }

  /** The last bytes before an array at the top level: enough for its key. */
  #shellTail(): string {
    return Buffer.concat(this.#shell.slice(-4)).subarray(-64).toString('latin1')
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch (cause) {
    const start = JSON.stringify(text.slice(0, 80))
    throw new ApiAnswerError(`The answer is not JSON: it has ${start}. Is this an API server?`, { cause })
  }
}
