import koffi from 'koffi'

/**
 * The few libc calls that Node.js does not offer. Every wrapper returns the call's result, or minus the errno: koffi's
 * errno is the thread's live one, so it is read in the very next statement, before any other call can overwrite it.
 *
 * Buffers are passed in place; the kernel reads and writes their bytes.
 */

// dlopen(NULL): libc is in the process already, whatever its file is called (glibc, musl).
const lib = koffi.load(null)

const c = {
  socket: lib.func('int socket(int domain, int type, int protocol)'),
  bind: lib.func('int bind(int fd, const void *address, uint32_t length)'),
  getsockname: lib.func('int getsockname(int fd, void *address, void *length)'),
  setsockopt: lib.func('int setsockopt(int fd, int level, int name, const void *value, uint32_t length)'),
  send: lib.func('intptr_t send(int fd, const void *data, size_t length, int flags)'),
  recv: lib.func('intptr_t recv(int fd, void *data, size_t length, int flags)'),
  close: lib.func('int close(int fd)'),
  setns: lib.func('int setns(int fd, int type)'),
}

function checked(result: unknown): number {
  const errno = koffi.errno()
  const value = Number(result)
  return value < 0 ? -errno : value
}

export function socket(domain: number, type: number, protocol: number): number {
  return checked(c.socket(domain, type, protocol))
}

export function bind(fd: number, address: Uint8Array): number {
  return checked(c.bind(fd, address, address.length))
}

/** Fills `address` with the local address of the socket. */
export function getsockname(fd: number, address: Uint8Array): number {
  const length = new Uint32Array([address.length])
  return checked(c.getsockname(fd, address, length))
}

/** Sets an integer option. */
export function setsockopt(fd: number, level: number, name: number, value: number): number {
  return checked(c.setsockopt(fd, level, name, new Int32Array([value]), 4))
}

/** Attaches a classic BPF program (an array of struct sock_filter, 8 bytes each) to a socket; the kernel copies it. */
export function attachFilter(fd: number, program: Uint8Array): number {
  const [SOL_SOCKET, SO_ATTACH_FILTER] = [1, 26]
  // struct sock_fprog { unsigned short len; struct sock_filter *filter; }
  const description = Buffer.alloc(16)
  description.writeUInt16LE(program.length / 8, 0)
  description.writeBigUInt64LE(BigInt(koffi.address(program)), 8)
  return checked(c.setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, description, description.length))
}

/** Blocks this thread until the kernel has taken (for netlink: has handled) the message. */
export function send(fd: number, data: Uint8Array): number {
  return checked(c.send(fd, data, data.length, 0))
}

/** As {@link send}, on a pool thread: the event loop goes on. The caller must not touch `data` until it settles. */
export function sendAsync(fd: number, data: Uint8Array): Promise<number> {
  return new Promise((resolve, reject) => {
    c.send.async(fd, data, data.length, 0, (error: unknown, result: unknown) => {
      // errno is right here in the callback only.
      const outcome = checked(result)
      // koffi does not keep the buffer of an asynchronous call alive; this use of it does.
      if (error !== null && error !== undefined)
        reject(new Error(`send of ${data.length} bytes`, { cause: error }))
      else resolve(outcome)
    })
  })
}

const MSG_DONTWAIT = 0x40
const MSG_TRUNC = 0x20

/** Takes a waiting datagram without blocking; returns its whole length, which is more than the buffer's if it was cut. */
export function recv(fd: number, data: Uint8Array): number {
  return checked(c.recv(fd, data, data.length, MSG_DONTWAIT | MSG_TRUNC))
}

export function close(fd: number): number {
  return checked(c.close(fd))
}

/** Moves this thread to another network namespace. Only {@link inNamespace} may call it. */
export function setNetworkNamespace(fd: number): number {
  const CLONE_NEWNET = 0x40000000
  return checked(c.setns(fd, CLONE_NEWNET))
}

/** A watch on a raw file descriptor by the event loop. */
export interface Poll {
  close(): void
}

/**
 * Calls back whenever the descriptor has something to read, or an error to be fetched (libuv's uv_poll). Does not keep
 * the process alive.
 *
 * koffi's own type says that the callback gets the events; it gets (status, events). With an error waiting on the socket
 * (a netlink overrun) libuv stops watching and says so by a negative status: the watch is begun anew.
 */
export function pollReadable(fd: number, onReadable: () => void): Poll {
  let open = true
  const watch = (): ReturnType<typeof koffi.node.poll> => {
    const handle = koffi.node.poll(fd, { readable: true }, (status: unknown) => {
      onReadable()
      if (typeof status === 'number' && status < 0 && open) {
        current.close()
        current = watch()
      }
    })
    handle.unref()
    return handle
  }
  let current = watch()
  return {
    close: () => {
      open = false
      current.close()
    },
  }
}
