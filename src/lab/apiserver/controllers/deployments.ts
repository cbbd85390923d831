import { createHash } from 'node:crypto'
import type { Deleter } from '../deletion.ts'
import type { Entry } from '../entry.ts'
import type { ApiObject } from '../json.ts'
import { clone, dictOf, equal, textOf } from '../json.ts'
import type { Deployment } from '../kinds.ts'
import { RESOURCES } from '../resources.ts'
import { ApiError } from '../status.ts'
import type { Store } from '../store.ts'
import type { Writer } from '../writer.ts'
import { asPod, isFinished, isReady, isTerminating } from './pods.ts'
import { WorkQueue } from './work-queue.ts'

const HASH_LABEL = 'pod-template-hash'
const CONTEXT = { manager: 'kube-controller-manager', dryRun: false, subresource: '', track: false }

/**
 * Makes pods from Deployments and replaces them one by one when the template changes: a new pod must be ready before
 * an old one goes. Pods belong to the Deployment itself; the lab has no ReplicaSets.
 */
export class DeploymentController {
  readonly #store: Store
  readonly #writer: Writer
  readonly #deleter: Deleter
  readonly #queue: WorkQueue
  readonly #stops: (() => void)[]

  constructor(store: Store, writer: Writer, deleter: Deleter) {
    this.#store = store
    this.#writer = writer
    this.#deleter = deleter
    this.#queue = new WorkQueue((key) => this.#reconcile(key))
    this.#stops = [
      store.collection(RESOURCES.deployment).listen(({ after }) => this.#queue.add(after.key)),
      store.collection(RESOURCES.pod).listen(({ after }) => {
        const owner = after.object.metadata.ownerReferences?.find(({ kind }) => kind === 'Deployment')
        if (owner !== undefined) this.#queue.add(`${after.object.metadata.namespace}/${owner.name}`)
      }),
    ]
  }

  close(): void {
    this.#queue.close()
    for (const stop of this.#stops) stop()
  }

  #reconcile(key: string): void {
    const entry = this.#store.collection(RESOURCES.deployment).get(key)
    if (entry === undefined || entry.object.metadata.deletionTimestamp !== undefined) return
    const deployment = entry.object as unknown as Deployment
    if (deployment.spec?.template === undefined) return
    const hash = templateHash(deployment)
    const pods = this.#podsOf(entry.object).filter(({ object }) => !isFinished(asPod(object)))
    const alive = pods.filter(({ object }) => !isTerminating(asPod(object)))
    const fresh = alive.filter(({ object }) => object.metadata.labels?.[HASH_LABEL] === hash)
    const stale = alive.filter((pod) => !fresh.includes(pod))
    const replicas = deployment.spec.replicas ?? 1
    const surge = Math.max(1, Math.ceil(replicas / 4))
    const missing = Math.min(
      replicas - fresh.length,
      replicas + (stale.length > 0 ? surge : 0) - alive.length,
    )
    const failure = this.#createPods(entry.object, hash, missing)
    const ready = fresh.filter(({ object }) => isReady(asPod(object))).length
    for (const pod of leastWanted(stale).slice(0, Math.max(0, ready + stale.length - replicas)))
      this.#end(pod)
    for (const pod of leastWanted(fresh).slice(0, Math.max(0, fresh.length - replicas))) this.#end(pod)
    this.#report(entry, { alive, fresh, failure })
  }

  #podsOf({ metadata }: ApiObject): Entry[] {
    return this.#store
      .collection(RESOURCES.pod)
      .sorted(metadata.namespace)
      .filter(({ object }) => object.metadata.ownerReferences?.some(({ uid }) => uid === metadata.uid))
  }

  /** Creates pods; returns why that failed, if it did: a template may be found wrong only when a pod is made of it. */
  #createPods(object: ApiObject, hash: string, count: number): string | null {
    try {
      for (let i = 0; i < count; i++) this.#createPod(object, hash)
      return null
    } catch (error) {
      if (error instanceof ApiError) return error.message
      throw error
    }
  }

  #createPod(object: ApiObject, hash: string): void {
    const { template } = (object as unknown as Deployment).spec
    const { name, namespace, uid } = object.metadata
    const pod = {
      kind: 'Pod',
      apiVersion: 'v1',
      metadata: {
        generateName: `${name}-${hash}-`,
        namespace,
        labels: { ...template.metadata?.labels, [HASH_LABEL]: hash },
        ...(template.metadata?.annotations === undefined
          ? {}
          : { annotations: template.metadata.annotations }),
        ownerReferences: [
          {
            apiVersion: 'apps/v1',
            kind: 'Deployment',
            name,
            uid,
            controller: true,
            blockOwnerDeletion: true,
          },
        ],
      },
      spec: clone(template.spec),
    }
    this.#writer.create(RESOURCES.pod, namespace ?? '', pod as unknown as ApiObject, CONTEXT)
  }

  #end(entry: Entry): void {
    const options = {
      graceSeconds: null,
      policy: 'Background',
      uid: null,
      resourceVersion: null,
      dryRun: false,
    } as const
    this.#deleter.delete(RESOURCES.pod, entry, options)
  }

  #report(entry: Entry, { alive, fresh, failure }: Progress): void {
    const { metadata } = entry.object
    const replicas = (entry.object as unknown as Deployment).spec.replicas ?? 1
    const ready = alive.filter(({ object }) => isReady(asPod(object))).length
    const available = ready >= replicas - Math.floor(replicas / 4)
    const status = {
      observedGeneration: metadata.generation ?? 1,
      replicas: alive.length,
      updatedReplicas: fresh.length,
      readyReplicas: ready,
      availableReplicas: ready,
      ...(replicas > ready ? { unavailableReplicas: replicas - ready } : {}),
      conditions: [
        {
          type: 'Available',
          status: available ? 'True' : 'False',
          reason: available ? 'MinimumReplicasAvailable' : 'MinimumReplicasUnavailable',
          message: available
            ? 'Deployment has minimum availability.'
            : 'Deployment does not have minimum availability.',
        },
        {
          type: 'Progressing',
          status: 'True',
          reason: 'PodsReconciled',
          message: 'Pods follow the template.',
        },
        ...(failure === null
          ? []
          : [{ type: 'ReplicaFailure', status: 'True', reason: 'FailedCreate', message: failure }]),
      ],
    }
    if (equal(dictOf(entry.object['status']), status)) return
    const object = clone(entry.object)
    object['status'] = status
    this.#store.write(RESOURCES.deployment, object)
  }
}

interface Progress {
  /** Pods that do not terminate. */
  readonly alive: readonly Entry[]
  /** Those of them that are made from the present template. */
  readonly fresh: readonly Entry[]
  /** Why no more pods could be made; null if nothing failed. */
  readonly failure: string | null
}

/** Those that do least first: not ready before ready, then the youngest. */
function leastWanted(pods: readonly Entry[]): Entry[] {
  const rank = ({ object }: Entry): number => (isReady(asPod(object)) ? 1 : 0)
  const born = ({ object }: Entry): string => textOf(object.metadata.creationTimestamp)
  return [...pods].sort((a, b) => rank(a) - rank(b) || (born(a) < born(b) ? 1 : -1))
}

function templateHash({ spec }: Deployment): string {
  const digest = createHash('sha256').update(JSON.stringify(spec.template)).digest()
  const letters = 'bcdfghjklmnpqrstvwxz2456789'
  return [...digest.subarray(0, 9)].map((byte) => letters[byte % letters.length]).join('')
}
