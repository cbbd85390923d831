import fc from 'fast-check'
import { isIP } from 'node:net'
import { expect, test } from 'vitest'
import type { Ip } from './ip.ts'
import { familyOf, ipFromBytes, ipToBytes, isLoopback, parseIp } from './ip.ts'

test.each([
  ['10.0.0.1', '10.0.0.1'],
  ['010.064.00.061', '10.64.0.61'],
  ['255.255.255.255', '255.255.255.255'],
  ['::', '::'],
  ['::1', '::1'],
  ['FD00:0:0:0:0:0:0:00A', 'fd00::a'],
  ['2001:db8:0:1:1:1:1:1', '2001:db8:0:1:1:1:1:1'],
  ['2001:0:0:1:0:0:0:1', '2001:0:0:1::1'],
  ['2001:db8:0:0:1:0:0:1', '2001:db8::1:0:0:1'],
  ['fd00:64:0:0::20', 'fd00:64::20'],
  ['1:2:3:4:5:6:7::', '1:2:3:4:5:6:7:0'],
  ['::ffff:10.0.0.1', '10.0.0.1'],
  ['64:ff9b::192.0.2.33', '64:ff9b::c000:221'],
])('reads %s as %s', (text, canonical) => {
  expect(parseIp(text)).toBe(canonical)
})

test.each([
  '',
  ' ',
  '10.0.0',
  '10.0.0.0.1',
  '10.0.0.256',
  '10.0.0.-1',
  '10.0.0.1 ',
  ' 10.0.0.1',
  '10.0.0.0x1',
  'a.b.c.d',
  ':',
  ':::',
  '1:2:3:4:5:6:7',
  '1:2:3:4:5:6:7:8:9',
  '::1::',
  'g::',
  '12345::',
  '1.2.3.4::',
  '::1.2.3',
  'fe80::1%eth0',
  '1:2:3:4:5:6:7:8::',
])('refuses %j', (text) => {
  expect(parseIp(text)).toBeNull()
})

test('every address survives bytes → text → bytes, and the text is what Node.js takes for an address', () => {
  const bytes = fc.oneof(
    fc.uint8Array({ minLength: 4, maxLength: 4 }),
    fc.uint8Array({ minLength: 16, maxLength: 16 }),
  )
  fc.assert(
    fc.property(bytes, (raw) => {
      const ip = ipFromBytes(raw)
      expect(isIP(ip)).toBe(familyOf(ip) === 'IPv4' ? 4 : 6)
      expect(parseIp(ip)).toBe(ip)
      if (ipToBytes(ip).length === raw.length) expect(ipToBytes(ip)).toEqual(raw)
    }),
  )
})

test('the text agrees with the URL standard for IPv6', () => {
  fc.assert(
    fc.property(fc.ipV6(), (text) => {
      const ip = parseIp(text)
      if (ip === null || familyOf(ip) === 'IPv4') return
      expect(`[${ip}]`).toBe(new URL(`http://[${text}]/`).hostname)
    }),
  )
})

test('loopback is 127.0.0.0/8 and ::1', () => {
  expect(['127.0.0.1', '127.255.0.1', '::1'].every((ip) => isLoopback(ip as Ip))).toBe(true)
  expect(['128.0.0.1', '::2', '12.7.0.1'].some((ip) => isLoopback(ip as Ip))).toBe(false)
})
