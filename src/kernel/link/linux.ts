import { subscribe } from '../netlink/events.ts'
import type { NetlinkMessage } from '../netlink/reader.ts'
import { dump } from '../netlink/request.ts'
import { NETLINK_ROUTE, NetlinkSocket } from '../netlink/socket.ts'
import { decodeAddress, decodeLink } from './decode.ts'
import type { Link, LinkAddress, LinkPort } from './port.ts'

const RTM_GETLINK = 18
const RTM_GETADDR = 22
const RTNLGRP_LINK = 1
const RTNLGRP_IPV4_IFADDR = 5
const RTNLGRP_IPV6_IFADDR = 9

/** Interfaces and addresses of a network namespace (`netns`: a path such as /run/netns/x; default: the process's own). */
export async function openLink(options: { readonly netns?: string | null } = {}): Promise<LinkPort> {
  return new LinuxLink(options.netns ?? null)
}

class LinuxLink implements LinkPort {
  readonly #netns: string | null
  readonly #socket: NetlinkSocket
  readonly #end = new AbortController()
  #reads: Promise<unknown> = Promise.resolve()

  constructor(netns: string | null) {
    this.#netns = netns
    this.#socket = NetlinkSocket.open({ protocol: NETLINK_ROUTE, netns, receiveBuffer: 1 << 20 })
  }

  async links(): Promise<readonly Link[]> {
    const messages = await this.#dump('list interfaces', RTM_GETLINK, 16)
    return messages.map(({ body }) => decodeLink(body)).filter((link) => link !== null)
  }

  async addresses(): Promise<readonly LinkAddress[]> {
    const names = new Map((await this.links()).map(({ index, name }) => [index, name]))
    const messages = await this.#dump('list addresses', RTM_GETADDR, 8)
    return messages.flatMap(({ body }) => {
      const decoded = decodeAddress(body)
      // A link that came after the first listing: its arrival is told to watchers, who will ask again.
      const link = decoded === null ? undefined : names.get(decoded.index)
      return decoded === null || link === undefined ? [] : [{ link, ...decoded.address }]
    })
  }

  watch(signal: AbortSignal, onChange: () => void): void {
    const groups = [RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR]
    const until = AbortSignal.any([signal, this.#end.signal])
    subscribe({ protocol: NETLINK_ROUTE, netns: this.#netns, groups }, until, () => onChange())
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#end.abort()
    await this.#reads
    this.#socket.close()
  }

  /** One listing at a time: they share the socket. */
  #dump(operation: string, type: number, headerBytes: number): Promise<NetlinkMessage[]> {
    const result = this.#reads.then(() =>
      dump(this.#socket, { operation, type, body: (writer) => void writer.reserve(headerBytes) }),
    )
    this.#reads = result.catch(() => undefined)
    return result
  }
}
