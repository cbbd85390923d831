import { describe, expect, test } from 'vitest'
import type { IpFamily } from '../../net/family.ts'
import type { ConntrackPort } from './port.ts'

/** A namespace in which a test can make flows. */
export interface ConntrackWorld {
  readonly port: ConntrackPort
  /** Lets a UDP packet pass from the loopback address to itself, at this port. */
  send(family: IpFamily, port: number): Promise<void>
  close(): Promise<void>
}

/** What every implementation of the conntrack port does. */
export function testConntrackPort(name: string, open: () => Promise<ConntrackWorld>): void {
  const inWorld = (run: (world: ConntrackWorld) => Promise<void>) => async (): Promise<void> => {
    const world = await open()
    try {
      await run(world)
    } finally {
      await world.port[Symbol.asyncDispose]()
      await world.close()
    }
  }
  describe(`conntrack (${name})`, () => {
    test(
      'a flow is listed under its family and protocol only',
      inWorld(async ({ port, send }) => {
        await send('IPv4', 4711)
        await send('IPv6', 4712)
        const [flow, ...others] = await port.list('IPv4', 'UDP')
        expect(others).toEqual([])
        expect(flow).toMatchObject({
          family: 'IPv4',
          protocol: 'UDP',
          original: { source: '127.0.0.1', destination: '127.0.0.1', destinationPort: 4711 },
          reply: { source: '127.0.0.1', destination: '127.0.0.1', sourcePort: 4711 },
          zone: 0,
          mark: 0,
        })
        expect(flow?.original.sourcePort).toBe(flow?.reply.destinationPort)
        expect((await port.list('IPv6', 'UDP')).map(({ original }) => original.destination)).toEqual(['::1'])
        expect(await port.list('IPv4', 'TCP')).toEqual([])
        expect(await port.list('IPv4', 'SCTP')).toEqual([])
      }),
    )
    test(
      'exactly the given flow is deleted, once',
      inWorld(async ({ port, send }) => {
        for (const at of [4711, 4712, 4713]) await send('IPv4', at)
        const flows = await port.list('IPv4', 'UDP')
        const flow = flows.find(({ original }) => original.destinationPort === 4712)!
        expect(await port.delete(flow)).toBe(true)
        expect(await port.delete(flow)).toBe(false)
        const left = await port.list('IPv4', 'UDP')
        expect(left.map(({ original }) => original.destinationPort).sort()).toEqual([4711, 4713])
      }),
    )
    test(
      'an entry with the same tuple and another id is left alone',
      inWorld(async ({ port, send }) => {
        await send('IPv4', 4711)
        const [flow] = await port.list('IPv4', 'UDP')
        expect(await port.delete({ ...flow!, id: (flow!.id ^ 1) >>> 0 })).toBe(false)
        expect(await port.list('IPv4', 'UDP')).toHaveLength(1)
      }),
    )
    test(
      'usage counts the entries',
      inWorld(async ({ port, send }) => {
        await send('IPv4', 4711)
        await send('IPv6', 4711)
        const { count, max } = await port.usage()
        expect(count).toBe(2)
        expect(max).toBeGreaterThan(2)
      }),
    )
  })
}
