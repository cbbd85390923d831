import { pollReadable } from '../ffi/libc.ts'
import type { NetlinkMessage } from './reader.ts'
import { parseMessages } from './reader.ts'
import { NetlinkSocket } from './socket.ts'

const EVENT_BUFFER = 8 << 20
/** Datagrams handled before the event loop gets its turn. */
const DATAGRAMS_PER_TURN = 256

export interface EventOptions {
  readonly protocol: number
  readonly netns: string | null
  readonly groups: readonly number[]
  /** Events that the socket with this netlink address caused are not delivered. */
  readonly ignoreWriter?: number
  /** Bytes of events that may wait; default 8 MiB. */
  readonly receiveBuffer?: number
}

/**
 * Joins multicast groups and calls back for every message, in order, until the signal aborts. `resync`: the kernel
 * dropped events because they came faster than they were read. Does not keep the process alive.
 */
export function subscribe(
  options: EventOptions,
  signal: AbortSignal,
  onEvent: (event: NetlinkMessage | 'resync') => void,
): void {
  if (signal.aborted) return
  const socket = NetlinkSocket.open({ receiveBuffer: EVENT_BUFFER, ...options })
  let open = true
  const poll = pollReadable(socket.fd, read)
  signal.addEventListener('abort', stop, { once: true })

  function read(): void {
    for (let count = 0; count < DATAGRAMS_PER_TURN; count++) {
      // A callback may have ended the subscription.
      const datagram = open ? socket.receive() : null
      if (datagram === null) return
      if (datagram === 'overrun') onEvent('resync')
      else parseMessages(datagram).forEach((message) => open && onEvent(message))
    }
  }

  function stop(): void {
    open = false
    poll.close()
    socket.close()
  }
}
