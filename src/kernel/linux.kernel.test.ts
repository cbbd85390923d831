import { readlinkSync } from 'node:fs'
import { afterAll, expect, test } from 'vitest'
import { inNamespace } from './ffi/namespace.ts'
import { openLinuxKernel } from './linux.ts'
import { makeNamespace } from './test-namespace.ts'

const namespace = makeNamespace('kernel')
afterAll(() => namespace.close())

const here = (): string => readlinkSync('/proc/thread-self/ns/net')

test('every port of the kernel works in the namespace it was opened for', async () => {
  namespace.run(['nft', 'add table ip there'])
  await using kernel = await openLinuxKernel({ netns: namespace.path })
  expect((await kernel.nft.tables()).map(({ name }) => name)).toEqual(['there'])
  expect((await kernel.link.links()).map(({ name }) => name)).toContain('lo')
  expect(await kernel.conntrack.list('IPv4', 'TCP')).toEqual([])
  expect(await kernel.sysctl.read('net/ipv4/ip_forward')).toMatch(/^[01]$/)
})

test('a call in another namespace comes back, also when it throws', () => {
  const home = here()
  expect(inNamespace(namespace.path, here)).not.toBe(home)
  expect(here()).toBe(home)
  const fail = (): never => {
    throw new Error('within')
  }
  expect(() => inNamespace(namespace.path, fail)).toThrow('within')
  expect(here()).toBe(home)
})

test('a namespace that is not there is said so', () => {
  expect(() => inNamespace('/run/netns/sb-not-there', here)).toThrow(/cannot enter .*sb-not-there: ENOENT/)
})

test('without privileges the error says which one is missing', async () => {
  process.seteuid!(65_534)
  try {
    await expect(openLinuxKernel()).rejects.toMatchObject({ code: 'NO_NET_ADMIN' })
    await expect(openLinuxKernel({ netns: namespace.path })).rejects.toMatchObject({ code: 'NO_SYS_ADMIN' })
  } finally {
    process.seteuid!(0)
  }
})

test('a batch that takes the kernel long lets the event loop go on', async () => {
  await using kernel = await openLinuxKernel({ netns: namespace.path })
  const set = {
    name: 's',
    comment: null,
    key: ['ipv4_addr'],
    data: null,
    interval: false,
    dynamic: false,
  } as const
  const elements = Array.from({ length: 30_000 }, (_, i) => ({
    op: 'add element' as const,
    element: {
      set: 's',
      key: [`10.0.${i >> 8}.${i & 255}`],
      data: null,
      verdict: null,
      timeoutMs: null,
      comment: null,
    },
  }))
  let turns = 0
  const timer = setInterval(() => turns++, 1)
  const before = turns
  await kernel.nft.transaction('ip', 'big', [
    { op: 'add table', table: { family: 'ip', name: 'big', comment: null, dormant: false, owned: false } },
    { op: 'add set', set: { ...set, timeout: false, timeoutSeconds: null, size: null } },
    ...elements,
  ])
  clearInterval(timer)
  expect(turns).toBeGreaterThan(before)
  expect((await kernel.nft.read('ip', 'big'))?.elements.get('s')).toHaveLength(30_000)
})
