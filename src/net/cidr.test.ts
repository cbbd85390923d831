import fc from 'fast-check'
import { BlockList } from 'node:net'
import { expect, test } from 'vitest'
import { cidrContains, cidrRange, parseCidr, singleAddress, splitCidr } from './cidr.ts'
import { familyOf, ipFromBytes } from './ip.ts'

test.each([
  ['10.1.2.3/8', '10.0.0.0/8'],
  ['203.0.113.000/025', '203.0.113.0/25'],
  ['0.0.0.0/0', '0.0.0.0/0'],
  ['fd00::1/64', 'fd00::/64'],
  ['2001:DB8:ffff::/33', '2001:db8:8000::/33'],
])('reads %s as %s', (text, canonical) => {
  expect(parseCidr(text)).toBe(canonical)
})

test.each([
  '10.0.0.0',
  '10.0.0.0/',
  '10.0.0.0/33',
  '10.0.0.0/-1',
  '10.0.0.0/a',
  ' 10.0.0.0/8',
  '10.0.0/8',
  'fd00::/129',
  '/8',
])('refuses %j', (text) => {
  expect(parseCidr(text)).toBeNull()
})

const address = fc
  .oneof(fc.uint8Array({ minLength: 4, maxLength: 4 }), fc.uint8Array({ minLength: 16, maxLength: 16 }))
  .map(ipFromBytes)

test('containment agrees with the block list of Node.js', () => {
  fc.assert(
    fc.property(address, address, fc.double({ min: 0, max: 1, noNaN: true }), (network, candidate, part) => {
      const width = familyOf(network) === 'IPv4' ? 32 : 128
      const cidr = parseCidr(`${network}/${Math.floor(part * width)}`)!
      const list = new BlockList()
      const { address: base, bits } = splitCidr(cidr)
      list.addSubnet(base, bits, familyOf(base) === 'IPv4' ? 'ipv4' : 'ipv6')
      if (familyOf(candidate) !== familyOf(base)) expect(cidrContains(cidr, candidate)).toBe(false)
      else
        expect(cidrContains(cidr, candidate)).toBe(
          list.check(candidate, familyOf(candidate) === 'IPv4' ? 'ipv4' : 'ipv6'),
        )
      const { first, last } = cidrRange(cidr)
      expect([cidrContains(cidr, first), cidrContains(cidr, last)]).toEqual([true, true])
    }),
  )
})

test('a single address is the whole of its prefix', () => {
  fc.assert(
    fc.property(address, (ip) => {
      expect(cidrRange(singleAddress(ip))).toEqual({ first: ip, last: ip })
    }),
  )
})
