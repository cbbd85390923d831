import { readFile } from 'node:fs/promises'
import { clusterStateFromObjects } from '../cluster/objects.ts'
import type { ClusterState } from '../cluster/state.ts'
import type { ProxyConfiguration } from '../config/configuration.ts'
import { defaultConfiguration, loadConfiguration } from '../config/load.ts'
import { ApiClient } from '../kubernetes/client.ts'
import { listAll } from '../kubernetes/list.ts'
import { loadAccess } from '../kubernetes/load-access.ts'
import { UsageError } from '../shared/errors.ts'
import { didYouMean } from '../shared/suggest.ts'
import { readObjectFiles } from '../trace/object-files.ts'
import { loadObjects } from '../trace/objects.ts'
import type { Io } from './io.ts'
import { productVersion } from './version.ts'

/** What a command knows of the cluster. */
export interface ClusterSource {
  readonly state: ClusterState
  /** Every object as given; holds Pods, too. */
  readonly objects: readonly unknown[]
  readonly nodeName: string
}

/** Reads a configuration file, or takes upstream's defaults. */
export async function readConfiguration(file: string | undefined, io: Io): Promise<ProxyConfiguration> {
  if (file === undefined) return defaultConfiguration()
  const { configuration, warnings } = await loadConfiguration(file, (path) => readFile(path, 'utf8'))
  for (const warning of warnings) io.stderr.write(`switchback: ${warning}\n`)
  return configuration
}

/** The cluster of YAML or JSON files, with what had to be mended said on stderr. */
export async function clusterOfFiles(
  paths: readonly string[],
  nodeName: string | undefined,
  io: Io,
): Promise<ClusterSource> {
  const files = await readObjectFiles(paths)
  const first = await loadObjects(files, nodeName ?? '')
  const name = nodeName ?? onlyNode(first.objects)
  const { state, problems, objects } = nodeName === undefined ? await loadObjects(files, name) : first
  refuseUnknownNode(objects, name)
  for (const { object, field, message } of problems)
    io.stderr.write(`switchback: ${object}: ${field}: ${message}\n`)
  return { state, objects, nodeName: name }
}

function onlyNode(objects: readonly unknown[]): string {
  const names = nodeNames(objects)
  const [name, ...more] = names
  if (name !== undefined && more.length === 0) return name
  const choice =
    names.length === 0 ? 'The files hold no Node object' : `The files hold the nodes ${names.join(', ')}`
  throw new UsageError(`--node NAME is needed to say which node to look from. ${choice}.`)
}

function nodeNames(objects: readonly unknown[]): readonly string[] {
  const names = objects.flatMap((object) => {
    const { kind, metadata } = object as { kind?: string; metadata?: { name?: string } }
    return kind === 'Node' && metadata?.name !== undefined ? [metadata.name] : []
  })
  return [...new Set(names)]
}

/** Where Nodes are given, a name that is none of them is a mistake: rules for no node would look right and be wrong. */
function refuseUnknownNode(objects: readonly unknown[], nodeName: string): void {
  const names = nodeNames(objects)
  if (names.length === 0 || names.includes(nodeName)) return
  throw new UsageError(
    `--node: there is no Node "${nodeName}"; there are ${names.join(', ')}${didYouMean(nodeName, names)}`,
  )
}

const LISTS: readonly { readonly kind: string; readonly path: string; readonly optional: boolean }[] = [
  { kind: 'Service', path: '/api/v1/services', optional: false },
  { kind: 'EndpointSlice', path: '/apis/discovery.k8s.io/v1/endpointslices', optional: false },
  { kind: 'Node', path: '/api/v1/nodes', optional: true },
  { kind: 'Pod', path: '/api/v1/pods', optional: true },
  { kind: 'ServiceCIDR', path: '/apis/networking.k8s.io/v1/servicecidrs', optional: true },
]

/** The cluster as the API server has it now. What the user may not list (nodes, pods) is left out and said. */
export async function clusterOfServer(
  kubeconfig: string | undefined,
  nodeName: string | undefined,
  io: Io,
): Promise<ClusterSource> {
  const file = kubeconfig ?? io.env['KUBECONFIG'] ?? ''
  const access = await loadAccess({ kubeconfig: file, master: '', env: io.env })
  const client = new ApiClient({ access, userAgent: `switchback/${productVersion()}`, env: io.env })
  try {
    const needed = LISTS.filter(({ optional }) => !optional)
    const lists = await Promise.all(needed.map((list) => listKind(client, list)))
    // Only now: of a server that does not answer at all one complaint is enough.
    const more = LISTS.filter(({ optional }) => optional)
    lists.push(...(await Promise.all(more.map((list) => listIfAllowed(client, list, io)))))
    const objects = lists.flat()
    const name = nodeName ?? io.env['NODE_NAME'] ?? onlyNode(objects)
    refuseUnknownNode(objects, name)
    return { state: clusterStateFromObjects(objects, name).state, objects, nodeName: name }
  } finally {
    await client.close()
  }
}

async function listIfAllowed(
  client: ApiClient,
  list: (typeof LISTS)[number],
  io: Io,
): Promise<readonly unknown[]> {
  try {
    return await listKind(client, list)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    io.stderr.write(`switchback: ${list.kind} objects are left out: ${why}\n`)
    return []
  }
}

async function listKind(client: ApiClient, list: (typeof LISTS)[number]): Promise<readonly unknown[]> {
  const items: unknown[] = []
  const options = {
    client,
    path: list.path,
    query: {},
    pageSize: 500,
    idleMs: 30_000,
    signal: new AbortController().signal,
  }
  await listAll(
    options,
    (item) => items.push({ kind: list.kind, ...(item as object) }),
    () => items.splice(0),
  )
  return items
}
