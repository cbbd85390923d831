import { UnsupportedError } from '../../shared/errors.ts'
import { ERRNO } from '../ffi/errno.ts'
import * as libc from '../ffi/libc.ts'
import { inNamespace } from '../ffi/namespace.ts'
import { kernelError } from './errors.ts'

/** Netlink protocols (linux/netlink.h). */
export const NETLINK_ROUTE = 0
export const NETLINK_NETFILTER = 12

const AF_NETLINK = 16
const SOCK_RAW = 3
const SOCK_CLOEXEC = 0o2000000
const SOL_SOCKET = 1
const SO_SNDBUFFORCE = 32
const SO_RCVBUFFORCE = 33
const SOL_NETLINK = 270
const NETLINK_ADD_MEMBERSHIP = 1
const NETLINK_NO_ENOBUFS = 5
const NETLINK_CAP_ACK = 10
const NETLINK_EXT_ACK = 11

const DATAGRAM_BYTES = 1 << 16

export interface NetlinkSocketOptions {
  readonly protocol: number
  /** Path of the network namespace to work in (such as /run/netns/x); null = the process's own. */
  readonly netns?: string | null
  /** Multicast groups to join, by number. */
  readonly groups?: readonly number[]
  /** Most bytes of one message that can be sent; needs CAP_NET_ADMIN, silently less without. */
  readonly sendBuffer?: number
  readonly receiveBuffer?: number
  /** Have the kernel leave out what the socket with this netlink address caused. */
  readonly ignoreWriter?: number
}

/** A netlink socket. Sending is synchronous for the kernel too: when it returns, the answers are waiting. */
export class NetlinkSocket {
  readonly fd: number
  /** The address of this socket: how the kernel names the writer of a change. */
  readonly port: number
  readonly #receiveBuffer = Buffer.alloc(DATAGRAM_BYTES)
  #sequence = 0
  #closed = false

  private constructor(fd: number, port: number) {
    this.fd = fd
    this.port = port
  }

  static open(options: NetlinkSocketOptions): NetlinkSocket {
    const fd = inNamespace(options.netns ?? null, () =>
      libc.socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, options.protocol),
    )
    if (fd < 0) throw socketFailure(options.protocol, -fd)
    try {
      if (options.sendBuffer) libc.setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, options.sendBuffer)
      if (options.receiveBuffer) libc.setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, options.receiveBuffer)
      libc.setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, 1)
      libc.setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, 1)
      const address = Buffer.alloc(12)
      address.writeUInt16LE(AF_NETLINK, 0)
      must('bind netlink socket', libc.bind(fd, address))
      must('name netlink socket', libc.getsockname(fd, address))
      if (options.ignoreWriter !== undefined) {
        must('attach socket filter', libc.attachFilter(fd, allButWriter(options.ignoreWriter)))
      }
      for (const group of options.groups ?? []) {
        must(`join netlink group ${group}`, libc.setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group))
      }
      return new NetlinkSocket(fd, address.readUInt32LE(4))
    } catch (error) {
      libc.close(fd)
      throw error
    }
  }

  /** Makes the kernel drop answers silently when they overflow the socket's buffer. */
  ignoreOverflow(): void {
    libc.setsockopt(this.fd, SOL_NETLINK, NETLINK_NO_ENOBUFS, 1)
  }

  /** A fresh run of `count` sequence numbers; returns the first. */
  sequence(count = 1): number {
    if (this.#sequence + count > 0xffff_fff0) this.#sequence = 0
    const first = this.#sequence + 1
    this.#sequence += count
    return first
  }

  send(data: Uint8Array): void {
    this.#assertOpen()
    must(`send ${data.length} bytes of netlink`, libc.send(this.fd, data))
  }

  /** On a pool thread; `data` must not change until it settles. */
  async sendAsync(data: Uint8Array): Promise<void> {
    this.#assertOpen()
    must(`send ${data.length} bytes of netlink`, await libc.sendAsync(this.fd, data))
  }

  /**
   * A waiting datagram (a copy), or null if there is none. `overrun`: the kernel had to drop some, because they were not
   * taken fast enough (ENOBUFS).
   */
  receive(): Buffer | null | 'overrun' {
    this.#assertOpen()
    for (;;) {
      const length = libc.recv(this.fd, this.#receiveBuffer)
      if (length === -ERRNO.EAGAIN) return null
      if (length === -ERRNO.EINTR) continue
      if (length === -ERRNO.ENOBUFS) return 'overrun'
      must('receive netlink', length)
      if (length > DATAGRAM_BYTES) return 'overrun'
      return Buffer.from(this.#receiveBuffer.subarray(0, length))
    }
  }

  /** Throws away whatever is waiting. */
  drain(): void {
    while (this.receive() !== null);
  }

  close(): void {
    if (this.#closed) return
    this.#closed = true
    libc.close(this.fd)
  }

  // A closed descriptor's number may belong to somebody else by now.
  #assertOpen(): void {
    if (this.#closed) throw new Error('this netlink socket is closed')
  }
}

/**
 * A classic BPF program (linux/filter.h) that drops datagrams whose first message names this writer; all messages of a
 * datagram come from one commit. A word is loaded big endian, the field is host endian.
 */
function allButWriter(port: number): Buffer {
  const [LOAD_WORD, JUMP_IF_EQUAL, RETURN] = [0x20, 0x15, 0x06]
  const WRITER_OFFSET = 12
  const wanted = Buffer.alloc(4)
  wanted.writeUInt32LE(port)
  const program = [
    [LOAD_WORD, 0, 0, WRITER_OFFSET],
    [JUMP_IF_EQUAL, 0, 1, wanted.readUInt32BE()],
    [RETURN, 0, 0, 0],
    [RETURN, 0, 0, 0xffff_ffff],
  ] as const
  const bytes = Buffer.alloc(8 * program.length)
  program.forEach(([code, ifTrue, ifFalse, value], i) => {
    bytes.writeUInt16LE(code, 8 * i)
    bytes.writeUInt8(ifTrue, 8 * i + 2)
    bytes.writeUInt8(ifFalse, 8 * i + 3)
    bytes.writeUInt32LE(value, 8 * i + 4)
  })
  return bytes
}

function must(operation: string, result: number): number {
  if (result < 0) throw kernelError(operation, -result)
  return result
}

function socketFailure(protocol: number, errno: number): Error {
  if (errno === ERRNO.EPROTONOSUPPORT || errno === ERRNO.EAFNOSUPPORT) {
    return new UnsupportedError(
      'NO_NETLINK',
      `Netlink protocol ${protocol}`,
      protocol === NETLINK_NETFILTER ? 'a kernel with nfnetlink' : 'a kernel with netlink',
      'Load the module (modprobe nfnetlink) or use a kernel that has it.',
    )
  }
  return kernelError('open netlink socket', errno)
}
