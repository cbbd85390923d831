import { ProxyError } from '../shared/errors.ts'
import { ApiConnectionError, OwnEnd } from './errors.ts'

/** What the message needs to say besides the failure. */
export interface ConnectionSubject {
  readonly server: string
  readonly source: string
  /** The forward proxy in between, without its password; null for none. */
  readonly via: string | null
}

const UNTRUSTED = new Set([
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'CERT_SIGNATURE_FAILURE',
  'CERT_UNTRUSTED',
  'INVALID_CA',
])

/**
 * One clear message for anything that can go wrong below HTTP: what failed, at which address, and what to do.
 * Errors that are already ours, our own ends and aborts pass through.
 */
export function connectionError(subject: ConnectionSubject, error: unknown): unknown {
  if (error instanceof ProxyError || error instanceof OwnEnd || isAbort(error)) return error
  const code = codeOf(error)
  const api = `the API server ${subject.server}${subject.via === null ? '' : ` (through the proxy ${subject.via})`}`
  const make = (kind: string, message: string): ApiConnectionError =>
    new ApiConnectionError(kind, subject.server, message, { cause: error })
  const tls = tlsMessage(code, error, api, subject)
  if (tls !== null) return make(tls.kind, tls.message)
  switch (code) {
    case 'ECONNREFUSED':
      return make(
        'API_REFUSED',
        `Nothing accepts connections at ${api}: connection refused. Check that it runs and that the address from ${subject.source} is right.`,
      )
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return make(
        'API_UNKNOWN_HOST',
        `The name of ${api} cannot be resolved (${code}). Check the address from ${subject.source} and this node's DNS; ` +
          'a node agent should not depend on the cluster DNS that it serves.',
      )
    case 'ETIMEDOUT':
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
      return make(
        'API_UNREACHABLE',
        `There is no answer from ${api} (${code === 'ETIMEDOUT' ? messageOf(error) : code}). ` +
          `Check the route and the firewalls from this node, and the address from ${subject.source}.`,
      )
    default:
      return make('API_CONNECTION_LOST', `The connection to ${api} was lost: ${messageOf(error)}.`)
  }
}

function tlsMessage(
  code: string,
  error: unknown,
  api: string,
  subject: ConnectionSubject,
): { kind: string; message: string } | null {
  if (UNTRUSTED.has(code)) {
    return {
      kind: 'API_TLS_UNTRUSTED',
      message: `The certificate of ${api} is not signed by an authority that ${subject.source} trusts (${code}). Put the cluster's CA into certificate-authority(-data); if it is right, somebody else answers at this address.`,
    }
  }
  if (code === 'CERT_HAS_EXPIRED' || code === 'CERT_NOT_YET_VALID') {
    const when = code === 'CERT_HAS_EXPIRED' ? 'has expired' : 'is not valid yet'
    return {
      kind: 'API_TLS_UNTRUSTED',
      message: `The certificate of ${api} ${when}. Renew it there, or mend this node's clock (now ${new Date().toISOString()}).`,
    }
  }
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    return {
      kind: 'API_TLS_UNTRUSTED',
      message: `The certificate of ${api} is for other names: ${messageOf(error)}. Use an address that it names, or set tls-server-name in ${subject.source}.`,
    }
  }
  if (code === 'ERR_SSL_WRONG_VERSION_NUMBER' || code === 'ERR_SSL_PACKET_LENGTH_TOO_LONG') {
    return {
      kind: 'API_NOT_TLS',
      message: `What answers at ${api} does not speak TLS. Use http:// or the right port.`,
    }
  }
  if (/^ERR_SSL_.*ALERT/.test(code)) {
    return {
      kind: 'API_TLS_REFUSED',
      message: `TLS was refused by ${api}: ${messageOf(error)}. The client certificate from ${subject.source} is missing, expired, or of another authority.`,
    }
  }
  return null
}

/** True for what an AbortSignal throws. */
export function isAbort(error: unknown): boolean {
  return error instanceof Error && (error.name === 'AbortError' || codeOf(error) === 'ABORT_ERR')
}

/** The system or OpenSSL code of an error, of its first part if it is several; empty if there is none. */
export function codeOf(error: unknown): string {
  if (typeof error !== 'object' || error === null) return ''
  const { code, errors } = error as { code?: unknown; errors?: unknown }
  if (typeof code === 'string') return code
  return Array.isArray(errors) && errors.length > 0 ? codeOf(errors[0]) : ''
}

function messageOf(error: unknown): string {
  return error instanceof Error && error.message !== '' ? error.message : codeOf(error) || String(error)
}
