import type { ApiObject } from '../json.ts'
import { clone, dictOf, listOf, textOf, valueAt } from '../json.ts'
import { RESOURCES } from '../resources.ts'
import { selects } from '../selectors.ts'
import type { Store } from '../store.ts'
import { WorkQueue } from './work-queue.ts'

/**
 * Gives pods to nodes: to the one with the fewest pods of the same owner, then the fewest pods at all, among those
 * that take new pods and fit the pod's nodeSelector.
 */
export class Scheduler {
  readonly #store: Store
  readonly #queue: WorkQueue
  readonly #stops: (() => void)[]

  constructor(store: Store) {
    this.#store = store
    this.#queue = new WorkQueue((key) => this.#place(key))
    this.#stops = [
      store.collection(RESOURCES.pod).listen(({ type, after }) => {
        if (type !== 'DELETED' && waits(after.object)) this.#queue.add(after.key)
      }),
      store.collection(RESOURCES.node).listen(() => {
        for (const { key, object } of store.collection(RESOURCES.pod).values())
          if (waits(object)) this.#queue.add(key)
      }),
    ]
  }

  close(): void {
    this.#queue.close()
    for (const stop of this.#stops) stop()
  }

  #place(key: string): void {
    const pod = this.#store.collection(RESOURCES.pod).get(key)?.object
    if (pod === undefined || !waits(pod)) return
    const node = this.#choose(pod)
    if (node === null) return
    const placed = clone(pod)
    placed['spec'] = { ...dictOf(placed['spec']), nodeName: node }
    const status = dictOf(placed['status'])
    const conditions = listOf<{ type: string }>(status['conditions']).filter(
      ({ type }) => type !== 'PodScheduled',
    )
    const scheduled = { type: 'PodScheduled', status: 'True', lastTransitionTime: this.#store.timestamp() }
    placed['status'] = { ...status, conditions: [...conditions, scheduled] }
    this.#store.write(RESOURCES.pod, placed)
  }

  #choose(pod: ApiObject): string | null {
    const loads = new Map<string, { same: number; all: number }>()
    const wanted = valueAt(pod, 'spec.nodeSelector') as Record<string, string> | undefined
    for (const { object } of this.#store.collection(RESOURCES.node).sorted()) {
      const fits = wanted === undefined || selects(wanted, object.metadata.labels)
      if (fits && takesPods(object)) loads.set(object.metadata.name, { same: 0, all: 0 })
    }
    for (const { object } of this.#store.collection(RESOURCES.pod).values()) {
      const load = loads.get(textOf(valueAt(object, 'spec.nodeName')))
      if (load === undefined || object.metadata.deletionTimestamp !== undefined) continue
      load.all++
      if (sameOwner(object, pod)) load.same++
    }
    const ranked = [...loads].sort(([, a], [, b]) => a.same - b.same || a.all - b.all)
    return ranked[0]?.[0] ?? null
  }
}

function waits(pod: ApiObject): boolean {
  return textOf(valueAt(pod, 'spec.nodeName')) === '' && pod.metadata.deletionTimestamp === undefined
}

function takesPods(node: ApiObject): boolean {
  if (valueAt(node, 'spec.unschedulable') === true) return false
  const taints = listOf<{ effect?: string }>(valueAt(node, 'spec.taints'))
  return !taints.some(({ effect }) => effect === 'NoSchedule' || effect === 'NoExecute')
}

function sameOwner(a: ApiObject, b: ApiObject): boolean {
  const owner = b.metadata.ownerReferences?.[0]?.uid
  return owner !== undefined && a.metadata.ownerReferences?.[0]?.uid === owner
}
