/**
 * The echo server of the lab's pods: says who it is and whom it saw, to HTTP (any path; `/slow?ms=N` answers later),
 * to a bare TCP connection, and to a UDP packet. One JSON line each.
 *
 * Environment: POD_NAME, POD_NAMESPACE, NODE_NAME, POD_IPS (comma separated), PORTS (`8080/TCP,8080/UDP`).
 * Prints `ready` when it listens. The first SIGTERM begins the grace period: it goes on serving, but asks clients to
 * close their connections. The second ends it: open requests may finish.
 */
import { createSocket } from 'node:dgram'
import { createServer as createHttpServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:net'
import type { Server, Socket } from 'node:net'

const environment = (name: string): string => process.env[name] ?? ''
const podIps = environment('POD_IPS').split(',')
/** How long a bare connection may be silent before it is greeted; an HTTP client on a busy machine may take its time. */
const GREETING_MS = 2000
const MAX_DELAY_MS = 60_000
const LAST_REQUESTS_MS = 2000
let terminating = false

interface Peer {
  readonly address: string
  readonly port: number
}

function line(protocol: string, port: number, peer: Peer, more: Record<string, unknown> = {}): string {
  const client = peer.address.replace(/^::ffff:/, '')
  const own = podIps.find((ip) => ip.includes(':') === client.includes(':')) ?? podIps[0] ?? ''
  return `${JSON.stringify({
    pod: environment('POD_NAME'),
    namespace: environment('POD_NAMESPACE'),
    node: environment('NODE_NAME'),
    server: at(own, port),
    client: at(client, peer.port),
    protocol,
    ...more,
  })}\n`
}

function at(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
}

function peerOf(socket: Socket): Peer {
  return { address: socket.remoteAddress ?? '', port: socket.remotePort ?? 0 }
}

function answerHttp(request: IncomingMessage, response: ServerResponse): void {
  const url = new URL(request.url ?? '/', 'http://pod')
  const delayMs =
    url.pathname === '/slow' ? Math.min(MAX_DELAY_MS, Number(url.searchParams.get('ms') ?? 1000)) : 0
  const port = request.socket.localPort ?? 0
  const text = line('TCP', port, peerOf(request.socket), { request: `${request.method} ${request.url}` })
  setTimeout(() => {
    if (terminating) response.setHeader('connection', 'close')
    response.setHeader('content-type', 'application/json')
    response.end(text)
  }, delayMs)
}

const http = createHttpServer(answerHttp)

/** HTTP goes to the HTTP server; anything else (also silence) gets one line, then the end. */
function onConnection(socket: Socket, port: number): void {
  const greet = (): void => void socket.end(line('TCP', port, peerOf(socket)))
  const timer = setTimeout(greet, GREETING_MS)
  socket.on('error', () => socket.destroy())
  socket.once('close', () => clearTimeout(timer))
  socket.once('data', (chunk: Buffer) => {
    clearTimeout(timer)
    if (!/^(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) /.test(chunk.toString('latin1', 0, 10))) return greet()
    socket.pause()
    socket.unshift(chunk)
    http.emit('connection', socket)
    socket.resume()
  })
}

function listenTcp(port: number): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => onConnection(socket, port))
    server.once('error', reject)
    server.listen({ port, host: '::', backlog: 1024 }, () => resolve(server))
  })
}

function listenUdp(port: number): Promise<{ close(): void }> {
  return new Promise((resolve, reject) => {
    const socket = createSocket('udp6')
    socket.once('error', reject)
    socket.on('message', (_message, from) =>
      socket.send(line('UDP', port, from), from.port, from.address, () => undefined),
    )
    socket.bind(port, '::', () => resolve(socket))
  })
}

const ports = environment('PORTS')
  .split(',')
  .filter((text) => text !== '')
  .map((text) => text.split('/') as [string, string])
const servers = await Promise.all(
  ports.map(([port, protocol]) => (protocol === 'UDP' ? listenUdp(Number(port)) : listenTcp(Number(port)))),
)
process.stdout.write('ready\n')

process.on('SIGTERM', () => {
  if (!terminating) {
    terminating = true
    return
  }
  for (const server of servers) server.close()
  http.closeIdleConnections()
  setTimeout(() => process.exit(0), LAST_REQUESTS_MS).unref()
})
if (servers.length === 0) setInterval(() => undefined, MAX_DELAY_MS) // keeps it alive until the signal
