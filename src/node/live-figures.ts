import type { LiveFigures } from '../observe/proxy-metrics.ts'
import type { Sample } from '../observe/series-maker.ts'
import { noLocalEndpoints } from '../services/build-service-map.ts'
import type { ClusterFeed } from './feed.ts'
import type { Done } from './sync.ts'

/** The figures that are worked out when somebody reads the metrics: they cost nothing otherwise. */
export function liveFigures(
  feed: ClusterFeed,
  families: readonly { readonly done: Done | null }[],
): LiveFigures {
  const pending = (differs: (change: Pending) => boolean): number => {
    const done = families[0]?.done
    if (done === null || done === undefined) return feed.store.snapshot().services.size
    let count = 0
    for (const change of feed.store.snapshot().services.changesSince(done.state.services)) {
      if (differs(change)) count++
    }
    return count
  }
  return {
    serviceChangesPending: () => pending(({ before, after }) => before?.service !== after?.service),
    endpointChangesPending: () => pending(({ before, after }) => before?.slices !== after?.slices),
    noLocalEndpoints: () =>
      families.flatMap(({ done }): Sample[] => {
        if (done === null) return []
        const { internal, external } = noLocalEndpoints(done.map)
        const ip_family = done.map.family
        return [
          [{ traffic_policy: 'internal', ip_family }, internal],
          [{ traffic_policy: 'external', ip_family }, external],
        ]
      }),
    relists: () => feed.stats().map(({ kind, relists }): Sample => [{ resource: kind }, relists]),
    undecodableObjects: () =>
      feed.stats().map(({ kind, undecodable }): Sample => [{ resource: kind }, undecodable]),
  }
}

interface Pending {
  readonly before: { readonly service: unknown; readonly slices: unknown } | undefined
  readonly after: { readonly service: unknown; readonly slices: unknown } | undefined
}
