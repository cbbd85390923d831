import type { Ip } from '../../net/ip.ts'
import { familyOf } from '../../net/ip.ts'
import {
  configureNamespace,
  createNamespaces,
  deleteNamespaces,
  FORWARDING,
  ipBatch,
  QUIET_IPV6,
  vethCommand,
} from '../namespaces.ts'
import type { NetworkPlan, PlaceName, PlannedPacket } from './plan.ts'
import { hostPrefix, PLACES, placeOfClient, placeOfDestination, unique } from './plan.ts'
import type { ListenSocket } from './protocol.ts'
import { TrafficProcess } from './traffic-process.ts'

/** Where an API server for the node can be reached: an address of the place `beyond`. */
export const CONTROL_ADDRESS = '100.64.0.1'

/** The node's end and the far end of each link; the node's two addressed interfaces are `eth0` and `eth1`. */
const LINKS: readonly (readonly [string, Exclude<PlaceName, 'node'>])[] = [
  ['eth0', 'remote'],
  ['eth1', 'outside'],
  ['up0', 'beyond'],
  ['veth-client', 'client'],
  ['veth-pods', 'pods'],
  ['veth-visitor', 'visitor'],
]

/** The link-local address of the node's end of every link: everybody's IPv6 gateway. */
const GATEWAY6 = 'fe80::1'

/** Refusals are ICMP errors, of which the kernel sends few a second unless it is told not to count them. */
const UNLIMITED_ICMP: Readonly<Record<string, string>> = {
  'net/ipv4/icmp_ratelimit': '0',
  'net/ipv4/icmp_msgs_per_sec': '100000',
  'net/ipv4/icmp_msgs_burst': '10000',
  'net/ipv6/icmp/ratelimit': '0',
}

/** A fixture's network as namespaces, with a traffic program in each and listeners on every endpoint and destination. */
export class PacketWorld implements AsyncDisposable {
  readonly #prefix: string
  readonly #traffic = new Map<PlaceName, TrafficProcess>()
  readonly plan: NetworkPlan

  private constructor(prefix: string, plan: NetworkPlan) {
    this.#prefix = prefix
    this.plan = plan
  }

  /** Builds everything that these packets need. `prefix` makes the namespaces' names unique on this machine. */
  static async build(
    prefix: string,
    plan: NetworkPlan,
    packets: readonly PlannedPacket[],
  ): Promise<PacketWorld> {
    const world = new PacketWorld(prefix, plan)
    try {
      await createNamespaces(PLACES.map((place) => world.namespace(place)))
      await ipBatch(
        LINKS.map(([name, place]) =>
          vethCommand(
            { namespace: world.namespace('node'), name },
            { namespace: world.namespace(place), name: 'eth0' },
          ),
        ),
      )
      const addresses = addressesOf(plan, packets)
      await Promise.all([
        world.#configureNode(addresses),
        ...LINKS.map(([, place]) => world.#configurePlace(place, addresses[place])),
      ])
      for (const place of PLACES) world.#traffic.set(place, new TrafficProcess(world.namespace(place)))
      await Promise.all(
        listenersOf(plan, packets).map(([place, sockets]) => world.traffic(place).listen(sockets)),
      )
      return world
    } catch (error) {
      await world[Symbol.asyncDispose]()
      throw error
    }
  }

  namespace(place: PlaceName): string {
    return `${this.#prefix}-${place}`
  }

  traffic(place: PlaceName): TrafficProcess {
    return this.#traffic.get(place)!
  }

  async #configureNode(addresses: Readonly<Record<PlaceName, readonly Ip[]>>): Promise<void> {
    const { nodeAddresses } = this.plan
    const lines = ['link set lo up']
    for (const [name] of LINKS) lines.push(`link set ${name} up`, `addr add ${GATEWAY6}/64 dev ${name} nodad`)
    // The first address of each family is of the first interface, the second of the second, as on a node with two.
    for (const family of ['IPv4', 'IPv6'] as const) {
      const own = nodeAddresses.filter((ip) => familyOf(ip) === family)
      own.forEach((ip, i) =>
        lines.push(`addr add ${hostPrefix(ip)} dev ${i === 0 ? 'eth0' : 'eth1'} ${nodad(ip)}`),
      )
    }
    for (const ip of addresses.node) {
      if (!nodeAddresses.includes(ip)) lines.push(`addr add ${hostPrefix(ip)} dev lo ${nodad(ip)}`)
    }
    for (const [name, place] of LINKS) {
      for (const ip of addresses[place]) {
        if (place !== 'beyond')
          lines.push(`route add ${hostPrefix(ip)} dev ${name} ${sourceHint(ip, nodeAddresses)}`)
      }
    }
    lines.push('route add default dev up0', 'route add ::/0 dev up0')
    await configureNamespace(this.namespace('node'), {
      sysctls: FORWARDING,
      optionalSysctls: { ...QUIET_IPV6, ...UNLIMITED_ICMP },
      ip: lines,
    })
  }

  async #configurePlace(place: PlaceName, addresses: readonly Ip[]): Promise<void> {
    const gateway4 = this.plan.nodeAddresses.find((ip) => familyOf(ip) === 'IPv4')
    const lines = ['link set lo up', 'link set eth0 up']
    for (const ip of addresses) lines.push(`addr add ${hostPrefix(ip)} dev eth0 ${nodad(ip)}`)
    if (gateway4 !== undefined && addresses.some((ip) => familyOf(ip) === 'IPv4')) {
      lines.push(`route add default via ${gateway4} dev eth0 onlink`)
    }
    lines.push(`route add ::/0 via ${GATEWAY6} dev eth0`)
    await configureNamespace(this.namespace(place), { optionalSysctls: QUIET_IPV6, ip: lines })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#traffic.values()].map((traffic) => traffic[Symbol.asyncDispose]()))
    await deleteNamespaces(PLACES.map((place) => this.namespace(place)))
  }
}

function nodad(ip: Ip): string {
  return familyOf(ip) === 'IPv6' ? 'nodad' : ''
}

/** Links have no addresses of their own: the kernel is told which one the node speaks with. */
function sourceHint(ip: Ip, nodeAddresses: readonly Ip[]): string {
  const source = nodeAddresses.find((own) => familyOf(own) === familyOf(ip))
  return source === undefined ? '' : `src ${source}`
}

function addressesOf(
  plan: NetworkPlan,
  packets: readonly PlannedPacket[],
): Readonly<Record<PlaceName, readonly Ip[]>> {
  const found: Record<PlaceName, Ip[]> = {
    node: [...plan.nodeAddresses],
    pods: [...plan.addresses.pods],
    client: [],
    remote: [...plan.addresses.remote],
    visitor: [],
    outside: [],
    beyond: [CONTROL_ADDRESS as Ip],
  }
  for (const packet of packets) {
    found[placeOfClient(packet, plan)].push(packet.source, ...packet.others)
    const destination = placeOfDestination(packet, plan)
    if (destination !== 'node') found[destination].push(packet.destination)
  }
  const tidy = (place: PlaceName): readonly Ip[] => unique(found[place]).filter((ip) => !isLoopbackText(ip))
  return Object.fromEntries(PLACES.map((place) => [place, tidy(place)])) as Record<PlaceName, readonly Ip[]>
}

function isLoopbackText(ip: Ip): boolean {
  return ip === '::1' || ip.startsWith('127.')
}

/** Endpoints, and for every packet a listener where it arrives if the proxy leaves it alone. */
function listenersOf(
  plan: NetworkPlan,
  packets: readonly PlannedPacket[],
): readonly (readonly [PlaceName, readonly ListenSocket[]])[] {
  const wanted = new Map<string, ListenSocket & { readonly place: PlaceName }>()
  const add = (place: PlaceName, { ip, port, protocol }: ListenSocket): void => {
    if (protocol !== 'SCTP') wanted.set(`${ip} ${protocol} ${port}`, { ip, port, protocol, place })
  }
  for (const packet of packets.filter(({ answeredByAgent }) => !answeredByAgent)) {
    add(placeOfDestination(packet, plan), {
      ip: packet.destination,
      port: packet.port,
      protocol: packet.protocol,
    })
  }
  for (const listener of plan.listeners) add(listener.place, listener)
  return PLACES.map(
    (place) => [place, [...wanted.values()].filter((socket) => socket.place === place)] as const,
  )
}
