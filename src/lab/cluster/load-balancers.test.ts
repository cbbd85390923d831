import { expect, test } from 'vitest'
import type { Service } from '../../kubernetes/objects.ts'
import { LAB } from '../plan.ts'
import { addressIn, assignAddresses } from './load-balancers.ts'

const service = (name: string, ipFamilies: string[], ips: string[] = [], type = 'LoadBalancer'): Service => ({
  metadata: { name, namespace: 'default' },
  spec: { type, ipFamilies },
  status: { loadBalancer: { ingress: ips.map((ip) => ({ ip })) } },
})

test('a Service of type LoadBalancer gets one address for each of its families', () => {
  const fresh = service('fresh', ['IPv6', 'IPv4'])
  expect(assignAddresses(fresh, [fresh], LAB.loadBalancers)).toEqual(['203.0.113.1', '2001:db8:0:3::1'])
  const single = service('single', ['IPv6'])
  expect(assignAddresses(single, [single], LAB.loadBalancers)).toEqual(['2001:db8:0:3::1'])
})

test('no address is given twice, in neither family', () => {
  const others = [service('a', ['IPv4'], ['203.0.113.1']), service('b', ['IPv6'], ['2001:db8:0:3::2'])]
  const fresh = service('fresh', ['IPv4', 'IPv6'])
  expect(assignAddresses(fresh, [...others, fresh], LAB.loadBalancers)).toEqual([
    '203.0.113.3',
    '2001:db8:0:3::3',
  ])
})

test('what has an address keeps it, and other types get none', () => {
  const given = service('given', ['IPv4'], ['203.0.113.9'])
  expect(assignAddresses(given, [given], LAB.loadBalancers)).toBeNull()
  const plain = service('plain', ['IPv4'], [], 'ClusterIP')
  expect(assignAddresses(plain, [plain], LAB.loadBalancers)).toBeNull()
})

test('an address of a range is its prefix with the number at the end', () => {
  expect(addressIn('203.0.113.0/24', 7)).toBe('203.0.113.7')
  expect(addressIn('2001:db8:0:3::/64', 16)).toBe('2001:db8:0:3::10')
})
