import { describe, expect, test } from 'vitest'
import type { SysctlPort } from './port.ts'

/** What every implementation of the sysctl port does. */
export function testSysctlPort(name: string, open: () => SysctlPort): void {
  describe(`sysctl (${name})`, () => {
    test('what is written reads back, by either form of the name', async () => {
      const port = open()
      await port.write('net/ipv4/ip_forward', '1')
      expect(await port.read('net.ipv4.ip_forward')).toBe('1')
      await port.write('net.ipv4.ip_forward', '0')
      expect(await port.read('net/ipv4/ip_forward')).toBe('0')
    })
    test('a parameter that this kernel has not reads as null and cannot be written', async () => {
      const port = open()
      expect(await port.read('net/ipv4/no_such_parameter')).toBeNull()
      await expect(port.write('net/ipv4/no_such_parameter', '1')).rejects.toMatchObject({
        errnoName: 'ENOENT',
        operation: 'set sysctl net/ipv4/no_such_parameter to 1',
      })
    })
    test('a name cannot lead out of the tree', async () => {
      await expect(open().read('net/../../etc/passwd')).rejects.toThrow(TypeError)
    })
  })
}
