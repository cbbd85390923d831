import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Cidr } from '../net/cidr.ts'
import type { Ip } from '../net/ip.ts'
import { ipFromBytes } from '../net/ip.ts'
import { admits, rangesForAddress, readSourceRanges } from './source-ranges.ts'

test.each([
  ['no list', [], null],
  ['blanks around entries', [' 203.0.113.0/25', '192.0.2.0/24 '], ['192.0.2.0/24', '203.0.113.0/25']],
  ['padded octets and bits', ['203.0.113.000/025'], ['203.0.113.0/25']],
  ['entries of the other family among them', ['2001:db8::/32', '192.0.2.0/24'], ['192.0.2.0/24']],
  ['only entries of the other family', ['2001:db8::/32'], null],
  ['everyone among them', ['203.0.113.9/32', '0.0.0.0/0'], null],
  ['overlapping and equal entries', ['10.0.0.0/8', '10.1.0.0/16', '10.0.0.0/8'], ['10.0.0.0/8']],
  [
    'two halves, which are not everyone written differently',
    ['0.0.0.0/1', '128.0.0.0/1'],
    ['0.0.0.0/1', '128.0.0.0/1'],
  ],
  ['what is no CIDR among them', ['x', '192.0.2.0/24', '203.0.113.300/24'], ['192.0.2.0/24']],
  ['nothing that can be read', ['x', ''], null],
])('reads %s', (_, texts, expected) => {
  expect(readSourceRanges(texts, 'IPv4').ranges).toEqual(expected)
})

test('says what it could not read, and whether anything is left', () => {
  expect(readSourceRanges(['x', '192.0.2.0/24', ''], 'IPv4')).toMatchObject({
    malformed: [
      { index: 0, text: 'x' },
      { index: 2, text: '' },
    ],
    allMalformed: false,
  })
  expect(readSourceRanges(['x'], 'IPv4').allMalformed).toBe(true)
  expect(readSourceRanges(['2001:db8::/32'], 'IPv4').allMalformed).toBe(false)
})

test('a load balancer admits its own address as source only if the node is within the ranges', () => {
  const ranges = ['192.0.2.0/24'] as Cidr[]
  const vip = '198.18.0.1' as Ip
  expect(rangesForAddress(ranges, vip, '192.0.2.10' as Ip)).toEqual(['192.0.2.0/24', '198.18.0.1/32'])
  expect(rangesForAddress(ranges, vip, '203.0.113.1' as Ip)).toBe(ranges)
  expect(rangesForAddress(ranges, vip, null)).toBe(ranges)
  expect(rangesForAddress(ranges, '192.0.2.77' as Ip, '192.0.2.10' as Ip)).toBe(ranges)
  expect(rangesForAddress(null, vip, '192.0.2.10' as Ip)).toBeNull()
})

test('leaving out covered prefixes admits neither more nor less', () => {
  const cidr = fc
    .tuple(
      fc.constantFrom('10.0.0.0', '10.0.1.0', '10.0.1.128', '10.128.0.0', '192.0.2.0'),
      fc.integer({ min: 1, max: 32 }),
    )
    .map(([address, bits]) => `${address}/${bits}`)
  const near = fc
    .tuple(fc.constantFrom(10, 192), fc.constantFrom(0, 128), fc.constantFrom(0, 1, 2), fc.nat(255))
    .map((bytes) => ipFromBytes(Uint8Array.from(bytes)))
  fc.assert(
    fc.property(fc.array(cidr, { minLength: 1 }), near, (texts, ip) => {
      const each = texts.some((text) => admits(readSourceRanges([text], 'IPv4').ranges!, ip))
      expect(admits(readSourceRanges(texts, 'IPv4').ranges!, ip)).toBe(each)
    }),
  )
})
