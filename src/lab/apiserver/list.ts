import type { ServerResponse } from 'node:http'
import type { Entry } from './entry.ts'
import type { ApiRequest } from './request.ts'
import type { ListMeta } from './respond.ts'
import { listBytes, partial, sendBytes, sendJson, tableVersionOf, viewOf } from './respond.ts'
import { matcherOf } from './selectors.ts'
import { Causes, badRequest, expired, invalid, revisionTooLarge } from './status.ts'
import type { Store } from './store.ts'
import { tableOf } from './table.ts'

interface ContinueToken {
  readonly revision: number
  /** Key of the last item already sent. */
  readonly after: string
}

/** A page of a list at one revision. */
export interface Page {
  readonly entries: readonly Entry[]
  readonly meta: ListMeta
}

/** Answers a list. Fails with 410 when a continue token or an exact version is compacted. */
export function sendList(store: Store, request: ApiRequest, response: ServerResponse): void {
  const { type } = request.target
  const page = listPage(store, request)
  const view = viewOf(request.accept)
  if (view === 'full') {
    sendBytes(response, 200, listBytes(type, page.entries, page.meta))
  } else if (view === 'table') {
    const options = {
      now: store.clock.now(),
      version: tableVersionOf(request.accept),
      includeObject: request.query.get('includeObject') ?? 'Metadata',
    }
    sendJson(response, 200, tableOf(type, page.entries, page.meta, options))
  } else {
    const items = page.entries.map((entry) => partial(entry.as(type).object))
    sendJson(response, 200, {
      kind: 'PartialObjectMetadataList',
      apiVersion: 'meta.k8s.io/v1',
      metadata: page.meta,
      items,
    })
  }
}

export function listPage(store: Store, request: ApiRequest): Page {
  const { query, target } = request
  const limit = numberOf(query, 'limit')
  const token = readToken(query.get('continue') ?? '')
  const { revision, entries } = snapshot(store, request, token)
  const matcher = matcherOf(target.type, query)
  const rest = token === null ? entries : entries.filter(({ key }) => key > token.after)
  if (limit === 0) {
    return { entries: select(rest, matcher), meta: { resourceVersion: String(revision) } }
  }
  const taken: Entry[] = []
  let seen = 0
  for (const entry of rest) {
    if (taken.length === limit) break
    seen++
    if (matcher === null || matcher(entry.object)) taken.push(entry)
  }
  const remaining = rest.length - seen
  if (remaining === 0) return { entries: taken, meta: { resourceVersion: String(revision) } }
  return {
    entries: taken,
    meta: {
      resourceVersion: String(revision),
      continue: writeToken({ revision, after: taken.at(-1)!.key }),
      ...(matcher === null ? { remainingItemCount: remaining } : {}),
    },
  }
}

function select(entries: readonly Entry[], matcher: ReturnType<typeof matcherOf>): readonly Entry[] {
  return matcher === null ? entries : entries.filter(({ object }) => matcher(object))
}

/** Which revision is meant, and the collection as it was then. */
function snapshot(
  store: Store,
  { query, target }: ApiRequest,
  token: ContinueToken | null,
): { revision: number; entries: readonly Entry[] } {
  const collection = store.collection(target.type)
  const wanted = query.get('resourceVersion') ?? ''
  const match = query.get('resourceVersionMatch') ?? ''
  if (token !== null) {
    if (wanted !== '' && wanted !== '0')
      throw badRequest('specifying resource version is not allowed when using continue')
    return past(
      token.revision,
      'The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.',
    )
  }
  checkMatch(target.type, wanted, match)
  const revision = parseRevision(wanted)
  if (revision > store.revision) throw revisionTooLarge(revision, store.revision)
  if (match === 'Exact') return past(revision, `The resourceVersion for the provided list is too old.`)
  return { revision: store.revision, entries: collection.sorted(target.namespace) }

  function past(at: number, message: string): { revision: number; entries: readonly Entry[] } {
    const entries = collection.at(at, target.namespace)
    if (entries === null) throw expired(message)
    return { revision: at, entries }
  }
}

function checkMatch(type: ApiRequest['target']['type'], wanted: string, match: string): void {
  if (match === '') return
  const causes = new Causes()
  if (wanted === '') {
    causes.forbidden(
      'resourceVersionMatch',
      'resourceVersionMatch is forbidden unless resourceVersion is provided',
    )
  } else if (!['Exact', 'NotOlderThan'].includes(match)) {
    causes.notSupported('resourceVersionMatch', match, ['Exact', 'NotOlderThan'])
  } else if (match === 'Exact' && wanted === '0') {
    causes.forbidden(
      'resourceVersionMatch',
      'resourceVersionMatch "Exact" is forbidden for resourceVersion "0"',
    )
  }
  if (causes.all.length > 0)
    throw invalid({ ...type, group: 'meta.k8s.io', kind: 'ListOptions' }, '', causes.all)
}

/** A resource version from a query; 0 when empty. Fails with 400 on what is no number. */
export function parseRevision(text: string): number {
  if (text === '') return 0
  if (!/^\d{1,15}$/.test(text))
    throw badRequest(`Invalid value: ${JSON.stringify(text)}: resourceVersion must be a number`)
  return Number(text)
}

function numberOf(query: URLSearchParams, name: string): number {
  const text = query.get(name) ?? ''
  if (text === '') return 0
  if (!/^\d+$/.test(text))
    throw badRequest(`strconv: parsing ${name} ${JSON.stringify(text)}: invalid syntax`)
  return Number(text)
}

function writeToken(token: ContinueToken): string {
  return Buffer.from(JSON.stringify(token)).toString('base64url')
}

function readToken(text: string): ContinueToken | null {
  if (text === '') return null
  try {
    const token = JSON.parse(Buffer.from(text, 'base64url').toString()) as Partial<ContinueToken>
    if (typeof token.revision === 'number' && typeof token.after === 'string') return token as ContinueToken
  } catch {
    // Falls through: a token that is no JSON is as wrong as one of another shape.
  }
  throw badRequest('continue key is not valid')
}
