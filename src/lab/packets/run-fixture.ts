import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Cidr } from '../../net/cidr.ts'
import { familyOf } from '../../net/ip.ts'
import { runIn } from '../namespaces.ts'
import { FixtureAgent } from './agent.ts'
import { FixtureApiServer } from './api-server.ts'
import type { Observation } from './observe.ts'
import { observe } from './observe.ts'
import type { PlannedPacket } from './plan.ts'
import { placeOfClient, planNetwork } from './plan.ts'
import type { NetworkPlan } from './plan.ts'
import type { FlowResult } from './protocol.ts'
import { PacketWorld } from './world.ts'

/** Cases that share a cluster. */
export interface PacketFixture {
  readonly objects: readonly unknown[]
  readonly nodeName: string
  /** Addresses of the node's interfaces. */
  readonly localAddresses: readonly NetworkPlan['nodeAddresses'][number][]
  /** Ranges of the API server, one of each family. */
  readonly serviceCidrs: readonly Cidr[]
  readonly groups: readonly PacketGroup[]
}

/** Cases that share a configuration of the agent, too. */
export interface PacketGroup {
  /** KubeProxyConfiguration, complete but for the kubeconfig. */
  readonly config: Readonly<Record<string, unknown>>
  readonly cases: readonly PacketCase[]
  /** Whether this `nft -j list ruleset` already holds what the group's cases need. */
  isReady(ruleset: string): boolean
}

export interface PacketCase {
  readonly id: string
  readonly packet: PlannedPacket
  /** Endpoints that are expected, for the number of flows; 0 where none is. */
  readonly destinations: number
  /** No answer is expected: the wait for one may be short. */
  readonly silent: boolean
  /** Flows of one client are expected to stick to one endpoint. */
  readonly sticky: boolean
}

/** What a case showed. */
export interface CaseObservation extends Observation {
  /** For a sticky case: every client got one endpoint only. */
  readonly sticky: boolean
  /** Flows per endpoint come from one client each and may be compared with an even share. */
  readonly comparable: boolean
  /** How many clients sent. */
  readonly clients: number
}

/** When a synced agent's rules are still not as expected after this time, the packets shall show how they differ. */
const RULES_WITHIN_MS = 15_000
const FLOWS_PER_DESTINATION = 150
/** Flows whose verdict is not FORWARD all end alike: a few are enough. */
const FLOWS_WITHOUT_DESTINATION = 4
const STICKY_FLOWS = 20
const FLOWS_OF_OTHER_CLIENTS = 3
/** An answer within the machine takes a millisecond; a machine under load may stand still for seconds. */
const ANSWER_TIMEOUT_MS = 15_000
/** A dropped packet costs the whole time, so the wait is shorter where silence is expected. */
const SILENCE_MS = 1500

/**
 * Builds a fixture's network, serves its objects from an API server, runs the real agent on the node under test, and
 * sends the packets of every case.
 *
 * @param agentArgv the command that starts the agent, up to its flags
 * @param signal when it aborts, everything is taken down and the call rejects with the signal's reason
 */
export async function runFixture(
  fixture: PacketFixture,
  prefix: string,
  agentArgv: readonly string[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, CaseObservation>> {
  const plan = planNetwork(fixture.objects, fixture.nodeName, fixture.localAddresses)
  const packets = fixture.groups.flatMap(({ cases }) => cases.map(({ packet }) => packet))
  const directory = await mkdtemp(join(tmpdir(), 'switchback-packets-'))
  const found = new Map<string, CaseObservation>()
  try {
    await using world = await PacketWorld.build(prefix, plan, packets)
    await using server = await FixtureApiServer.start(world.namespace('beyond'), directory, fixture)
    const kubeconfig = join(directory, 'kubeconfig')
    await writeFile(kubeconfig, kubeconfigFor(server.url))
    for (const group of fixture.groups) {
      await using agent = await FixtureAgent.start(world.namespace('node'), directory, agentArgv, {
        ...group.config,
        clientConnection: { kubeconfig },
      })
      const patience = performance.now() + RULES_WITHIN_MS
      const isReady = async (): Promise<boolean> =>
        (await hasSynced(world)) && (group.isReady(await listRuleset(world)) || performance.now() > patience)
      await unlessAborted(signal, agent.waitUntil(isReady))
      await unlessAborted(
        signal,
        Promise.all(group.cases.map(async (one) => found.set(one.id, await runCase(one, world)))),
      )
    }
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
  return found
}

async function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  let stop = (): void => undefined
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason as Error)
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop, { once: true })
  })
  try {
    return await Promise.race([work, aborted])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

function kubeconfigFor(server: string): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'fixture', cluster: { server } }],
    users: [{ name: 'agent', user: {} }],
    contexts: [{ name: 'fixture', context: { cluster: 'fixture', user: 'agent' } }],
    'current-context': 'fixture',
  })
}

/** The agent has written its rules and opened its health check ports, in both families: its metrics say when. */
async function hasSynced(world: PacketWorld): Promise<boolean> {
  const metrics = await world.traffic('node').get('http://127.0.0.1:10249/metrics', 2000)
  const times = metrics.matchAll(/^kubeproxy_sync_proxy_rules_last_timestamp_seconds\{.*\} (\S+)$/gm)
  return [...times].filter(([, time]) => Number(time) > 0).length === 2
}

async function listRuleset(world: PacketWorld): Promise<string> {
  return (await runIn(world.namespace('node'), ['nft', '-j', 'list', 'ruleset'])).stdout
}

async function runCase(one: PacketCase, world: PacketWorld): Promise<CaseObservation> {
  const { destinations, packet } = one
  if (!one.sticky) {
    const count = destinations > 0 ? destinations * FLOWS_PER_DESTINATION : FLOWS_WITHOUT_DESTINATION
    const flows = await send(one, packet.source, count, world)
    return { ...see(one, packet.source, flows, world), sticky: false, comparable: true, clients: 1 }
  }
  const seen = await Promise.all(
    [packet.source, ...packet.others].map(async (client, i) => {
      const count = i === 0 ? STICKY_FLOWS : FLOWS_OF_OTHER_CLIENTS
      return see(one, client, await send(one, client, count, world), world)
    }),
  )
  return joined(seen)
}

function send(
  { packet, silent }: PacketCase,
  from: PlannedPacket['source'],
  count: number,
  world: PacketWorld,
): Promise<readonly FlowResult[]> {
  return world.traffic(placeOfClient(packet, world.plan)).send({
    protocol: packet.protocol,
    from,
    to: packet.destination,
    port: packet.port,
    count,
    timeoutMs: silent ? SILENCE_MS : ANSWER_TIMEOUT_MS,
  })
}

function see(
  { packet }: PacketCase,
  client: PlannedPacket['source'],
  flows: readonly FlowResult[],
  world: PacketWorld,
): Observation {
  const target = familyOf(packet.destination) === 'IPv6' ? `[${packet.destination}]` : packet.destination
  return observe(flows, client, `${target}:${packet.port}`, world.plan)
}

/** What several clients saw, as one. */
function joined(seen: readonly Observation[]): CaseObservation {
  const destinations = new Map<string, { flows: number; masquerade: boolean | 'mixed' }>()
  for (const [address, { flows, masquerade }] of seen.flatMap((one) => [...one.destinations])) {
    const before = destinations.get(address)
    destinations.set(address, {
      flows: flows + (before?.flows ?? 0),
      masquerade: before === undefined || before.masquerade === masquerade ? masquerade : 'mixed',
    })
  }
  const verdicts = new Set(seen.map(({ verdict }) => verdict))
  const [verdict] = verdicts
  return {
    verdict: verdicts.size === 1 && verdict !== undefined ? verdict : 'MIXED',
    destinations,
    notes: seen.flatMap(({ notes }) => notes),
    sticky: seen.every((one) => one.destinations.size === 1),
    comparable: false,
    clients: seen.length,
  }
}
