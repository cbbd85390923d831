import { ConfigError } from '../shared/errors.ts'

/** Why a server text is no address of an API server; null when it is one. */
export function serverProblem(text: string): string | null {
  const url = parse(text)
  if (url === null) return `"${text}" is not a URL`
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    return `"${text}" is neither https:// nor http://`
  if (url.username !== '' || url.password !== '')
    return `"${text}" carries a password; put credentials into the user`
  if (url.search !== '' || url.hash !== '') return `"${text}" must have neither "?" nor "#"`
  return null
}

/**
 * The server as `scheme://host[:port][/prefix]` without a slash at the end. A text without a scheme gets
 * `defaultScheme`, as in client-go's DefaultServerURL.
 *
 * @throws ConfigError API_SERVER_URL
 */
export function normalizeServer(text: string, defaultScheme: 'http' | 'https', where: string): string {
  const full = withScheme(text, defaultScheme)
  const problem = serverProblem(full)
  if (problem !== null) {
    const message = `${problem}. Write it like https://192.0.2.1:6443 or https://[2001:db8::1]:6443.`
    throw new ConfigError('API_SERVER_URL', [{ file: where, line: null, column: null, path: '', message }])
  }
  const url = new URL(full)
  return `${url.protocol}//${url.host}${url.pathname.replace(/\/+$/, '')}`
}

export function withScheme(text: string, defaultScheme: 'http' | 'https'): string {
  return text.includes('://') ? text : `${defaultScheme}://${text}`
}

function parse(text: string): URL | null {
  try {
    return new URL(text)
  } catch {
    return null
  }
}
