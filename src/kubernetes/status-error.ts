import type { ClusterAccess } from './access.ts'
import type { ApiRequest } from './client.ts'
import { ApiStatusError } from './errors.ts'
import type { Status } from './errors.ts'
import type { TransportResponse } from './transport.ts'

/** The error for an answer with a failure status: who asked for what, what the server said, and how to mend it. */
export function statusError(
  access: ClusterAccess,
  request: ApiRequest,
  response: TransportResponse,
  body: Buffer,
): ApiStatusError {
  const status = parseStatus(body)
  const reason = status?.reason ?? ''
  const said = status?.message ?? body.subarray(0, 200).toString('utf8').trim()
  const options = { retryAfterMs: retryAfterOf(response, status) }
  const make = (code: string, message: string): ApiStatusError =>
    new ApiStatusError(code, response.status, reason, message, options)
  switch (response.status) {
    case 401:
      return make(
        'API_UNAUTHORIZED',
        `The API server ${access.server} does not accept the credentials of ${access.user.description} from ${access.source}: ` +
          `401 ${said}. Renew the token or the client certificate there.`,
      )
    case 403:
      return make('API_FORBIDDEN', forbiddenMessage(access, request, said))
    default:
      return make(
        response.status >= 500 || response.status === 429 ? 'API_UNAVAILABLE' : 'API_STATUS',
        `The API server ${access.server} answered ${response.status}${said === '' ? '' : ` (${said})`} to ` +
          `${request.method ?? 'GET'} ${request.path}.`,
      )
  }
}

/** The error for a Status object that came as an ERROR event of a watch. */
export function statusErrorOfEvent(server: string, path: string, status: Status): ApiStatusError {
  const retryAfter = status.details?.retryAfterSeconds
  return new ApiStatusError(
    'API_WATCH_ERROR',
    status.code ?? 500,
    status.reason ?? '',
    `The API server ${server} ended the watch of ${path}: ${status.message ?? status.reason ?? 'no reason given'}.`,
    { retryAfterMs: retryAfter === undefined ? null : retryAfter * 1000 },
  )
}

function forbiddenMessage(access: ClusterAccess, request: ApiRequest, said: string): string {
  const user = /User "([^"]*)"/.exec(said)?.[1]
  const who = user === undefined ? access.user.description : `"${user}" (${access.user.description})`
  const { group, resource, verbs } = ruleFor(request)
  return (
    `The API server ${access.server} does not let ${who} do this: ${said}. ` +
    `Give it a ClusterRole with the rule {apiGroups: ["${group}"], resources: ["${resource}"], ` +
    `verbs: [${verbs.map((verb) => `"${verb}"`).join(', ')}]} and a ClusterRoleBinding, e.g. to system:node-proxier.`
  )
}

/** The RBAC rule that a request needs, from its path. */
export function ruleFor(request: Pick<ApiRequest, 'method' | 'path'>): {
  readonly group: string
  readonly resource: string
  readonly verbs: readonly string[]
} {
  const parts = request.path.split('/').filter((part) => part !== '')
  const group = parts[0] === 'apis' ? (parts[1] ?? '') : ''
  let rest = parts.slice(parts[0] === 'apis' ? 3 : 2)
  if (rest[0] === 'namespaces' && rest.length > 2) rest = rest.slice(2)
  const [resource = '', name, subresource] = rest
  const verbs: Record<string, readonly string[]> = {
    GET: name === undefined ? ['list', 'watch'] : ['get'],
    POST: ['create'],
    PUT: ['update'],
    PATCH: ['patch'],
    DELETE: ['delete'],
  }
  return {
    group,
    resource: subresource === undefined ? resource : `${resource}/${subresource}`,
    verbs: verbs[request.method ?? 'GET'] ?? [],
  }
}

function parseStatus(body: Buffer): Status | null {
  try {
    const value = JSON.parse(body.toString('utf8')) as Status | null
    return value?.kind === 'Status' ? value : null
  } catch {
    return null
  }
}

/** Retry-After counts seconds; the API server never sends its date form. */
function retryAfterOf(response: TransportResponse, status: Status | null): number | null {
  const header = response.headers['retry-after']
  const seconds = typeof header === 'string' ? Number(header) : status?.details?.retryAfterSeconds
  return seconds === undefined || !Number.isFinite(seconds) ? null : seconds * 1000
}
