import * as net from 'node:net'
import { listen } from './loopback-server.ts'

/** What happens to bytes: passed on, or lost both ways without a sign, as with a dead balancer or dropped packets. */
export interface Relay extends AsyncDisposable {
  readonly port: number
  /** Loses everything on the connections that are open now, and keeps them open. */
  freeze(): void
  /** Breaks the connections that are open now. */
  cut(): void
  /** What new connections get: passed on, accepted and never answered, or broken at once. */
  newConnections: 'passed' | 'ignored' | 'broken'
}

/** A TCP relay to a loopback port, standing for a layer 4 balancer. */
export async function relayTo(port: () => number): Promise<Relay> {
  const pairs = new Set<readonly [net.Socket, net.Socket]>()
  const server = net.createServer((client) => {
    if (relay.newConnections === 'ignored') return
    if (relay.newConnections === 'broken') {
      client.destroy()
      return
    }
    const upstream = net.connect(port(), '127.0.0.1')
    const pair = [client, upstream] as const
    pairs.add(pair)
    client.pipe(upstream).pipe(client)
    for (const socket of pair) {
      socket.on('error', () => {})
      socket.on('close', () => {
        if (pairs.delete(pair)) for (const other of pair) other.destroy()
      })
    }
  })
  const listening = await listen(server)
  const relay: Relay = {
    port: listening.port,
    newConnections: 'passed',
    freeze() {
      for (const [client, upstream] of pairs) {
        client.unpipe()
        upstream.unpipe()
        client.pause()
        upstream.destroy()
      }
      pairs.clear()
    },
    cut() {
      for (const pair of pairs) for (const socket of pair) socket.destroy()
    },
    [Symbol.asyncDispose]: async () => {
      relay.cut()
      await listening[Symbol.asyncDispose]()
    },
  }
  return relay
}
