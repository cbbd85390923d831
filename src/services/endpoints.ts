import type { EndpointRecord, SliceRecord } from '../cluster/state.ts'
import type { Ip } from '../net/ip.ts'
import { ipToBytes } from '../net/ip.ts'
import type { Port } from '../net/port.ts'
import { toPort } from '../net/port.ts'
import type { Protocol } from '../net/protocol.ts'
import type { Endpoint, NodeView, Pool } from './service-map.ts'

/** One address and port behind a Service port, as the slices together tell it. */
export interface Candidate {
  readonly ip: Ip
  readonly port: Port
  readonly isLocal: boolean
  readonly record: EndpointRecord
}

/** The endpoints that a Service port uses on this node. */
export interface Categorised {
  /** For traffic policy Cluster. Empty only if no endpoint anywhere is usable. */
  readonly cluster: Pool
  /** For traffic policy Local. */
  readonly local: Pool
}

/**
 * The endpoints of one Service port, merged over slices: an address and port listed more than once counts once, and
 * the entry that promises most wins (ready, then serving while terminating), whatever the order of slices. Of equal
 * entries one on this node wins, then one with hints, then the first by hints.
 */
export function mergeEndpoints(
  slices: readonly SliceRecord[],
  port: { readonly name: string; readonly protocol: Protocol },
  node: Pick<NodeView, 'name' | 'family'>,
): readonly Candidate[] {
  const found = new Map<string, Candidate>()
  let usual: Port | null = null
  for (const slice of slices) {
    if (slice.family !== node.family) continue
    for (const slicePort of slice.ports) {
      if (slicePort.name !== port.name || slicePort.protocol !== port.protocol) continue
      const number = slicePort.port === null ? null : toPort(slicePort.port)
      if (number === null) continue
      usual ??= number
      for (const record of slice.endpoints) {
        const candidate = { ip: record.ip, port: number, isLocal: record.nodeName === node.name, record }
        // Endpoints of one Service port mostly share one number: then the address alone is the key.
        const key = number === usual ? record.ip : `${record.ip} ${number}`
        const known = found.get(key)
        if (known === undefined || compareClaims(candidate, known) < 0) found.set(key, candidate)
      }
    }
  }
  return sortByAddress([...found.values()])
}

/**
 * Sorts out which endpoints serve under each traffic policy (KEP-1669, KEP-2433, KEP-3015): ready ones, for policy
 * Cluster narrowed by topology hints; if none is ready, those that still serve while terminating, judged separately
 * for Cluster and for Local.
 */
export function categorise(
  candidates: readonly Candidate[],
  node: Pick<NodeView, 'name' | 'zone'>,
): Categorised {
  if (candidates.length === 0) return NO_ENDPOINTS
  const ready = candidates.filter(({ record }) => record.ready)
  const draining = candidates.filter(({ record }) => !record.ready && record.serving && record.terminating)
  const cluster = ready.length > 0 ? nearest(ready, node) : draining
  const localReady = ready.filter(({ isLocal }) => isLocal)
  const local = localReady.length > 0 ? localReady : draining.filter(({ isLocal }) => isLocal)
  return {
    cluster: poolFrom(cluster),
    local: poolFrom(local),
  }
}

/**
 * Narrows ready endpoints by their hints: to those hinted for this node if every one has node hints and one is for
 * this node; else to those hinted for this zone if every one has zone hints and one is for this zone; else not at all.
 */
function nearest(ready: readonly Candidate[], node: Pick<NodeView, 'name' | 'zone'>): readonly Candidate[] {
  const byNode = hintedFor(ready, (record) => record.forNodes, node.name)
  if (byNode !== null) return byNode
  return (node.zone === null ? null : hintedFor(ready, (record) => record.forZones, node.zone)) ?? ready
}

function hintedFor(
  ready: readonly Candidate[],
  hints: (record: EndpointRecord) => readonly string[],
  here: string,
): readonly Candidate[] | null {
  if (ready.some(({ record }) => hints(record).length === 0)) return null
  const matching = ready.filter(({ record }) => hints(record).includes(here))
  return matching.length > 0 ? matching : null
}

function poolFrom(candidates: readonly Candidate[]): Pool {
  if (candidates.length === 0) return EMPTY_POOL
  const endpoints = candidates.map(({ ip, port, isLocal, record }): Endpoint => {
    return Object.freeze({ ip, port, isLocal, state: record.ready ? 'ready' : 'terminating' })
  })
  return Object.freeze({ endpoints: Object.freeze(endpoints) })
}

/** Below 0 if `a` is to be believed rather than `b`. */
function compareClaims(a: Candidate, b: Candidate): number {
  const byRank = rank(a) - rank(b)
  if (byRank !== 0) return byRank
  const [left, right] = [hintText(a.record), hintText(b.record)]
  return left < right ? -1 : left > right ? 1 : 0
}

function rank({ isLocal, record }: Candidate): number {
  const state = record.ready ? 0 : record.serving && record.terminating ? 1 : 2
  const hinted = record.forNodes.length + record.forZones.length > 0
  return state * 4 + (isLocal ? 0 : 2) + (hinted ? 0 : 1)
}

function hintText(record: EndpointRecord): string {
  return JSON.stringify([record.forNodes, record.forZones])
}

/** By address bytes, then port. */
function sortByAddress(candidates: Candidate[]): readonly Candidate[] {
  if (candidates.length < 2) return candidates
  return candidates
    .map((candidate) => ({ candidate, key: addressKey(candidate.ip) }))
    .sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : a.candidate.port - b.candidate.port))
    .map(({ candidate }) => candidate)
}

/** What sorts as the bytes of the address do, among addresses of one family. */
function addressKey(ip: Ip): number | string {
  const bytes = ipToBytes(ip)
  if (bytes.length === 4) return bytes[0]! * 0x1000000 + (bytes[1]! << 16) + (bytes[2]! << 8) + bytes[3]!
  return String.fromCharCode(...bytes)
}

const EMPTY_POOL: Pool = Object.freeze({ endpoints: Object.freeze([]) })
const NO_ENDPOINTS: Categorised = Object.freeze({ cluster: EMPTY_POOL, local: EMPTY_POOL })
