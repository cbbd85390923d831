import { expect, test } from 'vitest'
import { openMemoryKernel } from './memory.ts'

test('a kernel in memory has every port and starts empty', async () => {
  await using kernel = openMemoryKernel()
  expect(await kernel.nft.tables()).toEqual([])
  expect(await kernel.conntrack.list('IPv4', 'UDP')).toEqual([])
  expect((await kernel.link.links()).map(({ name }) => name)).toEqual(['lo'])
  expect(await kernel.sysctl.read('net.ipv4.ip_forward')).toBe('0')
})

test('another process in the same namespace sees what was written', async () => {
  await using kernel = openMemoryKernel()
  const other = kernel.nftNamespace.open()
  await kernel.nft.transaction('ip', 't', [
    { op: 'add table', table: { family: 'ip', name: 't', comment: null, dormant: false, owned: true } },
  ])
  expect(await other.tables()).toMatchObject([{ name: 't', owner: 'another' }])
})
