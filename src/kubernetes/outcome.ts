import { ProxyError } from '../shared/errors.ts'
import { ApiAnswerError, ApiStatusError, OwnEnd } from './errors.ts'
import type { Collection } from './mirror.ts'
import { statusErrorOfEvent } from './status-error.ts'
import type { WatchEvent } from './watch.ts'

/** Why a watch is over although nothing failed. */
export type Ending = 'ended' | 'quiet' | 'relist'

export class Quiet extends OwnEnd {}
export class RelistDue extends OwnEnd {}
/** The server sent no end mark for its initial events: it does not know streaming lists. */
export class NoEndMark extends OwnEnd {}
/** The server's versions became smaller: its history is another one. */
export class WentBackError extends ApiAnswerError {}

/** Statuses by which servers say that they do not know `sendInitialEvents`, or not for this resource. */
const NO_STREAMING_LIST = new Set([400, 405, 406, 415, 422, 501])
/** Takes one initial event of a streaming list; true if it is the end mark. */
export function collectInitial(
  initial: Collection,
  event: WatchEvent,
  options: { readonly path: string; readonly client: { readonly access: { readonly server: string } } },
): boolean {
  switch (event.type) {
    case 'ADDED':
    case 'MODIFIED':
      initial.add(event.object)
      return false
    case 'DELETED':
      initial.remove(event.object)
      return false
    case 'BOOKMARK':
      return event.initialEventsEnd
    case 'ERROR':
      throw statusErrorOfEvent(options.client.access.server, options.path, event.status)
    case 'UNDECODABLE':
      throw new ApiAnswerError(
        `The streaming list of ${options.path} has something that is no event (${event.error.message}): ${event.excerpt}`,
        { cause: event.error },
      )
  }
}

/** The server does not know streaming lists, or not for this collection. */
export function isNoStreamingList(error: unknown): boolean {
  return (
    error instanceof NoEndMark || (error instanceof ApiStatusError && NO_STREAMING_LIST.has(error.status))
  )
}

/** Failures after which the version at hand is of no use. */
export function needsList(error: unknown): boolean {
  if (error instanceof ApiStatusError) return error.isExpired || error.isAheadOfServer
  // An error that is not ours came out of the sink: what it made of the event is not known.
  return error instanceof WentBackError || !(error instanceof ProxyError)
}

/** Versions that are numbers are ordered (KEP-5504); others are not compared. */
export function isOlder(version: string, than: string): boolean {
  const number = /^\d+$/
  if (!number.test(version) || !number.test(than)) return false
  return version.length === than.length ? version < than : version.length < than.length
}
