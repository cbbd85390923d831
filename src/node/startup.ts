import type { ClusterState } from '../cluster/state.ts'
import type { ClusterKind } from '../cluster/store.ts'
import type { ProxyConfiguration } from '../config/configuration.ts'
import type { Clock } from '../shared/clock.ts'
import { ProxyError } from '../shared/errors.ts'
import type { Logger } from '../shared/logger.ts'
import type { ClusterFeed } from './feed.ts'

/** Nothing is written to the kernel before these lists are complete: half a cluster must not replace a whole one. */
const NEEDED: readonly ClusterKind[] = ['services', 'endpointslices']

/** How long to wait for the Node object, as upstream does. */
const NODE_WAIT_MS = 30_000
const POD_CIDR_WAIT_MS = 300_000

/** What start-up waits for; poked by the agent whenever something changed. */
export class StartGate {
  readonly #synced = new Set<ClusterKind>()
  #waiters: (() => void)[] = []

  synced(kind: ClusterKind): void {
    this.#synced.add(kind)
    this.poke()
  }

  get listsComplete(): boolean {
    return NEEDED.every((kind) => this.#synced.has(kind))
  }

  has(kind: ClusterKind): boolean {
    return this.#synced.has(kind)
  }

  poke(): void {
    for (const wake of this.#waiters.splice(0)) wake()
  }

  /** Resolves with true when the condition holds, false after the time-out; rejects when the signal aborts. */
  async until(
    condition: () => boolean,
    timeoutMs: number,
    clock: Clock,
    signal: AbortSignal,
  ): Promise<boolean> {
    const end = clock.monotonic() + timeoutMs
    for (;;) {
      signal.throwIfAborted()
      if (condition()) return true
      const left = end - clock.monotonic()
      if (left <= 0) return false
      await this.#next(left, clock, signal)
    }
  }

  #next(atMostMs: number, clock: Clock, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        cancel()
        signal.removeEventListener('abort', done)
        resolve()
      }
      const cancel = Number.isFinite(atMostMs) ? clock.after(atMostMs, done) : () => {}
      signal.addEventListener('abort', done, { once: true })
      this.#waiters.push(done)
    })
  }
}

export interface NodeWait {
  readonly gate: StartGate
  readonly nodeName: string
  readonly configuration: ProxyConfiguration
  readonly snapshot: () => ClusterState
  readonly clock: Clock
  readonly log: Logger
}

/**
 * Waits for the Node object. Without it the agent serves cluster IPs after a while (masters without Node objects exist);
 * with detectLocalMode NodeCIDR it cannot know local pods and rejects with NODE_NOT_FOUND or NODE_WITHOUT_POD_CIDR.
 */
export async function waitForNode(wait: NodeWait, signal: AbortSignal): Promise<void> {
  const { gate, nodeName, configuration, snapshot, clock, log } = wait
  if (configuration.detectLocalMode === 'NodeCIDR') {
    const known = (): boolean => (snapshot().node?.podCidrs.length ?? 0) > 0
    if (!known()) log.info('Waiting for the pod CIDR of the node', { node: nodeName })
    if (await gate.until(known, POD_CIDR_WAIT_MS, clock, signal)) return
    throw podCidrError(nodeName, snapshot().node !== null)
  }
  const ready = (): boolean => (snapshot().node?.addresses.length ?? 0) > 0
  if (!ready()) log.info('Waiting for the node and its addresses', { node: nodeName })
  if (await gate.until(ready, NODE_WAIT_MS, clock, signal)) return
  const what =
    snapshot().node === null ? 'There is no Node object of this name' : 'The Node object has no IP address'
  log.error(
    null,
    `${what}: serving cluster IPs, no endpoint counts as local, and no node port opens on a primary address`,
    {
      node: nodeName,
      fix: 'set hostnameOverride to the name of this node in "kubectl get nodes"',
    },
  )
}

function podCidrError(nodeName: string, exists: boolean): ProxyError {
  const seconds = POD_CIDR_WAIT_MS / 1000
  return exists
    ? new ProxyError(
        'NODE_WITHOUT_POD_CIDR',
        `Node ${nodeName} has no pod CIDR after ${seconds} s, and detectLocalMode NodeCIDR cannot work without. ` +
          'Let the controller manager allocate node CIDRs, or choose another detectLocalMode.',
      )
    : new ProxyError(
        'NODE_NOT_FOUND',
        `There is no Node ${nodeName} after ${seconds} s, and detectLocalMode NodeCIDR needs its pod CIDR. ` +
          'Set hostnameOverride to the name of this node in "kubectl get nodes".',
      )
}

export interface ListWait {
  readonly gate: StartGate
  readonly feed: ClusterFeed
  readonly clock: Clock
  readonly log: Logger
}

/**
 * Waits until Services and EndpointSlices are listed completely, however long the API server is away. Rejects only when
 * the server refuses the agent for good: wrong credentials, or rights that are missing (statuses 401 and 403).
 */
export async function waitForLists({ gate, feed, clock, log }: ListWait, signal: AbortSignal): Promise<void> {
  let said = ''
  let saidAt = 0
  for (;;) {
    const done = await gate.until(() => gate.listsComplete, LOOK_EVERY_MS, clock, signal)
    if (done) break
    const failure = NEEDED.map((kind) => (gate.has(kind) ? null : feed.failure(kind))).find(
      (error) => error !== null,
    )
    if (failure === undefined || failure === null) continue
    if (isRefusal(failure)) throw failure
    if (failure.message === said && clock.monotonic() - saidAt < SAY_AGAIN_MS) continue
    said = failure.message
    saidAt = clock.monotonic()
    log.error(
      failure,
      'Waiting for the API server; nothing is written before its lists are complete, and what is in the kernel keeps working',
    )
  }
  if (said !== '') log.info('The API server answers')
  // Not needed, and not there on old servers; but knowing it at once saves a second sync.
  const known = (): boolean => gate.has('servicecidrs') || feed.failure('servicecidrs') !== null
  await gate.until(known, SERVICE_CIDR_WAIT_MS, clock, signal)
}

const LOOK_EVERY_MS = 250
const SAY_AGAIN_MS = 60_000
const SERVICE_CIDR_WAIT_MS = 1000

function isRefusal(error: Error): boolean {
  const status = (error as { readonly status?: unknown }).status
  return status === 401 || status === 403
}
