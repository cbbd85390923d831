import type { Ip } from '../../net/ip.ts'
import { testConntrackPort } from './contract.ts'
import { openMemoryConntrack } from './memory.ts'

testConntrackPort('memory', async () => {
  const port = openMemoryConntrack()
  return {
    port,
    send: async (family, at) => {
      const here = (family === 'IPv4' ? '127.0.0.1' : '::1') as Ip
      port.add({
        family,
        protocol: 'UDP',
        original: { source: here, destination: here, sourcePort: 33_000, destinationPort: at },
        reply: { source: here, destination: here, sourcePort: at, destinationPort: 33_000 },
        status: 0,
        mark: 0,
        zone: 0,
      })
    },
    close: async () => undefined,
  }
})
