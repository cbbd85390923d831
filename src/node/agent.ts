import type { ClusterKind } from '../cluster/store.ts'
import type { ProxyConfiguration } from '../config/configuration.ts'
import type { Kernel } from '../kernel/kernel.ts'
import type { ProxyMode } from '../modes/mode.ts'
import { cidrFamily } from '../net/cidr.ts'
import type { IpFamily } from '../net/family.ts'
import type { Ip } from '../net/ip.ts'
import type { ProxyMetrics } from '../observe/proxy-metrics.ts'
import type { Clock } from '../shared/clock.ts'
import type { Logger } from '../shared/logger.ts'
import { FamilyAgent } from './family-agent.ts'
import type { ClusterFeed } from './feed.ts'
import { openHttpServers } from './http-servers.ts'
import { liveFigures } from './live-figures.ts'
import { NodeViews, dialableAddresses, modeSection } from './node-views.ts'
import { usableFamilies } from './preflight.ts'
import { ProxyHealth } from './proxy-health.ts'
import { ServiceHealthServers } from './service-health.ts'
import { StartGate, waitForLists, waitForNode } from './startup.ts'

/** Kubernetes Events, best effort: they may be dropped, and never fail the caller. */
export interface AgentEvents {
  node(type: 'Normal' | 'Warning', reason: string, message: string): void
  service(namespace: string, name: string, type: 'Normal' | 'Warning', reason: string, message: string): void
}

/** Everything the agent touches, given from outside. */
export interface AgentPorts<Rules> {
  readonly configuration: ProxyConfiguration
  readonly nodeName: string
  readonly mode: ProxyMode<Rules>
  readonly kernel: Kernel
  readonly feed: ClusterFeed
  readonly events: AgentEvents
  readonly metrics: ProxyMetrics
  /** Gives memory that start-up needed back to the system. */
  readonly releaseMemory: () => void
  readonly clock: Clock
  readonly log: Logger
}

/** When memory is given back after the first complete sync: once the kernel is done, and once buffers are gone. */
const RELEASE_AFTER_MS = [2000, 10_000]

/** Taint by which the cluster autoscaler says that it will delete the node; load balancers shall drain it (KEP-3836). */
const TO_BE_DELETED = 'ToBeDeletedByClusterAutoscaler'

/** The node agent: follows the cluster and this node, and keeps the kernel in step until it is told to stop. */
export class Agent<Rules> {
  readonly #ports: AgentPorts<Rules>
  readonly #views: NodeViews
  readonly #proxyHealth: ProxyHealth
  readonly #gate = new StartGate()
  #families: readonly FamilyAgent<Rules>[] = []
  #addresses: readonly Ip[] = []

  constructor(ports: AgentPorts<Rules>) {
    const { configuration, nodeName, mode, clock } = ports
    this.#ports = ports
    this.#views = new NodeViews(nodeName, configuration, mode.name)
    this.#proxyHealth = new ProxyHealth(clock, 2 * modeSection(configuration, mode.name).syncPeriodMs)
  }

  /**
   * Runs until the signal aborts, then finishes the sync in progress, closes its servers and resolves; rules and traffic
   * stay. Rejects for what trying again cannot help.
   */
  async run(signal: AbortSignal): Promise<void> {
    const following = new AbortController()
    const open: AsyncDisposable[] = []
    const end = (): void => following.abort(signal.reason)
    signal.addEventListener('abort', end, { once: true })
    if (signal.aborted) end()
    try {
      await this.#start(open, following.signal)
      await aborted(following.signal)
    } catch (error) {
      if (!signal.aborted) throw error
    } finally {
      signal.removeEventListener('abort', end)
      following.abort()
      for (const resource of open.toReversed()) await resource[Symbol.asyncDispose]()
    }
    this.#ports.log.info('Stopped; the rules stay in the kernel and traffic goes on')
  }

  /** Resources go into `open`, to be disposed in reverse order. */
  async #start(open: AsyncDisposable[], signal: AbortSignal): Promise<void> {
    const { mode, kernel, feed, metrics, log, events, nodeName, configuration } = this.#ports
    // The lists travel while this machine is looked at.
    feed.start(signal, {
      changed: (kind) => this.#changed(kind),
      synced: (kind) => this.#gate.synced(kind),
    })
    const families = await usableFamilies(mode, kernel, log)
    log.info(`Using ${mode.name} Proxier`, { node: nodeName, ipFamilies: families.join(',') })
    metrics.effectiveMode.set({ mode: mode.name }, 1)
    open.push(await this.#openServers())
    events.node('Normal', 'Starting', '')

    await this.#readAddresses()
    const onLinkChange = debounced(() => void this.#followAddresses(signal))
    kernel.link.watch(signal, onLinkChange)
    const snapshot = (): ReturnType<typeof feed.store.snapshot> => feed.store.snapshot()
    await waitForLists({ ...this.#ports, gate: this.#gate }, signal)
    await waitForNode({ ...this.#ports, gate: this.#gate, snapshot }, signal)

    warnOfOneSidedAddresses(configuration, families, log)
    const agents = families.map((family) => this.#openFamily(family, open))
    this.#families = agents
    metrics.follow(liveFigures(feed, agents))
    for (const agent of agents) agent.queue()
    void this.#releaseMemoryOnce(agents, signal)
  }

  async #releaseMemoryOnce(agents: readonly FamilyAgent<Rules>[], signal: AbortSignal): Promise<void> {
    const { clock, releaseMemory } = this.#ports
    const cancels: (() => void)[] = []
    await Promise.all(agents.map(({ firstSync }) => firstSync))
    if (signal.aborted) return
    for (const ms of RELEASE_AFTER_MS) cancels.push(clock.after(ms, releaseMemory))
    signal.addEventListener('abort', () => cancels.forEach((cancel) => cancel()), { once: true })
  }

  #openServers(): Promise<AsyncDisposable> {
    const { feed, mode, events } = this.#ports
    return openHttpServers({
      ...this.#ports,
      mode: mode.name,
      health: this.#proxyHealth,
      nodeEligible: () => {
        const node = this.#views.node(feed.store.snapshot())
        return node === null || !(node.deleting || node.taints.includes(TO_BE_DELETED))
      },
      onBindFailure: (reason, error) => events.node('Warning', reason, error.message),
    })
  }

  #openFamily(family: IpFamily, open: AsyncDisposable[]): FamilyAgent<Rules> {
    const { configuration, mode, feed, clock, log, events } = this.#ports
    const { minSyncPeriodMs, syncPeriodMs } = modeSection(configuration, mode.name)
    const serviceHealth = new ServiceHealthServers({
      clock,
      proxyHealthy: () => this.#proxyHealth.report().healthy,
      onBindFailure: ({ namespace, name, port }, error) => {
        log.error(error, 'A health check node port cannot be opened', {
          service: `${namespace}/${name}`,
          port,
        })
        events.service(namespace, name, 'Warning', 'FailedToStartServiceHealthcheck', error.message)
      },
    })
    const agent = new FamilyAgent({
      ...this.#ports,
      family,
      minSyncPeriodMs,
      syncPeriodMs,
      serviceHealth,
      proxyHealth: this.#proxyHealth,
      input: () => {
        const state = feed.store.snapshot()
        return { state, view: this.#views.view(family, state, this.#addresses) }
      },
    })
    open.push(serviceHealth, agent)
    return agent
  }

  #changed(kind: ClusterKind): void {
    const { metrics } = this.#ports
    if (kind === 'services') metrics.serviceChanges.inc()
    if (kind === 'endpointslices') metrics.endpointChanges.inc()
    this.#gate.poke()
    for (const agent of this.#families) agent.queue()
  }

  async #readAddresses(): Promise<boolean> {
    const addresses = dialableAddresses(await this.#ports.kernel.link.addresses()).toSorted()
    if (addresses.join() === this.#addresses.join()) return false
    this.#addresses = addresses
    return true
  }

  async #followAddresses(signal: AbortSignal): Promise<void> {
    try {
      if ((await this.#readAddresses()) && !signal.aborted) {
        for (const agent of this.#families) agent.queue()
      }
    } catch (error) {
      if (!signal.aborted) this.#ports.log.error(error, 'Cannot read the addresses of this node')
    }
  }
}

/** A list for one family leaves the other with every address, which may surprise (kubernetes/kubernetes#122899). */
function warnOfOneSidedAddresses(
  { nodePortAddresses }: ProxyConfiguration,
  families: readonly IpFamily[],
  log: Logger,
): void {
  if (nodePortAddresses === 'primary' || nodePortAddresses.length === 0) return
  for (const family of families) {
    if (nodePortAddresses.some((cidr) => cidrFamily(cidr) === family)) continue
    log.warning('nodePortAddresses has no CIDR of this family: its node ports answer on all addresses', {
      ipFamily: family,
      nodePortAddresses: nodePortAddresses.join(','),
    })
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

/** Runs once for all calls of one turn of the event loop. */
function debounced(run: () => void): () => void {
  let due = false
  return () => {
    if (due) return
    due = true
    setImmediate(() => {
      due = false
      run()
    })
  }
}
