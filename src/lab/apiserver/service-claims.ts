import type { Service } from '../../kubernetes/objects.ts'
import type { Change } from './entry.ts'
import type { ApiObject } from './json.ts'

/** Which Services hold which addresses and node ports, kept from what is stored: nothing is ever leaked. */
export class ServiceClaims {
  readonly #addresses = new Map<string, Set<string>>()
  readonly #nodePorts = new Map<number, Set<string>>()

  /** Follows one change of the collection of Services. */
  follow({ type, before, after }: Change): void {
    if (before !== null) this.#each(before.key, before.object, release)
    if (type !== 'DELETED') this.#each(after.key, after.object, claim)
  }

  /** True if another Service than `except` has this cluster IP. */
  hasAddress(ip: string, except: string): boolean {
    return heldByOther(this.#addresses.get(ip), except)
  }

  /** True if another Service than `except` has this node port or health check node port. */
  hasNodePort(port: number, except: string): boolean {
    return heldByOther(this.#nodePorts.get(port), except)
  }

  #each(key: string, object: ApiObject, act: Act): void {
    for (const ip of clusterIpsOf(object)) act(this.#addresses, ip, key)
    for (const port of nodePortsOf(object)) act(this.#nodePorts, port, key)
  }
}

type Act = <K>(map: Map<K, Set<string>>, value: K, key: string) => void

const claim: Act = (map, value, key) => {
  const holders = map.get(value)
  if (holders === undefined) map.set(value, new Set([key]))
  else holders.add(key)
}

const release: Act = (map, value, key) => {
  const holders = map.get(value)
  holders?.delete(key)
  if (holders?.size === 0) map.delete(value)
}

function heldByOther(holders: Set<string> | undefined, except: string): boolean {
  return holders !== undefined && (holders.size > 1 || !holders.has(except))
}

function clusterIpsOf(object: ApiObject): string[] {
  const { clusterIP, clusterIPs } = (object as unknown as Service).spec ?? {}
  const all = clusterIPs !== undefined && clusterIPs.length > 0 ? clusterIPs : [clusterIP ?? '']
  return all.filter((ip) => ip !== '' && ip !== 'None')
}

function nodePortsOf(object: ApiObject): number[] {
  const { ports, healthCheckNodePort } = (object as unknown as Service).spec ?? {}
  return [...(ports ?? []).map(({ nodePort }) => nodePort ?? 0), healthCheckNodePort ?? 0].filter(
    (port) => port > 0,
  )
}
