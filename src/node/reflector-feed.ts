import type { Decoded } from '../cluster/decoded.ts'
import { createDecoders } from '../cluster/objects.ts'
import type { ClusterKind, RecordsByKind } from '../cluster/store.ts'
import { ClusterStore } from '../cluster/store.ts'
import type { ApiClient } from '../kubernetes/client.ts'
import type { Log } from '../kubernetes/log.ts'
import { Reflector } from '../kubernetes/reflector.ts'
import type { Logger } from '../shared/logger.ts'
import type { ClusterFeed, FeedListener, FeedStats } from './feed.ts'

/** Where each kind lives, and what of it a proxy needs; label selectors as upstream's. */
const SOURCES: Readonly<
  Record<ClusterKind, { readonly path: string; readonly labelSelector?: string; readonly optional?: boolean }>
> = {
  services: { path: '/api/v1/services', labelSelector: '!service.kubernetes.io/service-proxy-name' },
  endpointslices: {
    path: '/apis/discovery.k8s.io/v1/endpointslices',
    labelSelector: '!service.kubernetes.io/headless,!service.kubernetes.io/service-proxy-name',
  },
  nodes: { path: '/api/v1/nodes' },
  servicecidrs: { path: '/apis/networking.k8s.io/v1/servicecidrs', optional: true },
}

const KINDS = Object.keys(SOURCES) as ClusterKind[]

/** Problems remembered as said; beyond that they may be said again. */
const MAX_SAID = 10_000

/** Follows an API server with one reflector per kind. */
export class ReflectorFeed implements ClusterFeed {
  readonly store: ClusterStore
  readonly #client: ApiClient
  readonly #nodeName: string
  readonly #log: Logger
  readonly #reflectors = new Map<ClusterKind, { readonly stats: Reflector<unknown>['stats'] }>()
  readonly #said = new Set<string>()
  readonly #synced = new Set<ClusterKind>()

  constructor(client: ApiClient, nodeName: string, log: Logger) {
    this.#client = client
    this.#nodeName = nodeName
    this.#log = log
    this.store = new ClusterStore(nodeName)
  }

  start(signal: AbortSignal, listener: FeedListener): void {
    const decoders = createDecoders()
    for (const kind of KINDS) this.#follow(kind, decoders[kind], signal, listener)
  }

  failure(kind: ClusterKind): Error | null {
    return this.#reflectors.get(kind)?.stats.failure ?? null
  }

  stats(): readonly FeedStats[] {
    return [...this.#reflectors].map(([kind, { stats }]) => ({
      kind,
      relists: stats.relists,
      undecodable: stats.undecodable,
    }))
  }

  #follow<K extends ClusterKind>(
    kind: K,
    decode: (json: unknown) => Decoded<RecordsByKind[K] | null>,
    signal: AbortSignal,
    listener: FeedListener,
  ): void {
    const told = (changed: boolean): void => {
      if (changed) listener.changed(kind)
    }
    const reflector = new Reflector<RecordsByKind[K]>({
      client: this.#client,
      ...SOURCES[kind],
      ...(kind === 'nodes' ? { fieldSelector: `metadata.name=${this.#nodeName}` } : {}),
      decode: (object) => this.#reported(decode(object)),
      sink: {
        replace: (items) => told(this.store.replace(kind, items)),
        upsert: (item) => told(this.store.upsert(kind, item)),
        remove: (key) => told(this.store.remove(kind, key)),
      },
      log: this.#reflectorLog(),
      signal,
      onSynced: () => {
        this.#synced.add(kind)
        listener.synced(kind)
      },
    })
    this.#reflectors.set(kind, reflector)
    void reflector.run()
  }

  /**
   * Until the first lists are there, every kind fails for the same reason and the agent's start says it once; the
   * reflectors' own words are for -v=2 then.
   */
  #reflectorLog(): Log {
    const log = this.#log
    return {
      info: (message, fields) => log.info(message, fields),
      warning: (message, fields) => log.warning(message, fields),
      error: (error, message, fields) => {
        if (this.#synced.has('services') && this.#synced.has('endpointslices'))
          log.error(error, message, fields)
        else log.v(2)?.info(message, { err: error, ...fields })
      },
    }
  }

  /** Says once what had to be left out or mended in an object. */
  #reported<R>({ record, problems }: Decoded<R>): R {
    for (const { object, field, message } of problems) {
      const text = `${object} ${field} ${message}`
      if (this.#said.has(text)) continue
      if (this.#said.size >= MAX_SAID) this.#said.clear()
      this.#said.add(text)
      this.#log.warning(message, { object, field })
    }
    return record
  }
}
