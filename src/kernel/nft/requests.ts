import { KernelError } from '../../shared/errors.ts'
import { ERRNO } from '../ffi/errno.ts'
import type { NetlinkMessage } from '../netlink/reader.ts'
import type { Request } from '../netlink/request.ts'
import { ask, dump } from '../netlink/request.ts'
import type { NetlinkSocket } from '../netlink/socket.ts'
import type { NetlinkWriter } from '../netlink/writer.ts'
import { decodeSet, openBody } from './decode-objects.ts'
import type { NftFamily, NftSet } from './ruleset.ts'
import { ELEM_LIST, FAMILY_NUMBER, GEN_ID, MSG, RULE, SET, TABLE } from './wire.ts'

/** The header that every nfnetlink message begins with. */
function familyHeader(writer: NetlinkWriter, family: number): void {
  // Two statements: reserving may replace the buffer.
  const at = writer.reserve(4)
  writer.buffer.writeUInt8(family, at)
}

function request(
  operation: string,
  type: number,
  family: NftFamily | null,
  texts: readonly (readonly [attribute: number, value: string])[] = [],
): Request {
  return {
    operation,
    type,
    body: (writer) => {
      familyHeader(writer, family === null ? 0 : FAMILY_NUMBER[family])
      for (const [attribute, value] of texts) writer.text(attribute, value)
    },
  }
}

/** The ruleset generation now. */
export function readGeneration(socket: NetlinkSocket): number {
  const answer = ask(socket, request('read the ruleset generation', MSG.GETGEN, null))
  return (answer === null ? null : openBody(answer.body)?.attributes.u32(GEN_ID)) ?? 0
}

/** One object, or null if it (or its table) is not there. */
function find(socket: NetlinkSocket, question: Request): NetlinkMessage | null {
  try {
    return ask(socket, question)
  } catch (error) {
    if (error instanceof KernelError && error.errno === ERRNO.ENOENT) return null
    throw error
  }
}

export function findTable(socket: NetlinkSocket, family: NftFamily, table: string): NetlinkMessage | null {
  return find(socket, request(`read table ${family} ${table}`, MSG.GETTABLE, family, [[TABLE.NAME, table]]))
}

/** The shape of a named set, or null if there is none. */
export function findSet(
  socket: NetlinkSocket,
  family: NftFamily,
  table: string,
  name: string,
): NftSet | null {
  const answer = find(
    socket,
    request(`read set ${family} ${table} ${name}`, MSG.GETSET, family, [
      [SET.TABLE, table],
      [SET.NAME, name],
    ]),
  )
  return answer === null ? null : (decodeSet(answer.body)?.set ?? null)
}

export function dumpTables(socket: NetlinkSocket): Promise<NetlinkMessage[]> {
  return dump(socket, request('list tables', MSG.GETTABLE, null))
}

/** Chains of all tables of the family: the kernel cannot choose. */
export function dumpChains(socket: NetlinkSocket, family: NftFamily): Promise<NetlinkMessage[]> {
  return dump(socket, request(`list chains of ${family}`, MSG.GETCHAIN, family))
}

export function dumpRules(
  socket: NetlinkSocket,
  family: NftFamily,
  table: string,
): Promise<NetlinkMessage[]> {
  return dump(socket, request(`list rules of ${family} ${table}`, MSG.GETRULE, family, [[RULE.TABLE, table]]))
}

export function dumpSets(socket: NetlinkSocket, family: NftFamily, table: string): Promise<NetlinkMessage[]> {
  return dump(socket, request(`list sets of ${family} ${table}`, MSG.GETSET, family, [[SET.TABLE, table]]))
}

export function dumpElements(
  socket: NetlinkSocket,
  family: NftFamily,
  table: string,
  set: string,
): Promise<NetlinkMessage[]> {
  return dump(
    socket,
    request(`list elements of ${family} ${table} ${set}`, MSG.GETSETELEM, family, [
      [ELEM_LIST.TABLE, table],
      [ELEM_LIST.SET, set],
    ]),
  )
}
