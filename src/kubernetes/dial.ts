import * as http from 'node:http'
import * as https from 'node:https'
import * as net from 'node:net'
import * as tls from 'node:tls'
import type { Clock } from '../shared/clock.ts'
import type { Credential } from './credentials.ts'
import { ProxyError } from '../shared/errors.ts'
import { ApiConnectionError } from './errors.ts'
import { LinkedAbort } from './linked-abort.ts'

export interface DialTarget {
  readonly server: URL
  readonly proxy: URL | null
  readonly serverName: string | null
  readonly insecureSkipVerify: boolean
}

export interface DialOptions {
  readonly clock: Clock
  /** Limit for TCP, proxy and TLS together. */
  readonly timeoutMs: number
  readonly keepAliveMs: number
  readonly signal: AbortSignal
}

/** An open connection; `protocol` is what ALPN chose. */
export interface Dialed {
  readonly socket: net.Socket
  readonly protocol: 'h2' | 'http/1.1'
}

/** Opens a connection to the server: TCP, the forward proxy's CONNECT if there is one, and TLS for https. */
export async function dial(
  target: DialTarget,
  credential: Credential,
  options: DialOptions,
): Promise<Dialed> {
  const limit = new LinkedAbort(options.signal)
  const cancel = options.clock.after(options.timeoutMs, () => limit.abort(timedOut(options.timeoutMs)))
  const { signal } = limit
  try {
    signal.throwIfAborted()
    const raw =
      target.proxy === null
        ? await settle(
            net.connect({
              ...hostAndPort(target.server),
              noDelay: true,
              autoSelectFamilyAttemptTimeout: 1000,
            }),
            'connect',
            signal,
          )
        : await connectThrough(target.proxy, target.server, signal)
    raw.setKeepAlive(true, options.keepAliveMs)
    if (target.server.protocol === 'http:') return { socket: raw, protocol: 'http/1.1' }
    const secure = await settle(tls.connect(tlsOptions(target, credential, raw)), 'secureConnect', signal)
    return { socket: secure, protocol: secure.alpnProtocol === 'h2' ? 'h2' : 'http/1.1' }
  } finally {
    cancel()
    limit.unlink()
  }
}

export function hostAndPort(url: URL): { host: string; port: number } {
  const host = url.hostname.replace(/^\[|\]$/g, '')
  return { host, port: url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port) }
}

function tlsOptions(target: DialTarget, credential: Credential, socket: net.Socket): tls.ConnectionOptions {
  const { host } = hostAndPort(target.server)
  const name = target.serverName ?? host
  return {
    socket,
    host: name,
    // SNI must not carry addresses (RFC 6066 section 3); the certificate is still checked against `host`.
    ...(net.isIP(name) === 0 ? { servername: name } : {}),
    secureContext: secureContextOf(credential),
    rejectUnauthorized: !target.insecureSkipVerify,
    ALPNProtocols: ['h2', 'http/1.1'],
  }
}

function secureContextOf(credential: Credential): tls.SecureContext {
  try {
    return tls.createSecureContext({
      ...(credential.authority === null ? {} : { ca: credential.authority }),
      ...(credential.certificate === null ? {} : { cert: credential.certificate }),
      ...(credential.key === null ? {} : { key: credential.key }),
      minVersion: 'TLSv1.2',
    })
  } catch (cause) {
    throw new ProxyError(
      'CREDENTIAL_INVALID',
      `The certificate, key or authority from ${credential.source} cannot be used: ${(cause as Error).message}. ` +
        'Check that they are PEM and that the key belongs to the certificate.',
      { cause },
    )
  }
}

/** Waits for a socket to be usable; destroys it if that fails or is given up. */
function settle<S extends net.Socket>(
  socket: S,
  event: 'connect' | 'secureConnect',
  signal: AbortSignal,
): Promise<S> {
  return new Promise((resolve, reject) => {
    const done = (): void => {
      signal.removeEventListener('abort', onAbort)
      socket.removeListener('error', onError)
      socket.removeListener('close', onClose)
      socket.removeListener(event, onReady)
    }
    const onReady = (): void => {
      done()
      resolve(socket)
    }
    const onError = (error: Error): void => {
      done()
      socket.on('error', () => {})
      socket.destroy()
      reject(error)
    }
    const onClose = (): void => onError(new Error('the other side closed it before it was ready'))
    const onAbort = (): void => onError(signal.reason as Error)
    signal.addEventListener('abort', onAbort, { once: true })
    socket.on('error', onError)
    socket.on('close', onClose)
    socket.on(event, onReady)
  })
}

function connectThrough(proxy: URL, server: URL, signal: AbortSignal): Promise<net.Socket> {
  const { host, port } = hostAndPort(server)
  const authority = `${host.includes(':') ? `[${host}]` : host}:${port}`
  const login = `${decodeURIComponent(proxy.username)}:${decodeURIComponent(proxy.password)}`
  const request = (proxy.protocol === 'https:' ? https : http).request({
    ...hostAndPort(proxy),
    method: 'CONNECT',
    path: authority,
    agent: false,
    signal,
    headers: {
      host: authority,
      ...(login === ':' ? {} : { 'proxy-authorization': `Basic ${Buffer.from(login).toString('base64')}` }),
    },
  })
  return new Promise((resolve, reject) => {
    request.on('connect', (response, socket, head) => {
      if (response.statusCode === 200 && head.length === 0) {
        resolve(socket)
        return
      }
      socket.destroy()
      reject(proxyRefused(proxy, authority, `${response.statusCode} ${response.statusMessage ?? ''}`.trim()))
    })
    request.on('error', (cause) => {
      reject(signal.aborted ? (signal.reason as Error) : proxyRefused(proxy, authority, cause.message, cause))
    })
    request.end()
  })
}

function proxyRefused(proxy: URL, authority: string, why: string, cause?: unknown): ApiConnectionError {
  return new ApiConnectionError(
    'API_PROXY_FAILED',
    authority,
    `The proxy ${withoutPassword(proxy)} gave no connection to the API server ${authority}: ${why}. ` +
      'Correct proxy-url (or HTTPS_PROXY), let the proxy allow CONNECT to it, or put the server into NO_PROXY.',
    { cause },
  )
}

export function withoutPassword(url: URL): string {
  return `${url.protocol}//${url.host}`
}

/** An error like the kernel's own ETIMEDOUT, for waits that we ended. */
export function timedOut(ms: number): NodeJS.ErrnoException {
  return Object.assign(new Error(`no answer within ${ms / 1000} s`), { code: 'ETIMEDOUT' })
}
