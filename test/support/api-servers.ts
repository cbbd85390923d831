import * as http from 'node:http'
import * as http2 from 'node:http2'
import * as https from 'node:https'
import type { Server } from 'node:net'
import type { TestAuthority } from './certificates.ts'

export type Handler = (request: http.IncomingMessage, response: http.ServerResponse) => void

export interface SecureOptions {
  readonly authority: TestAuthority
  /** Names on the certificate; default 127.0.0.1 and localhost. */
  readonly names?: readonly string[]
  readonly validDays?: readonly [number, number]
  /** Demands client certificates of the authority. */
  readonly clientCertificates?: boolean
}

/** A server that offers HTTP/2 and HTTP/1.1, as a real API server does. */
export function http2Server(options: SecureOptions, handler: Handler): Server {
  return http2.createSecureServer({ ...tlsOptions(options), allowHTTP1: true }, handler as never)
}

/** A TLS server that speaks HTTP/1.1 only. */
export function httpsServer(options: SecureOptions, handler: Handler): Server {
  return https.createServer(tlsOptions(options), handler)
}

function tlsOptions(options: SecureOptions): https.ServerOptions {
  const names = options.names ?? ['127.0.0.1', 'localhost']
  const { certificate, key } = options.authority.issue({
    name: 'kube-apiserver',
    names,
    ...(options.validDays === undefined ? {} : { validDays: options.validDays }),
  })
  const demand = options.clientCertificates === true
  return {
    cert: certificate,
    key,
    ca: options.authority.certificate,
    requestCert: demand,
    rejectUnauthorized: demand,
  }
}
