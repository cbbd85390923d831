import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { PortShape } from '../../../test/support/service-maps.ts'
import { nodeView, serviceMap, servicePort } from '../../../test/support/service-maps.ts'
import type { NodeView } from '../../services/service-map.ts'
import { compile } from './compile.ts'
import { print } from './rules.ts'

const WEB: PortShape = { number: 1, cluster: [0, 1, 2], local: [1] }

/** One scenario a file: what Services and which node make the rules of golden/<name>.nft. */
const SCENARIOS: Readonly<Record<string, readonly [readonly PortShape[], Partial<NodeView>?]>> = {
  'no-services': [[]],
  'cluster-ip': [[WEB]],
  'cluster-ip-without-endpoints': [[{ ...WEB, cluster: [], local: [] }]],
  'internal-policy-local': [[{ ...WEB, internalLocal: true }]],
  'internal-policy-local-with-none-here': [[{ ...WEB, local: [], internalLocal: true }]],
  'node-port': [[{ ...WEB, nodePort: true }]],
  'node-port-on-every-address': [
    [{ ...WEB, nodePort: true }],
    { nodePortAddresses: 'any-local', nodePortIps: [] },
  ],
  'load-balancer': [[{ ...WEB, external: 'cluster', nodePort: true }]],
  'external-policy-local': [[{ ...WEB, external: 'local', nodePort: true }]],
  'external-policy-local-with-none-here': [[{ ...WEB, local: [], external: 'local', nodePort: true }]],
  'source-ranges': [
    [{ ...WEB, external: 'cluster', sourceRanges: ['203.0.113.0/25', '203.0.113.64/26', '198.51.100.7/32'] }],
  ],
  affinity: [[{ ...WEB, affinitySeconds: 10_800, nodePort: true }]],
  'affinity-and-external-policy-local': [
    [{ ...WEB, affinitySeconds: 60, external: 'local', nodePort: true }],
  ],
  'udp-and-sctp': [
    [
      { ...WEB, protocol: 'UDP' },
      { ...WEB, number: 2, protocol: 'SCTP' },
    ],
  ],
  'very-long-names': [[{ ...WEB, affinitySeconds: 60, nameLength: 250 }]],
  'masquerade-all': [[WEB], { masqueradeAll: true }],
  'masquerade-bit-31': [[{ ...WEB, nodePort: true }], { masqueradeBit: 31 }],
  'local-pods-by-interface': [
    [{ ...WEB, external: 'local' }],
    { detectLocal: { by: 'interface', name: 'cni0' } },
  ],
  'local-pods-by-interface-prefix': [
    [{ ...WEB, external: 'local' }],
    { detectLocal: { by: 'interface-prefix', prefix: 'veth' } },
  ],
  'local-pods-unknown': [[{ ...WEB, external: 'local' }], { detectLocal: { by: 'none' } }],
}

test.each(Object.entries(SCENARIOS))('%s is written as agreed', async (name, [shapes, rest]) => {
  for (const family of ['IPv4', 'IPv6'] as const) {
    const node = nodeView(family, rest)
    const ports = shapes.map((shape) => servicePort(family, sourcesOf(family, shape), node))
    const text = print(compile(serviceMap(ports, node)))
    const suffix = family === 'IPv4' ? '' : '-ipv6'
    await expect(text).toMatchFileSnapshot(join(import.meta.dirname, `golden/${name}${suffix}.nft`))
  }
})

function sourcesOf(family: NodeView['family'], shape: PortShape): PortShape {
  if (family === 'IPv4' || shape.sourceRanges == null) return shape
  return { ...shape, sourceRanges: ['fd00:203::/32', 'fd00:203:1::/48', 'fd00:198::7/128'] }
}
