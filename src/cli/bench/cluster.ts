import type { EndpointSlice, Node, Service } from '../../kubernetes/objects.ts'

/** The node the benchmarks run as. */
export const BENCH_NODE = 'node-a'

/** A cluster of `count` ClusterIP Services with one TCP port and one slice of `endpoints` ready endpoints each. */
export function benchObjects(count: number, endpoints: number): readonly (Node | Service | EndpointSlice)[] {
  const objects: (Node | Service | EndpointSlice)[] = [benchNode()]
  for (let i = 0; i < count; i++) objects.push(benchService(i), benchSlice(i, endpoints, 0))
  return objects
}

/** Slice `index`; a different `version` replaces its first endpoint by another address, the count stays. */
export function benchSlice(index: number, endpoints: number, version: number): EndpointSlice {
  const name = `svc-${index}`
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { namespace: 'bench', name: `${name}-abcde`, labels: { 'kubernetes.io/service-name': name } },
    addressType: 'IPv4',
    ports: [{ name: 'http', protocol: 'TCP', port: 8080 }],
    endpoints: Array.from({ length: endpoints }, (_, k) => {
      return benchEndpoint(k === 0 && version > 0 ? 4_000_000 + version : index * endpoints + k)
    }),
  }
}

function benchEndpoint(n: number): NonNullable<EndpointSlice['endpoints']>[number] {
  return {
    addresses: [`10.${128 + ((n >> 16) & 127)}.${(n >> 8) & 255}.${n & 255}`],
    conditions: { ready: true, serving: true, terminating: false },
    nodeName: `node-${n % 100}`,
    zone: `zone-${n % 3}`,
    targetRef: { kind: 'Pod', namespace: 'bench', name: `pod-${n}`, uid: `uid-${n}` },
  }
}

function benchService(index: number): Service {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      namespace: 'bench',
      name: `svc-${index}`,
      uid: `svc-uid-${index}`,
      creationTimestamp: '2026-01-01T00:00:00Z',
    },
    spec: {
      type: 'ClusterIP',
      clusterIP: serviceAddress(index),
      clusterIPs: [serviceAddress(index)],
      ipFamilies: ['IPv4'],
      ports: [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 8080 }],
      sessionAffinity: 'None',
      internalTrafficPolicy: 'Cluster',
    },
  }
}

/** ClusterIP of Service `index`, within 10.96.0.0/12. */
export function serviceAddress(index: number): string {
  const n = index + 256
  return `10.${96 + (n >> 16)}.${(n >> 8) & 255}.${n & 255}`
}

function benchNode(): Node {
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: {
      name: BENCH_NODE,
      uid: 'node-uid-a',
      labels: { 'kubernetes.io/hostname': BENCH_NODE, 'topology.kubernetes.io/zone': 'zone-0' },
    },
    spec: { podCIDRs: ['10.128.0.0/24'] },
    status: { addresses: [{ type: 'InternalIP', address: '10.250.0.2' }] },
  }
}
