import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Cidr } from '../../net/cidr.ts'
import { cidrContains, parseCidr } from '../../net/cidr.ts'
import { ipFromBytes } from '../../net/ip.ts'
import { valueMatches } from '../../kernel/nft/values.ts'
import { allowedSources } from './source-ranges.ts'

const sources = (...texts: string[]): string[] =>
  allowedSources(
    texts.map((text) => parseCidr(text)!),
    texts[0]!.includes(':') ? 'IPv6' : 'IPv4',
  )

test('ranges that overlap or touch become one, printed as nft prints it', () => {
  expect(sources('10.0.0.0/8', '10.1.0.0/16')).toEqual(['10.0.0.0/8'])
  expect(sources('10.0.1.0/24', '10.0.0.0/24')).toEqual(['10.0.0.0/23'])
  expect(sources('10.0.1.0/24', '10.0.2.0/24')).toEqual(['10.0.1.0-10.0.2.255'])
  expect(sources('203.0.113.7/32', '198.51.100.0/24')).toEqual(['198.51.100.0/24', '203.0.113.7'])
  expect(sources('0.0.0.0/1', '128.0.0.0/1')).toEqual(['0.0.0.0/0'])
  expect(sources('fd00::/65', 'fd00:0:0:0:8000::/65', 'fd01::1/128')).toEqual(['fd00::/64', 'fd01::1'])
})

test('the same addresses are let in as by the ranges', () => {
  const byte = fc.integer({ min: 0, max: 3 })
  const address = fc.tuple(byte, byte, byte, byte).map((bytes) => ipFromBytes(Uint8Array.from(bytes)))
  const range = fc
    .tuple(address, fc.integer({ min: 1, max: 32 }))
    .map(([ip, bits]) => parseCidr(`${ip}/${bits}`) as Cidr)
  fc.assert(
    fc.property(fc.array(range, { minLength: 1 }), address, (ranges, ip) => {
      const matching = allowedSources(ranges, 'IPv4').filter((span) => valueMatches('ipv4_addr', span, ip))
      expect(matching.length).toBe(Number(ranges.some((cidr) => cidrContains(cidr, ip))))
    }),
  )
})
