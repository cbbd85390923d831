import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { Socket } from 'node:net'
import { answerMessage } from './message.ts'
import type { ZoneView } from './zone.ts'

const IDLE_MS = 10_000
const LENGTH_BYTES = 2

/** Serves DNS over UDP and TCP on all addresses of this network namespace until the signal aborts. */
export async function serveDns(port: number, view: () => ZoneView, signal: AbortSignal): Promise<void> {
  const udp = createSocket({ type: 'udp6', signal })
  udp.on('message', (message, from) => {
    const answer = answerMessage(view(), message, 'udp')
    if (answer !== null) udp.send(answer, from.port, from.address, () => undefined)
  })
  udp.bind(port, '::')
  await once(udp, 'listening')
  const tcp = createServer((socket) => serveConnection(socket, view))
  tcp.listen({ port, host: '::', signal })
  await once(tcp, 'listening')
}

/** Messages over TCP have their length in front (RFC 1035 4.2.2); several may follow one another. */
function serveConnection(socket: Socket, view: () => ZoneView): void {
  let pending = Buffer.alloc(0)
  socket.setTimeout(IDLE_MS, () => socket.destroy())
  socket.on('error', () => socket.destroy())
  socket.on('data', (chunk) => {
    pending = Buffer.concat([pending, chunk])
    while (pending.length >= LENGTH_BYTES) {
      const end = LENGTH_BYTES + pending.readUInt16BE(0)
      if (pending.length < end) return
      const answer = answerMessage(view(), pending.subarray(LENGTH_BYTES, end), 'tcp')
      pending = pending.subarray(end)
      if (answer === null) return void socket.destroy()
      const head = Buffer.alloc(LENGTH_BYTES)
      head.writeUInt16BE(answer.length)
      socket.write(Buffer.concat([head, answer]))
    }
  })
}
