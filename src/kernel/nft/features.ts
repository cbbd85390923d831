import { ERRNO } from '../ffi/errno.ts'
import { parseMessages } from '../netlink/reader.ts'
import { NLM_F_REQUEST, NLMSG_ERROR, parseAck } from '../netlink/request.ts'
import type { NetlinkSocket } from '../netlink/socket.ts'
import { NetlinkWriter } from '../netlink/writer.ts'
import { FIB, writeExpressions } from './expressions.ts'
import type { NftFeatures } from './port.ts'
import {
  CHAIN,
  FAMILY_NUMBER,
  MSG,
  NFNL_BATCH_BEGIN,
  NFNL_BATCH_END,
  NFNL_SUBSYS_NFTABLES,
  NLM_F_CREATE,
  RULE,
  TABLE,
  TABLE_FLAG,
} from './wire.ts'

type Step = readonly [type: number, flags: number, body: (writer: NetlinkWriter) => void]

/**
 * Tries features out in batches that cannot succeed: their last step deletes a table that is not there, so the kernel
 * undoes the rest and nothing is ever visible. What counts is which steps it complains about.
 */
export function probeFeatures(socket: NetlinkSocket): NftFeatures {
  const table = `switchback-probe-${socket.port}`
  const flags = TABLE_FLAG.OWNER | TABLE_FLAG.PERSIST
  const owned = probe(socket, table, [
    [
      MSG.NEWTABLE,
      NLM_F_CREATE,
      (writer) => {
        writer.text(TABLE.NAME, table)
        writer.u32(TABLE.FLAGS, flags)
      },
    ],
  ])
  const fib = probe(socket, table, [
    [MSG.NEWTABLE, NLM_F_CREATE, (writer) => writer.text(TABLE.NAME, table)],
    [
      MSG.NEWCHAIN,
      NLM_F_CREATE,
      (writer) => {
        writer.text(CHAIN.TABLE, table)
        writer.text(CHAIN.NAME, 'probe')
      },
    ],
    [
      MSG.NEWRULE,
      NLM_F_CREATE,
      (writer) => {
        writer.text(RULE.TABLE, table)
        writer.text(RULE.CHAIN, 'probe')
        const list = writer.open(RULE.EXPRESSIONS)
        writeExpressions(writer, [{ is: 'fib', to: 0, result: FIB.ADDRTYPE, flags: FIB.DADDR }])
        writer.close(list)
      },
    ],
  ])
  return { ownedTables: owned, fib }
}

/** True if the kernel accepts the steps; null if it says nothing that can be understood. */
function probe(socket: NetlinkSocket, table: string, steps: readonly Step[]): boolean | null {
  const undo: Step = [MSG.DELTABLE, 0, (writer) => writer.text(TABLE.NAME, `${table}-absent`)]
  const all = [...steps, undo]
  const first = socket.sequence(all.length + 2)
  socket.drain()
  socket.send(encodeProbe(all, first))
  const errors = new Map<number, number>()
  for (let datagram = socket.receive(); datagram !== null; datagram = socket.receive()) {
    if (datagram === 'overrun') return null
    for (const message of parseMessages(datagram)) {
      if (message.type === NLMSG_ERROR) errors.set(message.sequence - first, parseAck(message).errno)
    }
  }
  if (errors.has(0)) return null
  if (steps.some((_, i) => errors.has(i + 1))) return false
  return errors.get(all.length) === ERRNO.ENOENT ? true : null
}

function encodeProbe(steps: readonly Step[], first: number): Buffer {
  const writer = new NetlinkWriter(1024)
  const frame = (type: number, sequence: number): void => {
    writer.begin(type, NLM_F_REQUEST, sequence)
    writer.buffer.writeUInt16BE(NFNL_SUBSYS_NFTABLES, writer.reserve(4) + 2)
    writer.end()
  }
  frame(NFNL_BATCH_BEGIN, first)
  for (const [i, [type, flags, body]] of steps.entries()) {
    writer.begin(type, NLM_F_REQUEST | flags, first + 1 + i)
    writer.buffer.writeUInt8(FAMILY_NUMBER.ip, writer.reserve(4))
    body(writer)
    writer.end()
  }
  frame(NFNL_BATCH_END, first + 1 + steps.length)
  return writer.bytes()
}
