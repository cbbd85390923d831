import type { ServiceBundle } from '../cluster/state.ts'
import type { Ip } from '../net/ip.ts'
import type { Port } from '../net/port.ts'
import type { Protocol } from '../net/protocol.ts'
import { ShardedMap } from '../shared/sharded-map.ts'
import type { Claims } from './claims.ts'
import { claimKey } from './claims.ts'
import type { ResolvedService } from './resolve-service.ts'
import type { ServicePortId } from './service-map.ts'

/** Service ports on this node for which a Local policy leaves no endpoint although the Service has some elsewhere. */
export interface NoLocalEndpoints {
  readonly internal: number
  readonly external: number
}

export interface IndexParts {
  /** What the map was built from. */
  readonly services: ShardedMap<ServiceBundle>
  /** By `namespace/name`; Services that are not for this proxy are absent. */
  readonly resolved: ShardedMap<ResolvedService>
  readonly claims: Claims
  readonly noLocal: NoLocalEndpoints
}

/**
 * What a ServiceMap carries along so that the next one costs only what changed. Its content is private, so that it is
 * no part of the map's JSON or of comparisons: two equal maps may have been made in different ways.
 */
export class ServiceIndex {
  readonly #parts: IndexParts

  constructor(parts: IndexParts) {
    this.#parts = parts
  }

  static readonly empty = new ServiceIndex({
    services: ShardedMap.empty(),
    resolved: ShardedMap.empty(),
    claims: ShardedMap.empty(),
    noLocal: { internal: 0, external: 0 },
  })

  get parts(): IndexParts {
    return this.#parts
  }

  /** The Service port that owns an address, port and protocol; null if none does. */
  ownerOf(ip: Ip | 'any-node-port-address', port: Port, protocol: Protocol): ServicePortId | null {
    return this.#parts.claims.get(claimKey(ip, port, protocol))?.[0]?.id ?? null
  }

  toJSON(): undefined {
    return undefined
  }
}
