/**
 * The lab's cluster DNS server: follows Services and EndpointSlices and answers for the cluster's zone.
 * Environment: API_ACCESS (JSON, see ApiAccess), CLUSTER_DOMAIN. Prints `ready` when it has the cluster's state and listens.
 */
import type { EndpointSlice, Service } from '../../kubernetes/objects.ts'
import { ApiClient, mirror } from '../api-client.ts'
import type { ApiAccess } from '../api-client.ts'
import { serveDns } from '../dns/server.ts'
import { groupSlices } from '../dns/zone.ts'
import type { ZoneView } from '../dns/zone.ts'

const DNS_PORT = 53
const client = new ApiClient(JSON.parse(process.env['API_ACCESS'] ?? '{}') as ApiAccess)
const { signal } = new AbortController()
let grouped: ReadonlyMap<string, readonly EndpointSlice[]> | null = null

const warn = (error: unknown): void =>
  void process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
const services = mirror<Service>(client, '/api/v1/services', signal, () => undefined, warn)
const slices = mirror<EndpointSlice>(
  client,
  '/apis/discovery.k8s.io/v1/endpointslices',
  signal,
  () => (grouped = null),
  warn,
)
const view = (): ZoneView => ({
  domain: process.env['CLUSTER_DOMAIN'] ?? 'cluster.local',
  services: services.objects,
  slices: (grouped ??= groupSlices(slices.objects.values())),
})

await Promise.all([services.synced, slices.synced])
await serveDns(DNS_PORT, view, signal)
process.stdout.write('ready\n')
let terminating = false
process.on('SIGTERM', () => {
  if (terminating) process.exit(0) // the grace period is over
  terminating = true
})
