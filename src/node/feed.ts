import type { ClusterKind, ClusterStore } from '../cluster/store.ts'

/** Told of what a feed does, synchronously. */
export interface FeedListener {
  /** Something that is used changed; the store already has it. */
  readonly changed: (kind: ClusterKind) => void
  /** The first complete list of this kind is in the store. */
  readonly synced: (kind: ClusterKind) => void
}

/** Counts of one kind since the start. */
export interface FeedStats {
  readonly kind: ClusterKind
  /** Complete lists after the first. */
  readonly relists: number
  /** Objects and events that could not be read. */
  readonly undecodable: number
}

/** Keeps a store in step with a cluster. */
export interface ClusterFeed {
  readonly store: ClusterStore
  /** Starts following, until the signal aborts. To be called once. */
  start(signal: AbortSignal, listener: FeedListener): void
  /** Why a kind is not in step with the API server now; null while it is. */
  failure(kind: ClusterKind): Error | null
  stats(): readonly FeedStats[]
}
