import type { ApiObject, Dict } from './json.ts'
import { clone, dictOf, valueAt } from './json.ts'
import type { Deployment } from './kinds.ts'
import { badRequest } from './status.ts'

/** A Deployment as autoscaling/v1 Scale: what `kubectl scale` reads and writes. */
export function scaleOf(object: ApiObject): Dict {
  const { metadata, spec, status } = object as unknown as Deployment
  const { name, namespace, uid, resourceVersion, creationTimestamp } = metadata
  const selector = Object.entries(spec.selector.matchLabels ?? {}).map(([key, value]) => `${key}=${value}`)
  return {
    kind: 'Scale',
    apiVersion: 'autoscaling/v1',
    metadata: { name, namespace, uid, resourceVersion, creationTimestamp },
    spec: { replicas: spec.replicas ?? 1 },
    status: { replicas: status?.replicas ?? 0, selector: selector.join(',') },
  }
}

/** A copy of the object with the replicas of a Scale; fails with 400 when it has none. */
export function withScale(object: ApiObject, scale: Dict): ApiObject {
  const replicas = valueAt(scale, 'spec.replicas') ?? 0
  if (typeof replicas !== 'number' || !Number.isInteger(replicas))
    throw badRequest('spec.replicas must be an integer')
  const result = clone(object)
  result['spec'] = { ...dictOf(result['spec']), replicas }
  const version = valueAt(scale, 'metadata.resourceVersion')
  if (typeof version === 'string' && version !== '') result.metadata.resourceVersion = version
  return result
}
