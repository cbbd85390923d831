import { afterAll, expect, test } from 'vitest'
import { makeNamespace } from '../test-namespace.ts'
import { testSysctlPort } from './contract.ts'
import { openSysctl } from './linux.ts'

const namespace = makeNamespace('sysctl')
afterAll(() => namespace.close())

testSysctlPort('Linux', () => openSysctl({ netns: namespace.path }))

test('a value that the kernel does not accept is refused', async () => {
  const port = openSysctl({ netns: namespace.path })
  await expect(port.write('net/ipv4/ip_forward', 'perhaps')).rejects.toMatchObject({ errnoName: 'EINVAL' })
})

test('a parameter of another namespace is not ours', async () => {
  const [inside, ours] = [openSysctl({ netns: namespace.path }), openSysctl()]
  const before = await ours.read('net/ipv4/ip_default_ttl')
  await inside.write('net/ipv4/ip_default_ttl', '33')
  expect(namespace.run(['cat', '/proc/sys/net/ipv4/ip_default_ttl']).trim()).toBe('33')
  expect(await ours.read('net/ipv4/ip_default_ttl')).toBe(before)
})
