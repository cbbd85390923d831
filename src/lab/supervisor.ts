import { readdirSync, writeFileSync, writeSync } from 'node:fs'
import { request } from 'node:http'
import { basename, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Cidr } from '../net/cidr.ts'
import { ProxyError } from '../shared/errors.ts'
import { NodeAgent } from './agents.ts'
import { ApiClient, mirror } from './api-client.ts'
import type { ApiAccess } from './api-client.ts'
import { startApiServer } from './apiserver/server.ts'
import { isReady } from './cluster/kinds.ts'
import type { Pod } from './cluster/kinds.ts'
import { Kubelet } from './cluster/kubelet.ts'
import { LoadBalancers } from './cluster/load-balancers.ts'
import { dnsDeployment, dnsService, nodeObject } from './cluster/objects.ts'
import { serveControl } from './control.ts'
import type { LabStatus } from './control.ts'
import { lastLines } from './instance.ts'
import { runIn } from './namespaces.ts'
import { LAB } from './plan.ts'
import { buildTopology } from './topology.ts'

const API_PORT = 6443
const HEALTH_PORT = 10_256
const AGENT_TIMEOUT_MS = 90_000
/** An agent that ends so often before it was ever healthy will not come up. */
const MAX_FAILED_STARTS = 3
const POLL_MS = 50
/** The pipe to whoever started the lab, for {@link Progress}. */
const PROGRESS_FD = 3

/** What the supervisor tells while it starts, one JSON line each. */
export type Progress = { readonly step: string } | { readonly ready: true } | { readonly failed: string }

export interface SupervisorOptions {
  /** The lab's directory (see instance.ts). */
  readonly dir: string
  /** Proxy mode of the agents; null: no agents. */
  readonly mode: string | null
}

/** The lab's first process: builds the network, serves the API, plays the cluster's controllers, keeps the agents running. Never returns. */
export async function supervise(options: SupervisorOptions): Promise<never> {
  try {
    await start(options)
    tell({ ready: true })
  } catch (error) {
    log(error instanceof ProxyError ? error.message : String(error instanceof Error ? error.stack : error))
    tell({ failed: error instanceof Error ? error.message : String(error) })
    process.exit(1)
  }
  return new Promise<never>(() => {
    process.once('SIGTERM', () => process.exit(0))
    setInterval(() => undefined, 2 ** 30)
  })
}

async function start({ dir, mode }: SupervisorOptions): Promise<void> {
  const startedAt = new Date().toISOString()
  const logs = join(dir, 'logs')
  const kubeconfig = join(dir, 'kubeconfig')
  tell({ step: 'network: control plane, 3 nodes, outside client' })
  await buildTopology(LAB)
  tell({ step: 'API server' })
  const access: ApiAccess = { url: `http://${LAB.control.ipv4}:${API_PORT}` }
  await startApiServer({
    host: '::',
    port: API_PORT,
    advertiseAddress: LAB.control.ipv4,
    serviceCidrs: [LAB.serviceCidr.ipv4, LAB.serviceCidr.ipv6] as Cidr[],
    endpointSliceController: true,
    deploymentController: true,
    scheduler: true,
  })
  writeFileSync(kubeconfig, kubeconfigText(access.url), { mode: 0o600 })
  const client = new ApiClient(access)
  for (const node of LAB.nodes) await client.create('/api/v1/nodes', nodeObject(node))
  const env = { API_ACCESS: JSON.stringify(access), CLUSTER_DOMAIN: LAB.clusterDomain }
  const pods = await runPods(new Kubelet({ client, plan: LAB, dir, logs, env, log }), client)
  const agents =
    mode === null ? [] : LAB.nodes.map((node) => new NodeAgent(node, { plan: LAB, kubeconfig, logs, mode }))
  new LoadBalancers(client, LAB, log).start(new AbortController().signal)
  let state: LabStatus['state'] = 'starting'
  const status = (): LabStatus => ({
    name: basename(dir),
    state,
    startedAt,
    apiServer: access.url,
    kubeconfig,
    logs,
    mode,
    nodes: agentStatus(agents),
    pods: podStatus(pods),
    namespaces: readdirSync('/run/netns').sort(),
  })
  await serveControl(join(dir, 'control.sock'), status)
  if (agents.length > 0) tell({ step: `node agents in ${mode} mode` })
  for (const agent of agents) agent.start()
  await startDns(client, agents)
  state = 'running'
}

/** Has the kubelet follow the API server's pods for as long as the lab lives. */
async function runPods(kubelet: Kubelet, client: ApiClient): Promise<ReadonlyMap<string, Pod>> {
  const { signal } = new AbortController()
  const warn = (error: unknown): void => log(`watching pods: ${String(error)}`)
  const pods = mirror<Pod>(
    client,
    '/api/v1/pods',
    signal,
    () => kubelet.sync([...pods.objects.values()]),
    warn,
  )
  await pods.synced
  return pods.objects
}

/** Cluster DNS counts as there when each node's agent leads to it: that is also the proof that the agents work. */
async function startDns(client: ApiClient, agents: readonly NodeAgent[]): Promise<void> {
  tell({ step: 'cluster DNS' })
  await client.create('/api/v1/namespaces/kube-system/services', dnsService(LAB))
  await client.create('/apis/apps/v1/namespaces/kube-system/deployments', dnsDeployment())
  if (agents.length === 0) return
  tell({ step: 'waiting until every node reaches cluster DNS through its Service' })
  await Promise.all(agents.map((agent) => waitForAgent(agent)))
}

async function waitForAgent(agent: NodeAgent): Promise<void> {
  const deadline = performance.now() + AGENT_TIMEOUT_MS
  const { address, name } = agent.node
  while (!(await answersOk(`http://${address.ipv4}:${HEALTH_PORT}/healthz`))) {
    if (agent.restarts >= MAX_FAILED_STARTS || performance.now() > deadline) {
      const what = agent.restarts > 0 ? `ended ${agent.restarts} times` : 'is not healthy in time'
      throw new ProxyError(
        'LAB_FAILED',
        `the agent of ${name} ${what}. Its last words:\n${lastLines(agent.log)}`,
      )
    }
    await sleep(POLL_MS)
  }
  const probe = join(dirname(new URL(import.meta.url).pathname), 'programs/dns-probe.js')
  for (const server of [LAB.dns.ipv4, LAB.dns.ipv6]) {
    await runIn(name, [process.execPath, probe, server, `kubernetes.default.svc.${LAB.clusterDomain}`], {
      timeoutMs: AGENT_TIMEOUT_MS,
      env: { PROBE_TIMEOUT_MS: String(AGENT_TIMEOUT_MS / 2) },
    })
  }
}

function answersOk(url: string): Promise<boolean> {
  return new Promise((resolve) => {
    const outgoing = request(url, { agent: false, timeout: 1000 }, (response) => {
      response.resume()
      resolve(response.statusCode === 200)
    })
    outgoing.once('timeout', () => outgoing.destroy())
    outgoing.once('error', () => resolve(false))
    outgoing.end()
  })
}

function agentStatus(agents: readonly NodeAgent[]): LabStatus['nodes'] {
  return LAB.nodes.map((node) => {
    const agent = agents.find((candidate) => candidate.node === node)
    return {
      node: node.name,
      zone: node.zone,
      addresses: [node.address.ipv4, node.address.ipv6],
      agent: agent === undefined ? 'none' : agent.isRunning ? 'running' : 'restarting',
      restarts: agent?.restarts ?? 0,
      log: agent?.log ?? null,
    }
  })
}

function podStatus(pods: ReadonlyMap<string, Pod>): LabStatus['pods'] {
  return [...pods.values()].map((pod) => ({
    namespace: pod.metadata.namespace ?? '',
    name: pod.metadata.name,
    node: pod.spec.nodeName ?? null,
    addresses: (pod.status?.podIPs ?? []).map(({ ip }) => ip),
    phase: pod.metadata.deletionTimestamp === undefined ? (pod.status?.phase ?? 'Pending') : 'Terminating',
    ready: isReady(pod),
  }))
}

function kubeconfigText(server: string): string {
  return `apiVersion: v1
kind: Config
clusters:
- name: lab
  cluster:
    server: ${server}
users:
- name: lab
  user: {}
contexts:
- name: lab
  context:
    cluster: lab
    user: lab
current-context: lab
`
}

function log(message: string): void {
  process.stderr.write(`${new Date().toISOString()} ${message}\n`)
}

/** Writes to the pipe of whoever starts the lab. If nobody reads any more, nobody will ever stop this lab: it ends. */
function tell(progress: Progress): void {
  if ('step' in progress) log(progress.step)
  try {
    writeSync(PROGRESS_FD, `${JSON.stringify(progress)}\n`)
  } catch {
    process.exit(1)
  }
}
