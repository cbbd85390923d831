import type { ApiClient, Query } from './client.ts'
import { ApiAnswerError, ApiStatusError } from './errors.ts'
import type { ListShell } from './json-list-splitter.ts'

export interface ListOptions {
  readonly client: ApiClient
  readonly path: string
  /** Selectors. */
  readonly query: Query
  readonly pageSize: number
  /** Longest pause within an answer, ms. */
  readonly idleMs: number
  readonly signal: AbortSignal
}

/**
 * Lists everything, consistently (no resourceVersion: what is there now, never what an old cache remembers), in
 * pages; each item is handed out as soon as it arrived. `restart` is called when what was handed out so far is void:
 * the server no longer knows the continue token (410), and the list starts again in one piece, which cannot expire.
 *
 * @returns the version that the list is complete at
 */
export async function listAll(
  options: ListOptions,
  onItem: (object: unknown) => void,
  restart: () => void,
): Promise<string> {
  let continueToken = ''
  let inPages = true
  for (;;) {
    const shell = await listPage(options, inPages, continueToken, onItem).catch((error: unknown) => {
      if (!(error instanceof ApiStatusError && error.isExpired && continueToken !== '')) throw error
      return null
    })
    if (shell === null) {
      inPages = false
      continueToken = ''
      restart()
      continue
    }
    continueToken = shell.metadata?.continue ?? ''
    if (continueToken !== '') continue
    const version = shell.metadata?.resourceVersion ?? ''
    if (version === '')
      throw new ApiAnswerError(`The list of ${options.path} has no metadata.resourceVersion.`)
    return version
  }
}

async function listPage(
  options: ListOptions,
  inPages: boolean,
  continueToken: string,
  onItem: (object: unknown) => void,
): Promise<ListShell> {
  const { client, path, query, pageSize, idleMs, signal } = options
  const response = await client.open({
    path,
    query: {
      ...query,
      limit: inPages ? pageSize : undefined,
      continue: continueToken === '' ? undefined : continueToken,
    },
    signal,
  })
  const splitter = client.codec.list()
  for await (const chunk of client.chunks(response, () => idleMs)) {
    for (const item of splitter.push(chunk)) onItem(item)
  }
  return splitter.finish()
}
