import { ALL_RESOURCES, apiVersionOf } from './resources.ts'
import type { ResourceType } from './resources.ts'

const VERBS = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch']
/** The Kubernetes version this server says it is: clients choose their behaviour by it. */
const MINOR = '32'

/** Documents under /api, /apis and /version; null for a path that has none. */
export function discoveryDocument(path: string, accept: string, address: string): object | null {
  const aggregated = accept.includes('as=APIGroupDiscoveryList')
  if (path === '/version' || path === '/version/') return version()
  if (path === '/api' || path === '/api/') {
    return aggregated ? aggregate([['', ['v1']]], accept) : coreVersions(address)
  }
  if (path === '/apis' || path === '/apis/') {
    return aggregated
      ? aggregate(groups(), accept)
      : {
          kind: 'APIGroupList',
          apiVersion: 'v1',
          groups: groups().map(([name, versions]) => group(name, versions)),
        }
  }
  const match = /^\/api(s)?\/([^/]+)(?:\/([^/]+))?\/?$/.exec(path)
  if (match === null) return null
  const [, plural, first, second] = match
  if (plural === undefined) return first === 'v1' && second === undefined ? resourceList('v1') : null
  const known = groups().find(([name]) => name === first)
  if (known === undefined) return null
  if (second === undefined) return { ...group(...known), kind: 'APIGroup', apiVersion: 'v1' }
  return known[1].includes(second) ? resourceList(`${first}/${second}`) : null
}

function version(): object {
  return {
    major: '1',
    minor: MINOR,
    gitVersion: `v1.${MINOR}.0-switchback`,
    gitCommit: '',
    gitTreeState: 'clean',
    buildDate: '1970-01-01T00:00:00Z',
    goVersion: '',
    compiler: '',
    platform: `${process.platform}/${process.arch === 'x64' ? 'amd64' : process.arch}`,
  }
}

function coreVersions(address: string): object {
  return {
    kind: 'APIVersions',
    versions: ['v1'],
    serverAddressByClientCIDRs: [{ clientCIDR: '0.0.0.0/0', serverAddress: address }],
  }
}

type Group = readonly [name: string, versions: readonly string[]]

function groups(): Group[] {
  const names = new Set(ALL_RESOURCES.map(({ group }) => group).filter((name) => name !== ''))
  return [...names].map((name) => [
    name,
    [...new Set(ALL_RESOURCES.filter(({ group }) => group === name).map(({ version }) => version))],
  ])
}

function group(name: string, versions: readonly string[]): object {
  const all = versions.map((version) => ({ groupVersion: `${name}/${version}`, version }))
  return { name, versions: all, preferredVersion: all[0] }
}

function resourcesOf(apiVersion: string): ResourceType[] {
  return ALL_RESOURCES.filter((type) => apiVersionOf(type) === apiVersion)
}

function resourceList(apiVersion: string): object {
  const resources = resourcesOf(apiVersion).flatMap((type) => [
    {
      name: type.resource,
      singularName: type.singular,
      namespaced: type.namespaced,
      kind: type.kind,
      verbs: verbsOf(type),
      ...(type.shortNames.length > 0 ? { shortNames: type.shortNames } : {}),
      ...(type.categories.length > 0 ? { categories: type.categories } : {}),
    },
    ...type.subresources.map((name) => ({
      name: `${type.resource}/${name}`,
      singularName: '',
      namespaced: type.namespaced,
      ...subresourceKind(type, name),
      verbs: subresourceVerbs(name),
    })),
  ])
  return { kind: 'APIResourceList', apiVersion: 'v1', groupVersion: apiVersion, resources }
}

function verbsOf(type: ResourceType): string[] {
  const single = type.resource === 'namespaces' || type.resource === 'services'
  return single ? VERBS.filter((verb) => verb !== 'deletecollection') : VERBS
}

function subresourceKind(
  type: ResourceType,
  name: string,
): { group?: string; version?: string; kind: string } {
  if (name === 'scale') return { group: 'autoscaling', version: 'v1', kind: 'Scale' }
  return { kind: name === 'binding' ? 'Binding' : type.kind }
}

function subresourceVerbs(name: string): string[] {
  if (name === 'binding') return ['create']
  return name === 'finalize' ? ['update'] : ['get', 'patch', 'update']
}

/** Everything in one answer (KEP-3352), in the version the client named. */
function aggregate(all: readonly Group[], accept: string): object {
  const version = /g=apidiscovery\.k8s\.io;v=v2(?!beta)/.test(accept) ? 'v2' : 'v2beta1'
  return {
    kind: 'APIGroupDiscoveryList',
    apiVersion: `apidiscovery.k8s.io/${version}`,
    metadata: {},
    items: all.map(([name, versions]) => ({
      metadata: { name, creationTimestamp: null },
      versions: versions.map((each) => ({
        version: each,
        freshness: 'Current',
        resources: resourcesOf(name === '' ? each : `${name}/${each}`).map(discoveryOf),
      })),
    })),
  }
}

function discoveryOf(type: ResourceType): object {
  const responseKind = { group: type.group, version: type.version, kind: type.kind }
  return {
    resource: type.resource,
    responseKind,
    scope: type.namespaced ? 'Namespaced' : 'Cluster',
    singularResource: type.singular,
    verbs: verbsOf(type),
    shortNames: type.shortNames,
    categories: type.categories,
    subresources: type.subresources.map((name) => ({
      subresource: name,
      responseKind: { ...responseKind, ...subresourceKind(type, name) },
      verbs: subresourceVerbs(name),
    })),
  }
}

/** The Content-Type that an aggregated answer must have for the client to recognise it. */
export function discoveryContentType(accept: string): string {
  if (!accept.includes('as=APIGroupDiscoveryList')) return 'application/json'
  const version = /g=apidiscovery\.k8s\.io;v=v2(?!beta)/.test(accept) ? 'v2' : 'v2beta1'
  return `application/json;g=apidiscovery.k8s.io;v=${version};as=APIGroupDiscoveryList`
}
