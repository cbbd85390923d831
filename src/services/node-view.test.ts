import { expect, test } from 'vitest'
import type { NodeRecord } from '../cluster/state.ts'
import type { Cidr } from '../net/cidr.ts'
import type { IpFamily } from '../net/family.ts'
import type { Ip } from '../net/ip.ts'
import type { NodeViewConfig, NodeViewInput } from './node-view.ts'
import { compareIps, nodeView } from './node-view.ts'

const NODE: NodeRecord = {
  name: 'n1',
  uid: '',
  labels: { 'topology.kubernetes.io/zone': 'z1' },
  podCidrs: ['10.64.0.0/24', 'fd00:64::/64'] as Cidr[],
  addresses: ['192.0.2.10', '2001:db8:10::a', '203.0.113.1'] as Ip[],
  taints: [],
  deleting: false,
}
const ADDRESSES = ['127.0.0.1', '::1', '198.51.100.10', '192.0.2.10', '2001:db8:10::a', '192.0.2.9'] as Ip[]

function view(
  config: Partial<NodeViewConfig> = {},
  input: Partial<NodeViewInput> = {},
  family: IpFamily = 'IPv4',
) {
  return nodeView({
    name: 'n1',
    family,
    node: NODE,
    addresses: ADDRESSES,
    serviceCidrs: ['10.96.0.0/12', 'fd11::/112'] as Cidr[],
    config: {
      detectLocalMode: 'ClusterCIDR',
      detectLocal: { bridgeInterface: '', interfaceNamePrefix: '' },
      clusterCidrs: ['10.64.0.0/16' as Cidr],
      nodePortAddresses: [],
      bindAddress: '0.0.0.0',
      ...config,
    },
    masquerade: { masqueradeAll: false, masqueradeBit: 14 },
    emptyNodePortAddresses: 'any-local',
    ...input,
  })
}

test('keeps what belongs to the family, in order', () => {
  expect(view()).toMatchObject({
    zone: 'z1',
    primaryIp: '192.0.2.10',
    localIps: ['127.0.0.1', '192.0.2.9', '192.0.2.10', '198.51.100.10'],
    serviceCidrs: ['10.96.0.0/12'],
  })
  expect(view({}, {}, 'IPv6')).toMatchObject({ primaryIp: '2001:db8:10::a', serviceCidrs: ['fd11::/112'] })
})

test.each([
  ['nothing, where the mode serves every address', [], 'any-local', 'any-local', []],
  [
    'nothing, where the mode serves the primary one',
    [],
    'primary',
    { primary: '192.0.2.10' },
    ['192.0.2.10'],
  ],
  ['the word primary', 'primary', 'any-local', { primary: '192.0.2.10' }, ['192.0.2.10']],
  ['a CIDR', ['192.0.2.0/24'], 'primary', ['192.0.2.0/24'], ['192.0.2.9', '192.0.2.10']],
  ['a /0', ['192.0.2.0/24', '0.0.0.0/0'], 'primary', 'any-local', []],
  ['only a CIDR of the other family', ['2001:db8::/32'], 'primary', 'any-local', []],
  ['a CIDR with loopback in it', ['127.0.0.0/8'], 'primary', ['127.0.0.0/8'], []],
] as const)(
  'reads nodePortAddresses of %s',
  (_, nodePortAddresses, emptyNodePortAddresses, selection, ips) => {
    const made = view(
      { nodePortAddresses: nodePortAddresses as NodeViewConfig['nodePortAddresses'] },
      { emptyNodePortAddresses },
    )
    expect(made.nodePortAddresses).toEqual(selection)
    expect(made.nodePortIps).toEqual(ips)
  },
)

test('opens no node port and invents no loopback address while the Node object is missing', () => {
  const made = view({ nodePortAddresses: 'primary' }, { node: null })
  expect(made).toMatchObject({
    primaryIp: null,
    zone: null,
    nodePortAddresses: { primary: null },
    nodePortIps: [],
  })
})

test('a bind address is the primary address of its family only', () => {
  expect(view({ bindAddress: '192.0.2.9' }).primaryIp).toBe('192.0.2.9')
  expect(view({ bindAddress: '192.0.2.9' }, {}, 'IPv6').primaryIp).toBe('2001:db8:10::a')
  expect(view({ bindAddress: '::' }, {}, 'IPv6').primaryIp).toBe('2001:db8:10::a')
})

test.each([
  ['ClusterCIDR', 'IPv4', { by: 'source-cidr', cidr: '10.64.0.0/16' }],
  ['ClusterCIDR', 'IPv6', { by: 'none' }],
  ['NodeCIDR', 'IPv6', { by: 'source-cidr', cidr: 'fd00:64::/64' }],
  ['BridgeInterface', 'IPv4', { by: 'interface', name: 'cbr0' }],
  ['InterfaceNamePrefix', 'IPv6', { by: 'interface-prefix', prefix: 'veth' }],
] as const)('detects local pods by %s in %s', (detectLocalMode, family, detector) => {
  const detectLocal = { bridgeInterface: 'cbr0', interfaceNamePrefix: 'veth' }
  expect(view({ detectLocalMode, detectLocal }, {}, family).detectLocal).toEqual(detector)
})

test('addresses are ordered by their bytes, not as text', () => {
  const ips = ['10.0.0.10', '10.0.0.9', '9.0.0.1', 'fd00::10', 'fd00::9'] as Ip[]
  expect(ips.slice(0, 3).sort(compareIps)).toEqual(['9.0.0.1', '10.0.0.9', '10.0.0.10'])
  expect(ips.slice(3).sort(compareIps)).toEqual(['fd00::9', 'fd00::10'])
})
