import type { ClusterState } from '../cluster/state.ts'
import type { Kernel } from '../kernel/kernel.ts'
import type { ApplyReport, Drift, ProxyMode } from '../modes/mode.ts'
import { buildServiceMap } from '../services/build-service-map.ts'
import type { NodeView, ServiceMap } from '../services/service-map.ts'
import { forgetStaleFlows } from './conntrack-hygiene.ts'
import type { ServiceHealthServers } from './service-health.ts'

export interface SyncPorts<Rules> {
  readonly mode: ProxyMode<Rules>
  readonly kernel: Kernel
  readonly health: Pick<ServiceHealthServers, 'follow'>
  /** Called between making and writing the rules of the first sync, so that the peaks of both do not add up. */
  readonly releaseMemory: () => void
}

export interface SyncInput {
  readonly state: ClusterState
  readonly view: NodeView
  /** Do not trust what we believe to be installed: read the kernel and write the difference. */
  readonly full: boolean
  /** Somebody else may have changed our rules. */
  readonly drifted: boolean
}

/** What the last complete sync brought about. */
export interface Done {
  readonly state: ClusterState
  readonly map: ServiceMap
}

export interface SyncReport {
  /** null at the first sync. */
  readonly before: Done | null
  readonly after: Done
  readonly apply: ApplyReport
  /** What was found changed by somebody else, and is mended now. */
  readonly drift: readonly Drift[]
  /** UDP flows deleted; null = there was no reason to look. */
  readonly forgottenFlows: number | null
  readonly hygieneMs: number
}

/** A sync that failed while the rules were written: nothing of the change is in the kernel. */
export class ApplyFailure extends Error {
  constructor(cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause })
    this.name = 'ApplyFailure'
  }
}

/** From so many Service ports on a first sync leaves garbage that is worth a collection. */
const MANY_PORTS = 1000

/**
 * The straight line of one IP family: cluster state to rules in the kernel, and what belongs to the change around them.
 * A change counts as done only when all of it succeeded; a failure anywhere repeats everything that belonged to it
 * (kubernetes/kubernetes#112604).
 */
export class FamilySync<Rules> {
  readonly #ports: SyncPorts<Rules>
  /** The newest results, done or not: they only save work. */
  #built: ServiceMap | null = null
  #compiled: Rules | null = null
  /** What the kernel holds; null = not known. */
  #installed: Rules | null = null
  #done: Done | null = null

  constructor(ports: SyncPorts<Rules>) {
    this.#ports = ports
  }

  /** The last complete sync; null before the first. */
  get done(): Done | null {
    return this.#done
  }

  async run({ state, view, full, drifted }: SyncInput): Promise<SyncReport> {
    const { mode, kernel, health } = this.#ports
    const before = this.#done

    const map = buildServiceMap(state, view, this.#built)
    this.#built = map
    const rules = mode.compile(map, this.#compiled)
    this.#compiled = rules
    if (before === null && map.ports.size >= MANY_PORTS) this.#ports.releaseMemory()

    const drift = drifted ? await this.#findDrift() : []
    const apply = await this.#write(rules, full || drift.length > 0)

    const hygieneStart = performance.now()
    const forgottenFlows = await forgetStaleFlows(kernel.conntrack, before?.map ?? null, map)
    const hygieneMs = performance.now() - hygieneStart
    await health.follow(before?.map ?? null, map)

    const after = { state, map }
    this.#done = after
    return { before, after, apply, drift, forgottenFlows, hygieneMs }
  }

  /** Reads the kernel back against what we installed. */
  async #findDrift(): Promise<readonly Drift[]> {
    return this.#installed === null ? [] : this.#ports.mode.verify(this.#ports.kernel, this.#installed)
  }

  async #write(rules: Rules, distrust: boolean): Promise<ApplyReport> {
    const from = distrust ? null : this.#installed
    this.#installed = null // until the write is known to have succeeded
    try {
      const report = await this.#ports.mode.apply(this.#ports.kernel, { from, to: rules, entry: 'active' })
      this.#installed = rules
      return report
    } catch (error) {
      throw new ApplyFailure(error)
    }
  }
}
