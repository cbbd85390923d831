import { setImmediate as nextTurn } from 'node:timers/promises'
import { ERRNO } from '../ffi/errno.ts'
import type { NetlinkMessage } from './reader.ts'
import { Attributes, parseMessages } from './reader.ts'
import type { NetlinkSocket } from './socket.ts'
import { kernelError } from './errors.ts'
import { NetlinkWriter } from './writer.ts'

export const NLM_F_REQUEST = 0x1
export const NLM_F_ACK = 0x4
export const NLM_F_DUMP_INTR = 0x10
export const NLM_F_DUMP = 0x300
const NLM_F_CAPPED = 0x100
const NLM_F_ACK_TLVS = 0x200

export const NLMSG_ERROR = 2
export const NLMSG_DONE = 3

const NLMSGERR_ATTR_MSG = 1
const NLMSGERR_ATTR_OFFS = 2

/** Dumps are repeated this often when the kernel says that what they show changed meanwhile. */
const DUMP_ATTEMPTS = 30
/** Datagrams (of up to 32 KiB) read before the event loop gets its turn. */
const DATAGRAMS_PER_TURN = 32

/** What an NLMSG_ERROR says. `errno` 0 = done; `offset` is of the bad attribute within the message it answers. */
export interface NetlinkAck {
  readonly errno: number
  readonly message: string | null
  readonly offset: number | null
}

/** Reads an NLMSG_ERROR (or the error in an NLMSG_DONE). */
export function parseAck(message: NetlinkMessage): NetlinkAck {
  const { body, flags } = message
  if (body.length < 4) return { errno: 0, message: null, offset: null }
  const errno = -body.readInt32LE(0)
  let tlvs: Attributes | null = null
  if ((flags & NLM_F_ACK_TLVS) !== 0) {
    let at = 4
    if (message.type === NLMSG_ERROR && body.length >= 20) {
      // Not capped: the whole refused message stands before the attributes.
      const quoted = (flags & NLM_F_CAPPED) === 0 ? body.readUInt32LE(4) : 16
      at += errno === 0 ? 16 : (quoted + 3) & ~3
    }
    tlvs = new Attributes(body.subarray(Math.min(at, body.length)))
  }
  const offset = tlvs?.raw(NLMSGERR_ATTR_OFFS)
  return {
    errno,
    message: tlvs?.text(NLMSGERR_ATTR_MSG) ?? null,
    offset: offset && offset.length >= 4 ? offset.readUInt32LE(0) : null,
  }
}

/** Writes the body of a request (its family header and attributes) after the netlink header. */
export type WriteBody = (writer: NetlinkWriter) => void

export interface Request {
  /** What it is for, as in `the kernel refused to <operation>`. */
  readonly operation: string
  readonly type: number
  readonly flags?: number
  readonly body: WriteBody
}

function encode(request: Request, flags: number, sequence: number): Buffer {
  const writer = new NetlinkWriter(256)
  writer.begin(request.type, NLM_F_REQUEST | (request.flags ?? 0) | flags, sequence)
  request.body(writer)
  writer.end()
  return writer.bytes()
}

/** One question, one answer (or an acknowledgement: null). Rejections of the kernel throw KernelError. */
export function ask(socket: NetlinkSocket, request: Request): NetlinkMessage | null {
  const sequence = socket.sequence()
  socket.send(encode(request, NLM_F_ACK, sequence))
  let answer: NetlinkMessage | null = null
  for (;;) {
    const datagram = socket.receive()
    if (datagram === null || datagram === 'overrun') {
      throw kernelError(request.operation, datagram === null ? ERRNO.EPROTO : ERRNO.ENOBUFS)
    }
    for (const message of parseMessages(datagram)) {
      if (message.sequence !== sequence) continue
      if (message.type !== NLMSG_ERROR) {
        answer = message
        continue
      }
      const ack = parseAck(message)
      if (ack.errno !== 0) throw kernelError(request.operation, ack.errno, { extack: ack.message })
      return answer
    }
  }
}

/** All objects of a dump; repeated until nothing changed while it ran. */
export async function dump(socket: NetlinkSocket, request: Request): Promise<NetlinkMessage[]> {
  for (let attempt = 0; attempt < DUMP_ATTEMPTS; attempt++) {
    const messages = await dumpOnce(socket, request)
    if (messages !== null) return messages
  }
  throw kernelError(request.operation, ERRNO.EINTR, {
    extack: `changed during each of ${DUMP_ATTEMPTS} readings`,
  })
}

/** Null if it was interrupted by a change or lost parts. */
async function dumpOnce(socket: NetlinkSocket, request: Request): Promise<NetlinkMessage[] | null> {
  const sequence = socket.sequence()
  socket.send(encode(request, NLM_F_DUMP, sequence))
  const messages: NetlinkMessage[] = []
  let interrupted = false
  for (let count = 1; ; count++) {
    const datagram = socket.receive()
    if (datagram === null)
      throw kernelError(request.operation, ERRNO.EPROTO, { extack: 'the listing has no end' })
    if (datagram === 'overrun') {
      interrupted = true
      continue
    }
    for (const message of parseMessages(datagram)) {
      if (message.sequence !== sequence) continue
      if ((message.flags & NLM_F_DUMP_INTR) !== 0) interrupted = true
      if (message.type === NLMSG_DONE || message.type === NLMSG_ERROR) {
        const ack = parseAck(message)
        // Some dumps (nf_tables set elements) report a change as EINTR instead of by the flag.
        if (ack.errno === ERRNO.EINTR) return null
        if (ack.errno !== 0) throw kernelError(request.operation, ack.errno, { extack: ack.message })
        return interrupted ? null : messages
      }
      messages.push(message)
    }
    if (count % DATAGRAMS_PER_TURN === 0) await nextTurn()
  }
}
