/** One REST resource the server offers. */
export interface ResourceType {
  /** Empty for core. */
  readonly group: string
  readonly version: string
  /** Plural, as in the path. */
  readonly resource: string
  readonly singular: string
  readonly kind: string
  readonly namespaced: boolean
  readonly shortNames: readonly string[]
  readonly categories: readonly string[]
  readonly subresources: readonly string[]
  /** Name of the collection it is kept in; two versions of one thing share it. */
  readonly storage: string
}

type Extra = Partial<
  Pick<ResourceType, 'shortNames' | 'categories' | 'subresources' | 'storage' | 'namespaced'>
>

function define(apiVersion: string, resource: string, kind: string, extra: Extra = {}): ResourceType {
  const [group, version] = apiVersion.includes('/') ? apiVersion.split('/') : ['', apiVersion]
  return {
    group: group!,
    version: version!,
    resource,
    kind,
    singular: kind.toLowerCase(),
    namespaced: true,
    shortNames: [],
    categories: [],
    subresources: [],
    storage: resource,
    ...extra,
  }
}

const WITH_STATUS = { subresources: ['status'] }

/** Every resource, in the order that discovery shows them. */
export const RESOURCES = {
  configMap: define('v1', 'configmaps', 'ConfigMap', { shortNames: ['cm'] }),
  event: define('v1', 'events', 'Event', { shortNames: ['ev'] }),
  namespace: define('v1', 'namespaces', 'Namespace', {
    namespaced: false,
    shortNames: ['ns'],
    subresources: ['status', 'finalize'],
  }),
  node: define('v1', 'nodes', 'Node', { namespaced: false, shortNames: ['no'], ...WITH_STATUS }),
  pod: define('v1', 'pods', 'Pod', {
    shortNames: ['po'],
    categories: ['all'],
    subresources: ['status', 'binding'],
  }),
  service: define('v1', 'services', 'Service', { shortNames: ['svc'], categories: ['all'], ...WITH_STATUS }),
  deployment: define('apps/v1', 'deployments', 'Deployment', {
    shortNames: ['deploy'],
    categories: ['all'],
    subresources: ['status', 'scale'],
  }),
  lease: define('coordination.k8s.io/v1', 'leases', 'Lease'),
  endpointSlice: define('discovery.k8s.io/v1', 'endpointslices', 'EndpointSlice'),
  eventsV1: define('events.k8s.io/v1', 'events', 'Event', { shortNames: ['ev'], storage: 'events' }),
  serviceCidr: define('networking.k8s.io/v1', 'servicecidrs', 'ServiceCIDR', {
    namespaced: false,
    ...WITH_STATUS,
  }),
} as const

export const ALL_RESOURCES: readonly ResourceType[] = Object.values(RESOURCES)

/** `v1` or `apps/v1`. */
export function apiVersionOf(type: ResourceType): string {
  return type.group === '' ? type.version : `${type.group}/${type.version}`
}

const BY_PATH = new Map(ALL_RESOURCES.map((type) => [`${apiVersionOf(type)}/${type.resource}`, type]))
const BY_KIND = new Map(ALL_RESOURCES.map((type) => [`${apiVersionOf(type)}/${type.kind}`, type]))

export function resourceByPath(apiVersion: string, resource: string): ResourceType | null {
  return BY_PATH.get(`${apiVersion}/${resource}`) ?? null
}

export function resourceByKind(apiVersion: string, kind: string): ResourceType | null {
  return BY_KIND.get(`${apiVersion}/${kind}`) ?? null
}
