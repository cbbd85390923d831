import { ApiAnswerError } from './errors.ts'
import { JsonListSplitter } from './json-list-splitter.ts'
import type { ListShell } from './json-list-splitter.ts'
import { LineSplitter } from './line-splitter.ts'

/**
 * How API objects travel: the seam between content type and object. The rest of the folder sees objects in the shape
 * of objects.ts, whatever they were on the wire.
 */
export interface Codec {
  /** Value of the Accept header. */
  readonly accept: string
  /** One whole answer. @throws ApiAnswerError */
  decode(body: Buffer): unknown
  /** Takes a list apart while it arrives. */
  list(): ListSplitter
  /** Cuts a watch stream into frames, each one event. */
  frames(maxBytes: number): FrameSplitter
  /** One frame of a watch. @throws if it is not in this format */
  decodeFrame(frame: Buffer): unknown
}

export interface ListSplitter {
  /** The items that the chunk completes. @throws ApiAnswerError */
  push(chunk: Buffer): Iterable<unknown>
  /** What is around the items. @throws ApiAnswerError if the list is not complete */
  finish(): ListShell
}

export interface FrameSplitter {
  push(chunk: Buffer): Iterable<Buffer>
}

/** `application/json`; a watch is one JSON object a line. */
export const jsonCodec: Codec = {
  accept: 'application/json',
  decode(body) {
    try {
      return JSON.parse(body.toString('utf8')) as unknown
    } catch (cause) {
      const start = JSON.stringify(body.subarray(0, 80).toString('utf8'))
      throw new ApiAnswerError(`The answer is not JSON: it starts with ${start}. Is this an API server?`, {
        cause,
      })
    }
  },
  list: () => new JsonListSplitter(),
  frames: (maxBytes) => new LineSplitter(maxBytes),
  decodeFrame: (frame) => JSON.parse(frame.toString('utf8')) as unknown,
}
