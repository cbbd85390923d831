import { randomUUID } from 'node:crypto'
import type { EndpointSlice, Service, SliceEndpoint } from '../../../kubernetes/objects.ts'
import type { Change } from '../entry.ts'
import type { ApiObject } from '../json.ts'
import { equal } from '../json.ts'
import { RESOURCES } from '../resources.ts'
import { selects } from '../selectors.ts'
import type { Store } from '../store.ts'
import { randomSuffix } from '../writer.ts'
import type { EndpointGroup } from './desired-endpoints.ts'
import { MANAGED_BY, desiredEndpoints, sliceLabels } from './desired-endpoints.ts'
import { WorkQueue } from './work-queue.ts'

const MAX_ENDPOINTS = 100
const TRIGGER_TIME = 'endpoints.kubernetes.io/last-change-trigger-time'
const ZONE_LABEL = 'topology.kubernetes.io/zone'

/**
 * Makes EndpointSlices from the selectors of Services and the pods they select, as upstream's controller does: an
 * endpoint stays in its slice, slices hold at most 100, and a family without endpoints keeps one empty slice.
 */
export class SliceController {
  readonly #store: Store
  readonly #queue: WorkQueue
  readonly #triggered = new Map<string, string>()
  readonly #stops: (() => void)[]

  constructor(store: Store) {
    this.#store = store
    this.#queue = new WorkQueue((key) => this.#reconcile(key))
    this.#stops = [
      store.collection(RESOURCES.service).listen(({ after }) => this.#mark(after.key)),
      store.collection(RESOURCES.pod).listen((change) => this.#podChanged(change)),
      store.collection(RESOURCES.node).listen((change) => this.#nodeChanged(change)),
      store.collection(RESOURCES.endpointSlice).listen((change) => this.#sliceChanged(change)),
    ]
  }

  close(): void {
    this.#queue.close()
    for (const stop of this.#stops) stop()
  }

  #mark(key: string): void {
    if (!this.#triggered.has(key)) this.#triggered.set(key, new Date(this.#store.clock.now()).toISOString())
    this.#queue.add(key)
  }

  #podChanged({ before, after }: Change): void {
    const namespace = after.object.metadata.namespace ?? ''
    const labels = [before?.object.metadata.labels, after.object.metadata.labels]
    for (const { key, object } of this.#store.collection(RESOURCES.service).sorted(namespace)) {
      const selector = (object as unknown as Service).spec?.selector
      if (labels.some((each) => selects(selector, each))) this.#mark(key)
    }
  }

  /** Only a node's zone is in slices. */
  #nodeChanged({ type, before, after }: Change): void {
    const zone = type === 'DELETED' ? undefined : after.object.metadata.labels?.[ZONE_LABEL]
    if (before?.object.metadata.labels?.[ZONE_LABEL] === zone) return
    for (const { key } of this.#store.collection(RESOURCES.service).values()) this.#mark(key)
  }

  /** Somebody changed or removed one of our slices: put it right. */
  #sliceChanged({ before, after }: Change): void {
    if (
      before === null ||
      after.object.metadata.labels?.['endpointslice.kubernetes.io/managed-by'] !== MANAGED_BY
    )
      return
    const service = after.object.metadata.labels['kubernetes.io/service-name'] ?? ''
    this.#queue.add(`${after.object.metadata.namespace}/${service}`)
  }

  #reconcile(key: string): void {
    const entry = this.#store.collection(RESOURCES.service).get(key)
    const trigger = this.#triggered.get(key) ?? null
    this.#triggered.delete(key)
    if (entry === undefined) return
    const service = entry.object as unknown as Service
    const { selector, type } = service.spec ?? {}
    if (selector === undefined || Object.keys(selector).length === 0 || type === 'ExternalName') return
    const namespace = service.metadata.namespace ?? ''
    const pods = this.#store
      .collection(RESOURCES.pod)
      .sorted(namespace)
      .map(({ object }) => object)
      .filter(({ metadata }) => selects(selector, metadata.labels))
    const groups = desiredEndpoints(service, pods, (node) => this.#zoneOf(node))
    const existing = this.#slicesOf(service)
    const plans = groups.flatMap((group) => distribute(group, existing))
    this.#carryOut(service, plans, existing, trigger)
  }

  #zoneOf(node: string): string | null {
    const object = this.#store.get(RESOURCES.node, '', node)?.object
    return object?.metadata.labels?.[ZONE_LABEL] ?? null
  }

  #slicesOf({ metadata }: Service): EndpointSlice[] {
    const prefix = `${metadata.namespace}/${metadata.name}-`
    const slices = this.#store.collection(RESOURCES.endpointSlice).withPrefix(prefix)
    return slices
      .map(({ object }) => object as unknown as EndpointSlice)
      .filter(
        ({ metadata: { labels } }) =>
          labels?.['kubernetes.io/service-name'] === metadata.name &&
          labels['endpointslice.kubernetes.io/managed-by'] === MANAGED_BY,
      )
  }

  /** Writes what differs; a slice that is no longer wanted becomes a new one of its family before any is created. */
  #carryOut(
    service: Service,
    plans: readonly SlicePlan[],
    existing: readonly EndpointSlice[],
    trigger: string | null,
  ): void {
    const kept = new Set(plans.map(({ slice }) => slice))
    const spare = existing.filter((slice) => !kept.has(slice))
    for (const plan of plans) {
      const recycled = spare.findIndex(({ addressType }) => addressType === plan.group.family)
      const base = plan.slice ?? (recycled < 0 ? null : spare.splice(recycled, 1)[0]!)
      this.#writeSlice(service, base, plan, trigger)
    }
    for (const { metadata } of spare) {
      this.#store.remove(RESOURCES.endpointSlice, metadata.namespace ?? '', metadata.name)
    }
  }

  #writeSlice(service: Service, base: EndpointSlice | null, plan: SlicePlan, trigger: string | null): void {
    const { group, endpoints } = plan
    const content = {
      addressType: group.family,
      endpoints: [...endpoints],
      ports: [...group.ports],
    }
    const labels = sliceLabels(service)
    if (base !== null) {
      const { addressType, ports, endpoints: old } = base
      if (equal({ addressType, ports, endpoints: old }, content) && equal(base.metadata.labels, labels))
        return
    }
    const annotations = {
      ...base?.metadata.annotations,
      ...(trigger === null ? {} : { [TRIGGER_TIME]: trigger }),
    }
    const object = {
      kind: 'EndpointSlice',
      apiVersion: 'discovery.k8s.io/v1',
      metadata: {
        ...(base?.metadata ?? this.#newMetadata(service)),
        generation: (base?.metadata.generation ?? 0) + 1,
        labels,
        annotations,
      },
      ...content,
    }
    this.#store.write(RESOURCES.endpointSlice, object as unknown as ApiObject)
  }

  #newMetadata({ metadata }: Service): object {
    const owner = {
      apiVersion: 'v1',
      kind: 'Service',
      name: metadata.name,
      uid: metadata.uid,
      controller: true,
      blockOwnerDeletion: true,
    }
    return {
      name: `${metadata.name}-${randomSuffix()}`,
      generateName: `${metadata.name}-`,
      namespace: metadata.namespace,
      uid: randomUUID(),
      creationTimestamp: this.#store.timestamp(),
      ownerReferences: [owner],
    }
  }
}

interface SlicePlan {
  /** null: a new one. */
  readonly slice: EndpointSlice | null
  readonly group: EndpointGroup
  readonly endpoints: SliceEndpoint[]
}

/** Which slice holds which endpoint: where it is already, else where there is room, else in new slices. */
function distribute(group: EndpointGroup, existing: readonly EndpointSlice[]): SlicePlan[] {
  const left = new Map(group.endpoints)
  const plans: SlicePlan[] = []
  for (const slice of existing) {
    if (slice.addressType !== group.family || !equal(slice.ports ?? [], group.ports)) continue
    const endpoints: SliceEndpoint[] = []
    for (const { addresses } of slice.endpoints ?? []) {
      const wanted = left.get(addresses[0] ?? '')
      if (wanted === undefined) continue
      endpoints.push(wanted)
      left.delete(addresses[0]!)
    }
    plans.push({ slice, group, endpoints })
  }
  for (const endpoint of left.values()) {
    const roomy = plans.find(({ endpoints }) => endpoints.length < MAX_ENDPOINTS)
    if (roomy === undefined) plans.push({ slice: null, group, endpoints: [endpoint] })
    else roomy.endpoints.push(endpoint)
  }
  const filled = plans.filter(({ endpoints }) => endpoints.length > 0)
  if (filled.length > 0) return filled
  return plans.length > 0 ? plans.slice(0, 1) : [{ slice: null, group, endpoints: [] }]
}
