import * as http from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'

interface KeptOptions extends http.ClientRequestArgs {
  readonly opened?: Socket
}

/**
 * HTTP/1.1 connections that are kept for the next request. It never opens one itself (it would do so without TLS and
 * without the forward proxy): the caller brings an open socket, or there must be a kept one.
 */
export class KeptConnections extends http.Agent {
  constructor() {
    super({ keepAlive: true, maxFreeSockets: 4, timeout: 30_000 })
  }

  override createConnection(options: KeptOptions): Duplex {
    if (options.opened !== undefined) return options.opened
    throw Object.assign(new Error('the kept connection is gone'), { code: 'ECONNRESET', reused: true })
  }

  get hasIdle(): boolean {
    return Object.values(this.freeSockets).some(
      (sockets) => sockets?.some((socket) => !socket.destroyed) ?? false,
    )
  }

  /** Ends the connections that nobody is using. */
  dropIdle(): void {
    for (const sockets of Object.values(this.freeSockets))
      for (const socket of sockets ?? []) socket.destroy()
  }
}
