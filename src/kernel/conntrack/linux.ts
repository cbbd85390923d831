import type { IpFamily } from '../../net/family.ts'
import { PROTOCOL_NUMBER } from '../../net/protocol.ts'
import type { Protocol } from '../../net/protocol.ts'
import { KernelError, UnsupportedError } from '../../shared/errors.ts'
import { ERRNO } from '../ffi/errno.ts'
import { noNetAdmin } from '../netlink/errors.ts'
import { ask, dump } from '../netlink/request.ts'
import { NETLINK_NETFILTER, NetlinkSocket } from '../netlink/socket.ts'
import { openSysctl } from '../sysctl/linux.ts'
import type { SysctlPort } from '../sysctl/port.ts'
import { AF, CT_DELETE, CT_GET, decodeFlow, protocolIn, writeDeletion, writeFamily } from './messages.ts'
import type { ConntrackPort, Flow } from './port.ts'

/**
 * Connection tracking of a network namespace over netlink (`netns`: a path such as /run/netns/x; default: the process's
 * own). Its calls reject with UnsupportedError: NO_NET_ADMIN, NO_CONNTRACK.
 */
export async function openConntrack(
  options: { readonly netns?: string | null } = {},
): Promise<ConntrackPort> {
  const netns = options.netns ?? null
  const socket = NetlinkSocket.open({ protocol: NETLINK_NETFILTER, netns, receiveBuffer: 4 << 20 })
  return new LinuxConntrack(socket, openSysctl({ netns }))
}

class LinuxConntrack implements ConntrackPort {
  readonly #socket: NetlinkSocket
  readonly #sysctl: SysctlPort
  #queue: Promise<unknown> = Promise.resolve()

  constructor(socket: NetlinkSocket, sysctl: SysctlPort) {
    this.#socket = socket
    this.#sysctl = sysctl
  }

  list(family: IpFamily, protocol: Protocol): Promise<readonly Flow[]> {
    return this.#inTurn(async () => {
      const messages = await dump(this.#socket, {
        operation: `list ${family} flows`,
        type: CT_GET,
        body: (writer) => writeFamily(writer, AF[family]),
      })
      return messages
        .filter(({ body }) => protocolIn(body) === PROTOCOL_NUMBER[protocol])
        .map(({ body }) => decodeFlow(body))
        .filter((flow) => flow !== null)
    })
  }

  delete(flow: Flow): Promise<boolean> {
    const { source, destination, sourcePort, destinationPort } = flow.original
    return this.#inTurn(async () => {
      try {
        ask(this.#socket, {
          operation: `delete flow ${flow.protocol} ${source}:${sourcePort} to ${destination}:${destinationPort}`,
          type: CT_DELETE,
          body: (writer) => writeDeletion(writer, flow),
        })
        return true
      } catch (error) {
        if (error instanceof KernelError && error.errno === ERRNO.ENOENT) return false
        throw error
      }
    })
  }

  async usage(): Promise<{ readonly count: number; readonly max: number }> {
    const [count, max] = await Promise.all([
      this.#sysctl.read('net/netfilter/nf_conntrack_count'),
      this.#sysctl.read('net/netfilter/nf_conntrack_max'),
    ])
    // Not there before conntrack is first used in the namespace: it tracks nothing.
    return { count: Number(count ?? 0), max: Number(max ?? 0) }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#queue
    this.#socket.close()
  }

  /** One question at a time: they share the socket. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#queue.then(work).catch((error: unknown) => {
      throw unavailable(error)
    })
    this.#queue = result.catch(() => undefined)
    return result
  }
}

function unavailable(error: unknown): unknown {
  if (!(error instanceof KernelError)) return error
  if (error.errno === ERRNO.EPERM) return noNetAdmin('Connection tracking', error)
  if (error.errno !== ERRNO.EINVAL && error.errno !== ERRNO.EOPNOTSUPP) return error
  return new UnsupportedError(
    'NO_CONNTRACK',
    'Connection tracking',
    'a kernel with nf_conntrack_netlink',
    'Load the module (modprobe nf_conntrack_netlink).',
    { cause: error },
  )
}
