import { parseCidr, cidrContains } from '../net/cidr.ts'
import { ConfigError } from '../shared/errors.ts'
import { isLoopback, parseIp } from '../net/ip.ts'

/**
 * The forward proxy for a server: the kubeconfig's own, or what HTTPS_PROXY / HTTP_PROXY / NO_PROXY say, by the rules
 * of Go's net/http that every Kubernetes client follows: lower-case names count too, loopback is never proxied,
 * NO_PROXY lists hosts (with their subdomains), addresses, CIDRs, each with an optional port, or `*`.
 */
export function forwardProxyFor(
  server: URL,
  configured: string | null,
  env: NodeJS.ProcessEnv = process.env,
): URL | null {
  if (configured !== null) return new URL(configured)
  const names = server.protocol === 'https:' ? ['HTTPS_PROXY', 'https_proxy'] : ['HTTP_PROXY', 'http_proxy']
  const name = names.find((each) => (env[each] ?? '') !== '')
  if (name === undefined || isExempt(server, env['NO_PROXY'] || env['no_proxy'] || '')) return null
  return parseProxy(name, env[name] ?? '')
}

/** @throws ConfigError API_PROXY_URL: going there directly instead would be no better, only harder to understand */
function parseProxy(name: string, text: string): URL {
  const full = text.includes('://') ? text : `http://${text}`
  const url = URL.canParse(full) ? new URL(full) : null
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return url
  const message =
    'is not the URL of an http:// or https:// proxy; correct it in the environment, or put the API server into NO_PROXY'
  throw new ConfigError('API_PROXY_URL', [{ file: name, line: null, column: null, path: '', message }])
}

function isExempt(server: URL, noProxy: string): boolean {
  const host = server.hostname.replace(/^\[|\]$/g, '').toLowerCase()
  const port = server.port === '' ? (server.protocol === 'https:' ? '443' : '80') : server.port
  const ip = parseIp(host)
  if (host === 'localhost' || (ip !== null && isLoopback(ip))) return true
  return noProxy
    .split(',')
    .map((entry) => entry.trim().toLowerCase())
    .some((entry) => entry !== '' && matches(entry, host, port))
}

function matches(entry: string, host: string, port: string): boolean {
  if (entry === '*') return true
  const ip = parseIp(host)
  const cidr = entry.includes('/') ? parseCidr(entry) : null
  if (cidr !== null) return ip !== null && cidrContains(cidr, ip)
  const { name, wantedPort } = splitPort(entry)
  if (wantedPort !== '' && wantedPort !== port) return false
  const entryIp = parseIp(name)
  if (entryIp !== null) return entryIp === ip
  const suffix = name.replace(/^\*?\.?/, '')
  return host.endsWith(`.${suffix}`) || (host === suffix && !name.startsWith('.') && !name.startsWith('*'))
}

function splitPort(entry: string): { name: string; wantedPort: string } {
  const bracketed = /^\[(.*)\](?::(\d+))?$/.exec(entry)
  if (bracketed !== null) return { name: bracketed[1] ?? '', wantedPort: bracketed[2] ?? '' }
  const plain = /^([^:]*):(\d+)$/.exec(entry)
  return plain === null
    ? { name: entry, wantedPort: '' }
    : { name: plain[1] ?? '', wantedPort: plain[2] ?? '' }
}
