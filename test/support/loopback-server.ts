import type { AddressInfo, Server, Socket } from 'node:net'

/** A listening server with the means to end it together with its connections. */
export interface Listening extends AsyncDisposable {
  readonly port: number
  readonly sockets: ReadonlySet<Socket>
  /** Connections so far. */
  readonly accepted: number
}

/** Listens on a loopback port that the kernel picks. */
export async function listen(server: Server, port = 0, host = '127.0.0.1'): Promise<Listening> {
  const sockets = new Set<Socket>()
  let accepted = 0
  server.on('connection', (socket: Socket) => {
    accepted++
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => {})
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
  return {
    port: (server.address() as AddressInfo).port,
    sockets,
    get accepted() {
      return accepted
    },
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}
