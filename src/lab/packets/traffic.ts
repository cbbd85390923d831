import { createSocket } from 'node:dgram'
import type { Socket as UdpSocket } from 'node:dgram'
import { createServer, connect } from 'node:net'
import type { Server, Socket } from 'node:net'
import { createInterface } from 'node:readline'
import type { FlowResult, ListenSocket, SendOrder, TrafficAnswer, TrafficRequest } from './protocol.ts'

/**
 * The traffic program of one namespace: it listens, sends flows and says what became of them, commanded by lines of
 * JSON (protocol.ts). One process per namespace serves any number of flows.
 */

/** Flows under way at a time, so that no queue or conntrack table overflows. */
const FLOWS_AT_ONCE = 48

const listeners = new Set<Server | UdpSocket>()

async function obey(request: TrafficRequest): Promise<TrafficAnswer> {
  const { id } = request
  switch (request.do) {
    case 'listen':
      await Promise.all(request.sockets.map(listen))
      return { id, ok: true }
    case 'send':
      return { id, ok: true, flows: await sendAll(request) }
    case 'get':
      return { id, ok: true, body: await fetchBody(request.url, request.timeoutMs) }
  }
}

/** The body of an answer; empty when there is none. */
async function fetchBody(url: string, timeoutMs: number): Promise<string> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(timeoutMs) })
    return await response.text()
  } catch {
    return ''
  }
}

/** What a listener says to a client: where its packet arrived and whom it came from. */
interface Testimony {
  readonly at: string
  readonly seen: string
  readonly port: number
}

function testimony(at: ListenSocket, seen: string | undefined, port: number | undefined): string {
  const words: Testimony = { at: socketText(at.ip, at.port), seen: plainIp(seen ?? ''), port: port ?? 0 }
  return `${JSON.stringify(words)}\n`
}

function socketText(ip: string, port: number): string {
  const plain = plainIp(ip)
  return plain.includes(':') ? `[${plain}]:${port}` : `${plain}:${port}`
}

function plainIp(ip: string): string {
  return ip.replace(/^::ffff:(?=\d+\.)/, '').replace(/%.*$/, '')
}

function listen(socket: ListenSocket): Promise<void> {
  return socket.protocol === 'UDP' ? listenUdp(socket) : listenTcp(socket)
}

function listenTcp(socket: ListenSocket): Promise<void> {
  const server = createServer((client) => {
    client.on('error', () => client.destroy())
    client.end(testimony(socket, client.remoteAddress, client.remotePort))
    client.resume()
  })
  listeners.add(server)
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host: socket.ip, port: socket.port, backlog: 511 }, resolve)
  })
}

function listenUdp(socket: ListenSocket): Promise<void> {
  const server = createSocket(socket.ip.includes(':') ? 'udp6' : 'udp4')
  listeners.add(server)
  server.on('message', (_, from) => {
    server.send(testimony(socket, from.address, from.port), from.port, from.address, () => undefined)
  })
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.bind({ address: socket.ip, port: socket.port }, () => {
      server.off('error', reject)
      server.on('error', () => undefined) // an ICMP error for one client's answer is no reason to stop
      resolve()
    })
  })
}

let underWay = 0
const waiting: (() => void)[] = []

async function withTurn<T>(work: () => Promise<T>): Promise<T> {
  if (underWay >= FLOWS_AT_ONCE) await new Promise<void>((resolve) => waiting.push(resolve))
  else underWay++
  try {
    return await work()
  } finally {
    const next = waiting.shift()
    if (next === undefined) underWay--
    else next()
  }
}

function sendAll(order: SendOrder): Promise<readonly FlowResult[]> {
  const one = order.protocol === 'UDP' ? sendUdp : sendTcp
  return Promise.all(Array.from({ length: order.count }, () => withTurn(() => one(order))))
}

function failure(error: NodeJS.ErrnoException): FlowResult {
  if (error.code === 'ECONNREFUSED') return { result: 'refused' }
  if (error.code === 'ETIMEDOUT') return { result: 'silent' }
  return { result: 'failed', error: error.code ?? error.message }
}

function readAnswer(text: string, ownPort: number): FlowResult {
  const http = /^HTTP\/1\.\d (\d{3})/.exec(text)
  if (http !== null) return { result: 'http', status: Number(http[1]) }
  try {
    const { at, seen, port } = JSON.parse(text) as Testimony
    return { result: 'answered', at, seen, samePort: port === ownPort }
  } catch {
    return { result: 'failed', error: `unexpected answer ${JSON.stringify(text.slice(0, 80))}` }
  }
}

function sendTcp({ from, to, port, timeoutMs }: SendOrder): Promise<FlowResult> {
  return new Promise((resolve) => {
    let text = ''
    let ownPort = 0
    const socket: Socket = connect({ host: to, port, localAddress: from })
    const finish = (result: FlowResult): void => {
      clearTimeout(timer)
      socket.destroy()
      resolve(result)
    }
    const timer = setTimeout(() => finish({ result: 'silent' }), timeoutMs)
    socket.setEncoding('utf8')
    // A health check port speaks HTTP and waits for a request; our listeners speak first and ignore it.
    socket.once('connect', () => {
      ownPort = socket.localPort ?? 0
      socket.write(`GET / HTTP/1.1\r\nHost: ${socketText(to, port)}\r\n\r\n`)
    })
    socket.on('data', (chunk: string) => {
      text += chunk
      if (text.includes('\n')) finish(readAnswer(text, ownPort))
    })
    socket.once('error', (error) => finish(failure(error)))
    socket.once('close', () =>
      finish(text === '' ? { result: 'failed', error: 'closed' } : readAnswer(text, ownPort)),
    )
  })
}

/** A datagram that is lost, for example while a neighbour's address is looked up, is sent again after this time. */
const RESEND_AFTER_MS = 1000

function sendUdp({ from, to, port, timeoutMs }: SendOrder): Promise<FlowResult> {
  return new Promise((resolve) => {
    const socket = createSocket(to.includes(':') ? 'udp6' : 'udp4')
    let resend: NodeJS.Timeout | undefined
    let done = false
    const finish = (result: FlowResult): void => {
      if (done) return
      done = true
      clearTimeout(timer)
      clearInterval(resend)
      socket.close()
      resolve(result)
    }
    const timer = setTimeout(() => finish({ result: 'silent' }), timeoutMs)
    const ask = (): void => socket.send('?', (error) => error && finish(failure(error)))
    socket.on('error', (error) => finish(failure(error)))
    socket.on('message', (message) => finish(readAnswer(message.toString('utf8'), socket.address().port)))
    // Connected, so that an ICMP error comes back to this socket.
    socket.bind({ address: from, port: 0 }, () => {
      socket.connect(port, to, () => {
        if (done) return
        ask()
        resend = setInterval(ask, RESEND_AFTER_MS)
      })
    })
  })
}

function answer(message: TrafficAnswer): void {
  process.stdout.write(`${JSON.stringify(message)}\n`)
}

const lines = createInterface({ input: process.stdin })
lines.on('line', (line) => {
  const request = JSON.parse(line) as TrafficRequest
  obey(request).then(answer, (error: unknown) => {
    answer({ id: request.id, ok: false, error: error instanceof Error ? error.message : String(error) })
  })
})
lines.once('close', () => process.exit(0))
