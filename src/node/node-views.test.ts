import { expect, test } from 'vitest'
import type { ClusterState, NodeRecord } from '../cluster/state.ts'
import { assemble } from '../config/assemble.ts'
import type { FieldValue } from '../config/values.ts'
import type { Cidr } from '../net/cidr.ts'
import type { Ip } from '../net/ip.ts'
import { ShardedMap } from '../shared/sharded-map.ts'
import { NodeViews, dialableAddresses } from './node-views.ts'

const origin = { file: 'test', line: null, column: null }
const views = (fields: Readonly<Record<string, FieldValue>>): NodeViews =>
  new NodeViews(
    'worker-a',
    assemble(new Map(Object.entries(fields).map(([path, value]) => [path, { value, origin }]))),
    'nftables',
  )

const node = (rest: Partial<NodeRecord> = {}): NodeRecord => ({
  name: 'worker-a',
  uid: 'u',
  labels: {},
  podCidrs: ['10.64.0.0/24' as Cidr],
  addresses: ['192.0.2.10' as Ip],
  taints: [],
  deleting: false,
  ...rest,
})
const state = (record: NodeRecord | null): ClusterState => ({
  services: ShardedMap.empty(),
  node: record,
  serviceCidrs: [],
})
const IPS = ['192.0.2.10' as Ip]

test('a view stays the same object while nothing that it says changes', () => {
  const v = views({})
  const first = v.view('IPv4', state(node()), IPS)
  expect(v.view('IPv4', state(node({ taints: ['x'] })), [...IPS])).toBe(first)
  expect(v.view('IPv4', state(node({ addresses: ['192.0.2.77' as Ip] })), IPS)).not.toBe(first)
})

test('a Node made again with another pod CIDR and address is followed in place', () => {
  const v = views({ detectLocalMode: 'NodeCIDR', nodePortAddresses: ['primary'] })
  v.view('IPv4', state(node()), IPS)
  const moved = node({ podCidrs: ['10.64.9.0/24' as Cidr], addresses: ['192.0.2.77' as Ip] })
  expect(v.view('IPv4', state(moved), IPS)).toMatchObject({
    detectLocal: { by: 'source-cidr', cidr: '10.64.9.0/24' },
    primaryIp: '192.0.2.77',
    nodePortIps: ['192.0.2.77'],
  })
})

test('a Node that is deleted leaves the view as it was', () => {
  const v = views({ detectLocalMode: 'NodeCIDR' })
  const first = v.view('IPv4', state(node()), IPS)
  expect(v.view('IPv4', state(null), IPS)).toBe(first)
})

test('without a Node no address is made up: no primary, no node port, no loopback', () => {
  const view = views({ nodePortAddresses: ['primary'] }).view('IPv4', state(null), ['127.0.0.1' as Ip])
  expect(view).toMatchObject({ primaryIp: null, nodePortIps: [], zone: null })
})

test('link-local addresses do not count, whatever comes and goes with pods', () => {
  const address = (ip: string, scope: 'global' | 'link' | 'host') => ({
    link: 'x',
    ip: ip as Ip,
    prefixBits: 64,
    scope,
  })
  const all = [address('192.0.2.10', 'global'), address('fe80::1', 'link'), address('127.0.0.1', 'host')]
  expect(dialableAddresses(all)).toEqual(['192.0.2.10', '127.0.0.1'])
})
