import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { loadRunOptions } from '../../src/config/load.ts'
import type { ProxyConfiguration } from '../../src/config/configuration.ts'
import { parseCidr } from '../../src/net/cidr.ts'
import type { IpFamily } from '../../src/net/family.ts'
import { familyOf, parseIp } from '../../src/net/ip.ts'
import type { Ip } from '../../src/net/ip.ts'
import type { Packet } from '../../src/net/packet.ts'
import { toPort } from '../../src/net/port.ts'
import type { Protocol } from '../../src/net/protocol.ts'
import { poolOf } from '../../src/services/service-map.ts'
import type { ServiceMap } from '../../src/services/service-map.ts'
import { loadObjects } from '../../src/trace/objects.ts'
import { serviceMaps } from '../../src/trace/service-maps.ts'

/** What kube-proxy 1.36.1 wrote for sets of objects; beside the repository, in CI too. */
export const GOLDEN = resolve(import.meta.dirname, '../../../shared/golden')

/** Names of the sets; empty where they are not at hand. */
export function goldenNames(): readonly string[] {
  if (!existsSync(GOLDEN)) return []
  return readdirSync(GOLDEN).filter((name) => existsSync(join(GOLDEN, name, 'objects.yaml')))
}

/** The node and the ranges of all sets (golden/README.md). */
const ADDRESSES = ['10.250.0.2', 'fd00:250::2', '127.0.0.1', '::1'] as Ip[]
const SERVICE_CIDRS = ['10.96.0.0/12', 'fd00:10:96::/108'].map((text) => parseCidr(text)!)

export interface GoldenSet {
  readonly config: ProxyConfiguration
  readonly maps: Readonly<Record<IpFamily, ServiceMap>>
  /** `nft -j list ruleset` of upstream. */
  readonly upstream: string
}

export async function loadGolden(name: string): Promise<GoldenSet> {
  const read = (file: string): string => readFileSync(join(GOLDEN, name, file), 'utf8')
  const argv = read('flags.txt')
    .split('\n')
    .filter((line) => line !== '')
    .toReversed() // a set's own flags stand first and go before the common ones
  const { configuration: config } = await loadRunOptions(argv, () =>
    Promise.reject(new Error('no --config in flags.txt')),
  )
  const { state } = await loadObjects([{ file: 'objects.yaml', text: read('objects.yaml') }], 'node-a')
  const setting = { state, config, nodeName: 'node-a', mode: 'nftables' as const }
  return {
    config,
    maps: serviceMaps({ ...setting, addresses: ADDRESSES, serviceCidrs: SERVICE_CIDRS }),
    upstream: read('nftables/nft-list-ruleset.json'),
  }
}

/** Who sends. */
interface Client {
  readonly name: string
  readonly ip: Ip
  readonly origin: Packet['origin']
  readonly inputInterface: string | null
}

/** Every kind of client × everything that a client may dial, as packets with a name. */
export function goldenPackets(
  { config, maps }: GoldenSet,
  family: IpFamily,
): readonly { readonly name: string; readonly packet: Packet }[] {
  const clients = clientsOf(maps[family], config)
  return targetsOf(maps, family).flatMap(({ ip, port, protocol }) =>
    clients.map((client) => ({
      name: `${client.name} ${client.ip} → ${ip} ${port}/${protocol}`,
      packet: {
        source: client.ip,
        sourcePort: 40_000,
        destination: ip,
        port: toPort(port)!,
        protocol,
        origin: client.origin,
        inputInterface: client.inputInterface,
      },
    })),
  )
}

const CLIENT_ADDRESSES: Readonly<Record<IpFamily, Readonly<Record<string, readonly string[]>>>> = {
  IPv4: {
    'local pod': ['10.128.0.99'],
    'remote pod': ['10.128.1.99'],
    external: ['172.30.1.1', '198.51.100.7', '203.0.113.5'],
    host: ['10.250.0.2'],
    loopback: ['127.0.0.1'],
  },
  IPv6: {
    'local pod': ['fd00:10:128::99'],
    'remote pod': ['fd00:10:128:1::99'],
    external: ['2001:db8:9::1', '2001:db8:100::7'],
    host: ['fd00:250::2'],
    loopback: ['::1'],
  },
}

function clientsOf(map: ServiceMap, config: ProxyConfiguration): readonly Client[] {
  const pods = podInterface(config)
  const fixed = Object.entries(CLIENT_ADDRESSES[map.family]).flatMap(([name, ips]) =>
    ips.map((text): Client => {
      const origin = name === 'host' || name === 'loopback' ? 'local' : 'received'
      const received = name === 'local pod' ? pods : 'eth0'
      return { name, ip: parseIp(text)!, origin, inputInterface: origin === 'local' ? null : received }
    }),
  )
  const endpoints = [...map.ports.values()]
    .flatMap((port) => (['cluster', 'local'] as const).flatMap((pool) => poolOf(port, pool).endpoints))
    .map(({ ip, isLocal }): Client => {
      const onNode = map.node.localIps.includes(ip)
      return {
        name: isLocal ? 'local endpoint' : 'remote endpoint',
        ip,
        origin: onNode ? 'local' : 'received',
        inputInterface: onNode ? null : isLocal ? pods : 'eth0',
      }
    })
  const balancers = [...map.ports.values()]
    .flatMap(({ frontends }) => frontends)
    .filter(({ kind }) => kind === 'LoadBalancer')
    .map(({ ip }): Client => ({
      name: 'load balancer',
      ip: ip as Ip,
      origin: 'received',
      inputInterface: 'eth0',
    }))
  return [...new Map([...fixed, ...endpoints, ...balancers].map((client) => [client.ip, client])).values()]
}

function podInterface(config: ProxyConfiguration): string {
  if (config.detectLocalMode === 'BridgeInterface') return config.detectLocal.bridgeInterface
  if (config.detectLocalMode === 'InterfaceNamePrefix') return `${config.detectLocal.interfaceNamePrefix}42`
  return 'cni0'
}

interface Target {
  readonly ip: Ip
  readonly port: number
  readonly protocol: Protocol
}

/** Frontends on every protocol, with a port beside each, node ports on every address, and addresses that nobody has. */
function targetsOf(maps: GoldenSet['maps'], family: IpFamily): readonly Target[] {
  const map = maps[family]
  const v4 = family === 'IPv4'
  const anyAddress = (
    v4
      ? ['10.250.0.2', '127.0.0.1', '192.0.2.99', '10.96.10.1', '10.128.0.77']
      : ['fd00:250::2', '::1', '2001:db8:77::99', 'fd00:10:96::77']
  ) as Ip[]
  const frontends = [...map.ports.values()].flatMap(({ frontends: own, shadowed }) => [
    ...own,
    ...shadowed.map(({ frontend }) => frontend),
  ])
  const healthPorts = [...map.health.values()].map(({ port }) => port)
  const addresses = [...new Set(frontends.map(({ ip }) => ip))]
  const ports = [...new Set([...frontends.map(({ port }) => port), ...healthPorts, 1])]
  const protocols: readonly Protocol[] = ['TCP', 'UDP', 'SCTP']
  const unknown = (v4 ? ['10.96.200.200', '10.250.0.77'] : ['fd00:10:96::dead', 'fd00:250::77']) as Ip[]
  const ips = [
    ...addresses.flatMap((ip) => (ip === 'any-node-port-address' ? [] : [ip])),
    ...anyAddress,
    ...unknown,
  ].filter((ip) => familyOf(ip) === family)
  const unique = [...new Set(ips)]
  return unique.flatMap((ip) =>
    ports.flatMap((port) => protocols.map((protocol) => ({ ip, port, protocol }))),
  )
}
