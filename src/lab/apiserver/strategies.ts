import { parseIp, familyOf } from '../../net/ip.ts'
import { parseCidr } from '../../net/cidr.ts'
import type { EndpointSlice, SliceEndpoint } from '../../kubernetes/objects.ts'
import type { ApiObject, Dict } from './json.ts'
import { dictOf, equal, isDict, listOf, valueAt } from './json.ts'
import type { Deployment, Pod } from './kinds.ts'
import { labelProblem, portNameProblem } from './names.ts'
import { RESOURCES } from './resources.ts'
import type { ResourceType } from './resources.ts'
import type { Pools } from './service-allocation.ts'
import { allocateService } from './service-allocation.ts'
import { prepareService } from './service-defaults.ts'
import { validateService } from './service-validation.ts'
import type { Causes } from './status.ts'
import { PLAIN } from './strategy.ts'
import type { Strategy } from './strategy.ts'

const MAX_SLICE_ENDPOINTS = 1000

/** How each kind is written. */
export function strategiesFor(pools: Pools): (type: ResourceType) => Strategy {
  const service: Strategy = {
    ...PLAIN,
    nameRule: 'service-name',
    ownStatus: true,
    initialStatus: { loadBalancer: {} },
    prepare: prepareService,
    validate: validateService,
    allocate: (object, old, causes) => allocateService(pools, object, old, causes),
  }
  const byResource = new Map<ResourceType, Strategy>([
    [RESOURCES.service, service],
    [RESOURCES.pod, POD],
    [RESOURCES.endpointSlice, ENDPOINT_SLICE],
    [RESOURCES.deployment, DEPLOYMENT],
    [RESOURCES.namespace, NAMESPACE],
    [RESOURCES.node, { ...PLAIN, ownStatus: true, validate: validateNode }],
    [RESOURCES.lease, { ...PLAIN, versionedUpdates: true }],
    [RESOURCES.serviceCidr, { ...PLAIN, ownStatus: true, initialStatus: {}, validate: validateServiceCidr }],
  ])
  return (type) => byResource.get(type) ?? PLAIN
}

const POD: Strategy = {
  ...PLAIN,
  ownStatus: true,
  initialStatus: { phase: 'Pending', qosClass: 'BestEffort' },
  prepare(object) {
    const spec = dictOf(object['spec'])
    spec['restartPolicy'] ??= 'Always'
    spec['terminationGracePeriodSeconds'] ??= 30
    spec['dnsPolicy'] ??= 'ClusterFirst'
    spec['schedulerName'] ??= 'default-scheduler'
    defaultPorts(spec)
  },
  validate(object, old, causes) {
    const { spec } = object as unknown as Pod
    if (!isDict(spec)) return causes.required('spec.containers')
    checkContainers(listOf<Dict>(spec['containers']), 'spec.containers', causes)
    const before = old === null ? undefined : valueAt(old, 'spec.nodeName')
    if (before !== undefined && before !== '' && before !== spec['nodeName']) {
      causes.forbidden('spec', 'pod updates may not change fields other than `spec.containers[*].image`')
    }
  },
}

function defaultPorts(podSpec: Dict): void {
  for (const container of listOf<Dict>(podSpec['containers'])) {
    for (const port of listOf<Dict>(container['ports'])) port['protocol'] ??= 'TCP'
  }
}

function checkContainers(containers: readonly Dict[], field: string, causes: Causes): void {
  if (containers.length === 0) causes.required(field)
  const names = new Set<unknown>()
  for (const [i, { name, ports, image }] of containers.entries()) {
    const at = `${field}[${i}]`
    if (typeof name !== 'string' || name === '') causes.required(`${at}.name`)
    else if (labelProblem(name) !== null) causes.invalid(`${at}.name`, name, labelProblem(name)!)
    else if (names.has(name)) causes.duplicate(`${at}.name`, name)
    names.add(name)
    if (typeof image !== 'string' || image === '') causes.required(`${at}.image`)
    for (const [j, port] of listOf<Dict>(ports).entries()) {
      const number = port['containerPort']
      if (typeof number !== 'number' || number < 1 || number > 65_535) {
        causes.invalid(
          `${at}.ports[${j}].containerPort`,
          number ?? 0,
          'must be between 1 and 65535, inclusive',
        )
      }
      const portName = port['name']
      if (typeof portName === 'string' && portName !== '' && portNameProblem(portName) !== null) {
        causes.invalid(`${at}.ports[${j}].name`, portName, portNameProblem(portName)!)
      }
    }
  }
}

const DEPLOYMENT: Strategy = {
  ...PLAIN,
  ownStatus: true,
  initialStatus: {},
  generation: true,
  prepare(object) {
    const spec = dictOf(object['spec'])
    spec['replicas'] ??= 1
    spec['strategy'] ??= { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: '25%', maxSurge: '25%' } }
    spec['revisionHistoryLimit'] ??= 10
    spec['progressDeadlineSeconds'] ??= 600
    defaultPorts(dictOf(valueAt(object, 'spec.template.spec')))
  },
  validate(object, old, causes) {
    const { spec } = object as unknown as Deployment
    const labels = spec?.template?.metadata?.labels ?? {}
    const selector = spec?.selector?.matchLabels ?? {}
    const replicas = spec?.replicas
    if (typeof replicas === 'number' && replicas < 0) {
      causes.invalid('spec.replicas', replicas, 'must be greater than or equal to 0')
    }
    if (Object.keys(selector).length === 0) causes.required('spec.selector')
    else if (Object.entries(selector).some(([key, value]) => labels[key] !== value)) {
      causes.invalid('spec.template.metadata.labels', labels, '`selector` does not match template `labels`')
    }
    checkContainers(
      listOf<Dict>(valueAt(object, 'spec.template.spec.containers')),
      'spec.template.spec.containers',
      causes,
    )
    if (old !== null && !equal((old as unknown as Deployment).spec.selector, spec.selector)) {
      causes.invalid('spec.selector', spec.selector, 'field is immutable')
    }
  },
}

const NAMESPACE: Strategy = {
  ...PLAIN,
  nameRule: 'label',
  ownStatus: true,
  initialStatus: { phase: 'Active' },
  prepare(object) {
    const spec = dictOf(object['spec'])
    object['spec'] = { ...spec, finalizers: spec['finalizers'] ?? ['kubernetes'] }
    object.metadata.labels = {
      ...object.metadata.labels,
      'kubernetes.io/metadata.name': object.metadata.name,
    }
  },
}

const ENDPOINT_SLICE: Strategy = {
  ...PLAIN,
  generation: true,
  prepare(object) {
    const slice = object as unknown as EndpointSlice
    object['endpoints'] ??= null
    object['ports'] ??= null
    for (const port of listOf<Dict>(slice.ports)) {
      port['protocol'] ??= 'TCP'
      port['name'] ??= ''
    }
  },
  validate: validateSlice,
}

function validateSlice(object: ApiObject, old: ApiObject | null, causes: Causes): void {
  const slice = object as unknown as EndpointSlice
  const types = ['FQDN', 'IPv4', 'IPv6']
  if (slice.addressType === undefined) causes.required('addressType')
  else if (!types.includes(slice.addressType)) causes.notSupported('addressType', slice.addressType, types)
  if (old !== null && old['addressType'] !== slice.addressType) {
    causes.invalid('addressType', slice.addressType, 'field is immutable')
  }
  const endpoints = listOf<SliceEndpoint>(slice.endpoints)
  if (endpoints.length > MAX_SLICE_ENDPOINTS)
    causes.tooMany('endpoints', endpoints.length, MAX_SLICE_ENDPOINTS)
  for (const [i, endpoint] of endpoints.entries())
    checkEndpoint(endpoint, slice.addressType, `endpoints[${i}]`, causes)
  checkSlicePorts(listOf<Dict>(slice.ports), causes)
}

function checkEndpoint(endpoint: SliceEndpoint, addressType: string, field: string, causes: Causes): void {
  const addresses = listOf<string>(endpoint.addresses)
  if (addresses.length === 0) causes.required(`${field}.addresses`, 'must contain at least 1 address')
  if (addresses.length > 100) causes.tooMany(`${field}.addresses`, addresses.length, 100)
  for (const [i, text] of addresses.entries()) {
    if (addressType === 'FQDN') continue
    const ip = parseIp(text)
    if (ip === null || familyOf(ip) !== addressType) {
      causes.invalid(`${field}.addresses[${i}]`, text, `must be an ${addressType} address`)
    } else if (ip === '0.0.0.0' || ip === '::') {
      causes.invalid(`${field}.addresses[${i}]`, text, 'may not be unspecified (0.0.0.0 or ::)')
    } else if (ip.startsWith('127.') || ip === '::1') {
      causes.invalid(
        `${field}.addresses[${i}]`,
        text,
        'may not be in the loopback range (127.0.0.0/8, ::1/128)',
      )
    }
  }
}

function checkSlicePorts(ports: readonly Dict[], causes: Causes): void {
  const names = new Set<unknown>()
  for (const [i, { name, port, protocol }] of ports.entries()) {
    if (names.has(name)) causes.duplicate(`ports[${i}].name`, name)
    names.add(name)
    if (typeof name === 'string' && name !== '' && labelProblem(name) !== null) {
      causes.invalid(`ports[${i}].name`, name, labelProblem(name)!)
    }
    if (!['SCTP', 'TCP', 'UDP'].includes(String(protocol))) {
      causes.notSupported(`ports[${i}].protocol`, protocol, ['SCTP', 'TCP', 'UDP'])
    }
    if (port !== undefined && port !== null && (typeof port !== 'number' || port < 1 || port > 65_535)) {
      causes.invalid(`ports[${i}].port`, port, 'must be between 1 and 65535, inclusive')
    }
  }
}

function validateNode(object: ApiObject, _old: ApiObject | null, causes: Causes): void {
  for (const [i, text] of listOf<string>(valueAt(object, 'spec.podCIDRs')).entries()) {
    if (parseCidr(text) === null) causes.invalid(`spec.podCIDRs[${i}]`, text, 'must be a valid CIDR value')
  }
}

function validateServiceCidr(object: ApiObject, old: ApiObject | null, causes: Causes): void {
  const cidrs = listOf<string>(valueAt(object, 'spec.cidrs'))
  if (cidrs.length === 0) causes.required('spec.cidrs', 'at least one CIDR required')
  for (const [i, text] of cidrs.entries()) {
    if (parseCidr(text) === null) causes.invalid(`spec.cidrs[${i}]`, text, 'must be a valid CIDR value')
  }
  if (old !== null && !equal(valueAt(old, 'spec.cidrs'), cidrs)) {
    causes.invalid('spec.cidrs', cidrs, 'field is immutable')
  }
}
