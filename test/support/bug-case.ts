import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { parseAllDocuments, parse } from 'yaml'
import { clusterKind, createDecoders } from '../../src/cluster/objects.ts'
import type { ClusterKind } from '../../src/cluster/store.ts'
import { ClusterStore } from '../../src/cluster/store.ts'
import type { IpFamily } from '../../src/net/family.ts'
import type { Ip } from '../../src/net/ip.ts'
import { familyOf, isLoopback, parseIp } from '../../src/net/ip.ts'
import { toPort } from '../../src/net/port.ts'
import type { Protocol } from '../../src/net/protocol.ts'
import { buildServiceMap } from '../../src/services/build-service-map.ts'
import type { DecideTraits } from '../../src/services/decide.ts'
import { decide } from '../../src/services/decide.ts'
import type { Decision } from '../../src/services/decision.ts'
import { nodeView } from '../../src/services/node-view.ts'
import type { ServiceMap } from '../../src/services/service-map.ts'
import { viewConfigOf } from '../../src/trace/flows/flow-setting.ts'
import type { Json } from '../../src/trace/flows/flows-file.ts'
import { formatSocket } from '../../src/trace/flows/flows-file.ts'

const INPUTS = join(import.meta.dirname, '../cases/inputs')

/** The clients of test/cases/bugs.md. */
export const POD = '10.64.0.20'
export const HOST = '192.0.2.10'
export const GOOD = '203.0.113.7'
export const BAD = '203.0.113.200'

const ADDRESSES = ['192.0.2.10', '198.51.100.10', '2001:db8:10::a', '2001:db8:20::a', '127.0.0.1', '::1'].map(
  ip,
)
const SERVICE_CIDRS = viewConfigOf({ clusterCIDR: '10.111.0.0/16,fd11:111::/112' }).clusterCidrs

/**
 * One case of test/cases/bugs.md on the reference model: objects go through the store as events, maps are built one
 * from the other, and each is compared with one built from nothing.
 */
export class BugCase {
  readonly #id: string
  readonly #config: Json
  readonly #store: ClusterStore
  readonly #decoders = createDecoders()
  readonly #maps = new Map<IpFamily, ServiceMap>()

  constructor(id: string) {
    this.#id = id
    this.#config = parse(readFileSync(join(INPUTS, id, 'config.yaml'), 'utf8')) as Json
    this.#store = new ClusterStore(this.#nodeName)
    this.applyObjects(documents(join(INPUTS, 'common/nodes.yaml')))
  }

  get #nodeName(): string {
    return String(this.#config['hostnameOverride'])
  }

  /** Applies a step's file, object by object. */
  apply(step: number): void {
    this.applyObjects(this.objects(step))
  }

  /** The objects of a step's file. */
  objects(step: number): readonly unknown[] {
    return documents(join(INPUTS, this.#id, `step0${step}.yaml`))
  }

  applyObjects(objects: readonly unknown[]): void {
    for (const object of objects) {
      const kind = clusterKind((object as { kind: string }).kind)!
      const { record } = this.#decoders[kind](object)
      if (record !== null) this.#store.upsert(kind, record)
    }
  }

  remove(kind: ClusterKind, key: string): void {
    expect(this.#store.remove(kind, key)).toBe(true)
  }

  /** The map now, built from the one before. */
  map(family: IpFamily = 'IPv4'): ServiceMap {
    const state = this.#store.snapshot()
    const view = nodeView({
      name: this.#nodeName,
      family,
      node: state.node,
      addresses: ADDRESSES,
      serviceCidrs: SERVICE_CIDRS,
      config: viewConfigOf(this.#config),
      masquerade: { masqueradeAll: false, masqueradeBit: 14 },
      emptyNodePortAddresses: 'any-local',
    })
    const map = buildServiceMap(state, view, this.#maps.get(family) ?? null)
    expect(plain(map)).toEqual(plain(buildServiceMap(state, view)))
    this.#maps.set(family, map)
    return map
  }

  /** Decides a packet from a client to `ip:port`, as the map is now. */
  decide(from: string, to: string, protocol: Protocol = 'TCP', traits?: DecideTraits): Decision {
    const match = /^\[?(.*?)\]?:(\d+)$/.exec(to)!
    const [source, destination] = [ip(from), ip(match[1]!)]
    const isLocal = ADDRESSES.includes(source) || isLoopback(source)
    return decide(
      this.map(familyOf(destination)),
      {
        source,
        sourcePort: 0,
        destination,
        port: toPort(Number(match[2]))!,
        protocol,
        origin: isLocal ? 'local' : 'received',
        inputInterface: isLocal ? null : 'eth0',
      },
      traits,
    )
  }

  /** A decision in one line: `DROP`, or `10.64.0.1:80 10.64.1.1:80 (node)` with who is seen as source. */
  outcome(from: string, to: string, protocol: Protocol = 'TCP', traits?: DecideTraits): string {
    const decision = this.decide(from, to, protocol, traits)
    if (decision.verdict !== 'FORWARD') return decision.verdict
    const seen = new Set(decision.destinations.map(({ masquerade }) => (masquerade ? 'node' : 'client')))
    return `${decision.destinations.map(({ endpoint }) => formatSocket(endpoint)).join(' ')} (${[...seen].join(', ')})`
  }
}

/** Everything in a map that has meaning. */
export function plain(map: ServiceMap): unknown {
  return JSON.parse(JSON.stringify(map))
}

function documents(path: string): readonly unknown[] {
  return parseAllDocuments(readFileSync(path, 'utf8'))
    .map((document) => document.toJS() as unknown)
    .filter((object) => object !== null)
}

function ip(text: string): Ip {
  const parsed = parseIp(text)
  if (parsed === null) throw new TypeError(`${text} is no IP address`)
  return parsed
}
