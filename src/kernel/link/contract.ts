import { describe, expect, test } from 'vitest'
import type { LinkPort } from './port.ts'

/** A namespace whose interfaces a test can change. */
export interface LinkWorld {
  readonly port: LinkPort
  /** Adds an interface that is up, with an address. */
  add(link: string, address: string): void
  remove(link: string): void
  close(): Promise<void>
}

/** What every implementation of the link port does. */
export function testLinkPort(name: string, open: () => Promise<LinkWorld>): void {
  const inWorld = (run: (world: LinkWorld) => Promise<void>) => async (): Promise<void> => {
    const world = await open()
    try {
      await run(world)
    } finally {
      await world.port[Symbol.asyncDispose]()
      await world.close()
    }
  }
  describe(`links (${name})`, () => {
    test(
      'a fresh namespace has its loopback',
      inWorld(async ({ port }) => {
        expect(await port.links()).toContainEqual({ index: 1, name: 'lo', up: true })
        const addresses = await port.addresses()
        expect(addresses).toContainEqual({ link: 'lo', ip: '127.0.0.1', prefixBits: 8, scope: 'host' })
        expect(addresses).toContainEqual({ link: 'lo', ip: '::1', prefixBits: 128, scope: 'host' })
      }),
    )
    test(
      'an interface and its address come and go, and watchers are told',
      inWorld(async ({ port, add, remove }) => {
        let changes = 0
        const end = new AbortController()
        port.watch(end.signal, () => changes++)
        add('eth7', '10.7.0.1/24')
        await expect.poll(() => changes).toBeGreaterThan(0)
        expect((await port.links()).map(({ name }) => name)).toContain('eth7')
        expect(await port.addresses()).toContainEqual({
          link: 'eth7',
          ip: '10.7.0.1',
          prefixBits: 24,
          scope: 'global',
        })
        const before = changes
        remove('eth7')
        await expect.poll(() => changes).toBeGreaterThan(before)
        expect((await port.addresses()).filter(({ link }) => link === 'eth7')).toEqual([])
        end.abort()
      }),
    )
  })
}
