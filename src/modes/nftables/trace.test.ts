import { expect, test } from 'vitest'
import { addressIn, nodeView, serviceMap, servicePort } from '../../../test/support/service-maps.ts'
import type { Port } from '../../net/port.ts'
import { nftables } from './index.ts'

test.each(['IPv4', 'IPv6'] as const)(
  '%s: a process that sends from the load-balancer address counts as one of this node',
  (family) => {
    const node = nodeView(family, { detectLocal: { by: 'none' } })
    const map = serviceMap([servicePort(family, { number: 1, cluster: [1, 2], external: 'local' })], node)
    const address = addressIn(family, 200, 1)
    const packet = {
      source: address,
      sourcePort: 0,
      destination: address,
      port: 80 as Port,
      protocol: 'TCP',
      inputInterface: null,
    } as const
    const trace = (origin: 'local' | 'received') =>
      nftables.trace(nftables.compile(map), { ...packet, origin }, node)
    expect(trace('local').destinations.map(({ masquerade }) => masquerade)).toEqual([true, true])
    expect(trace('received').verdict).toBe('DROP')
  },
)
