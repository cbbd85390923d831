import type { Ip } from '../../net/ip.ts'
import { testLinkPort } from './contract.ts'
import { openMemoryLink } from './memory.ts'

testLinkPort('memory', async () => {
  const port = openMemoryLink()
  const [links, addresses] = await Promise.all([port.links(), port.addresses()])
  return {
    port,
    add(link, address) {
      const [ip, bits] = address.split('/')
      port.set(
        [...links, { index: 2, name: link, up: true }],
        [...addresses, { link, ip: ip as Ip, prefixBits: Number(bits), scope: 'global' }],
      )
    },
    remove: () => port.set(links, addresses),
    close: async () => undefined,
  }
})
