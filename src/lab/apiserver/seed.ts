import { familyOf, parseIp } from '../../net/ip.ts'
import type { IpRange } from './ip-range.ts'
import type { Store } from './store.ts'

const NAMESPACES = ['default', 'kube-node-lease', 'kube-public', 'kube-system']

/** What every cluster has from its first moment: namespaces, ServiceCIDR and the Service that leads to this server. */
export function seed(
  store: Store,
  where: { readonly ranges: readonly IpRange[]; readonly address: string; readonly port: number },
): void {
  const { ranges, address, port } = where
  store.putRaw(
    NAMESPACES.map((name) => ({
      kind: 'Namespace',
      apiVersion: 'v1',
      metadata: { name, labels: { 'kubernetes.io/metadata.name': name } },
      spec: { finalizers: ['kubernetes'] },
      status: { phase: 'Active' },
    })),
  )
  const primary = ranges[0]
  if (primary === undefined) return
  store.putRaw([
    {
      kind: 'ServiceCIDR',
      apiVersion: 'networking.k8s.io/v1',
      metadata: { name: 'kubernetes' },
      spec: { cidrs: ranges.map(({ cidr }) => cidr) },
      status: {},
    },
    {
      kind: 'Service',
      apiVersion: 'v1',
      metadata: {
        name: 'kubernetes',
        namespace: 'default',
        labels: { component: 'apiserver', provider: 'kubernetes' },
      },
      spec: {
        ports: [{ name: 'https', protocol: 'TCP', port: 443, targetPort: port }],
        clusterIP: primary.first(),
        clusterIPs: [primary.first()],
        type: 'ClusterIP',
        sessionAffinity: 'None',
        ipFamilies: [primary.family],
        ipFamilyPolicy: 'SingleStack',
        internalTrafficPolicy: 'Cluster',
      },
      status: { loadBalancer: {} },
    },
  ])
  const ip = parseIp(address)
  if (ip === null || ip === '0.0.0.0' || ip === '::') return
  store.putRaw([
    {
      kind: 'EndpointSlice',
      apiVersion: 'discovery.k8s.io/v1',
      metadata: {
        name: 'kubernetes',
        namespace: 'default',
        labels: { 'kubernetes.io/service-name': 'kubernetes' },
      },
      addressType: familyOf(ip),
      endpoints: [{ addresses: [ip], conditions: { ready: true } }],
      ports: [{ name: 'https', protocol: 'TCP', port }],
    },
  ])
}
