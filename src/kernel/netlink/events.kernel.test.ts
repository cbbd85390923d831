import { afterAll, expect, test } from 'vitest'
import { makeNamespace } from '../test-namespace.ts'
import { subscribe } from './events.ts'
import { NETLINK_NETFILTER } from './socket.ts'

const NFNLGRP_NFTABLES = 7

const namespace = makeNamespace('events')
afterAll(() => namespace.close())

/** The test's process waits for nft without reading events, so that they pile up. */
function makeTables(label: string, count: number): void {
  const script = Array.from({ length: count }, (_, i) => `add table ip ${label}${i}`).join('\n')
  namespace.run(['nft', '-f', '-'], `${script}\n`)
}

test('a watcher that falls behind is told to read again, and goes on', async () => {
  const told: string[] = []
  const end = new AbortController()
  const options = { protocol: NETLINK_NETFILTER, netns: namespace.path, groups: [NFNLGRP_NFTABLES] }
  subscribe({ ...options, receiveBuffer: 4096 }, end.signal, (event) => {
    told.push(event === 'resync' ? event : 'event')
  })
  makeTables('flood', 300)
  await expect.poll(() => told.includes('resync')).toBe(true)
  const before = told.length
  makeTables('after', 1)
  await expect.poll(() => told.length).toBeGreaterThan(before)
  expect(told.at(-1)).toBe('event')
  end.abort()
})

test('a subscription may be ended from within its callback', async () => {
  let count = 0
  const end = new AbortController()
  const options = { protocol: NETLINK_NETFILTER, netns: namespace.path, groups: [NFNLGRP_NFTABLES] }
  subscribe(options, end.signal, () => {
    count++
    end.abort()
  })
  makeTables('last', 20)
  await expect.poll(() => count).toBe(1)
  makeTables('later', 1)
  expect(count).toBe(1)
})
