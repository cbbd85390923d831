import type { LabPlan, NodePlan } from '../plan.ts'

/** Labels of a lab node. */
function nodeLabels(node: NodePlan): Record<string, string> {
  return {
    'kubernetes.io/hostname': node.name,
    'kubernetes.io/os': 'linux',
    'topology.kubernetes.io/region': 'lab',
    'topology.kubernetes.io/zone': node.zone,
  }
}

/** The Node object of a lab node. */
export function nodeObject(node: NodePlan): unknown {
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: node.name, labels: nodeLabels(node) },
    spec: { podCIDR: node.podCidr.ipv4, podCIDRs: [node.podCidr.ipv4, node.podCidr.ipv6] },
    status: {
      addresses: [
        { type: 'InternalIP', address: node.address.ipv4 },
        { type: 'InternalIP', address: node.address.ipv6 },
        { type: 'Hostname', address: node.name },
      ],
      conditions: [{ type: 'Ready', status: 'True', reason: 'KubeletReady' }],
      nodeInfo: {
        kubeletVersion: 'lab',
        osImage: 'lab',
        kernelVersion: '',
        containerRuntimeVersion: 'namespaces',
      },
    },
  }
}

const DNS_LABELS = { 'k8s-app': 'kube-dns' }
const DNS_PORT = 53

/** The Service of cluster DNS, at the fixed addresses that pods' resolv.conf names. */
export function dnsService(plan: LabPlan): unknown {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'kube-dns', namespace: 'kube-system', labels: DNS_LABELS },
    spec: {
      selector: DNS_LABELS,
      clusterIP: plan.dns.ipv4,
      clusterIPs: [plan.dns.ipv4, plan.dns.ipv6],
      ipFamilies: ['IPv4', 'IPv6'],
      ipFamilyPolicy: 'RequireDualStack',
      ports: [
        { name: 'dns', protocol: 'UDP', port: DNS_PORT, targetPort: DNS_PORT },
        { name: 'dns-tcp', protocol: 'TCP', port: DNS_PORT, targetPort: DNS_PORT },
      ],
    },
  }
}

/** Two DNS servers on two nodes. */
export function dnsDeployment(): unknown {
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'cluster-dns', namespace: 'kube-system', labels: DNS_LABELS },
    spec: {
      replicas: 2,
      selector: { matchLabels: DNS_LABELS },
      template: {
        metadata: { labels: DNS_LABELS },
        spec: {
          terminationGracePeriodSeconds: 5,
          containers: [
            {
              name: 'dns',
              image: 'lab/dns',
              ports: [
                { name: 'dns', containerPort: DNS_PORT, protocol: 'UDP' },
                { name: 'dns-tcp', containerPort: DNS_PORT, protocol: 'TCP' },
              ],
            },
          ],
        },
      },
    },
  }
}
