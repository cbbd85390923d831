import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { readNftJson } from '../kernel/nft/json.ts'
import type { NftTableContents } from '../kernel/nft/ruleset.ts'
import { viewOf } from '../kernel/nft/rule-view.ts'
import type { CaseObservation, PacketCase, PacketFixture, PacketGroup } from '../lab/packets/run-fixture.ts'
import { looksEven } from '../lab/packets/observe.ts'
import { runFixture } from '../lab/packets/run-fixture.ts'
import { traceTables } from '../modes/nftables/trace.ts'
import type { AnyMode } from '../modes/registry.ts'
import type { Cidr } from '../net/cidr.ts'
import { parseCidr, splitCidr } from '../net/cidr.ts'
import type { Ip } from '../net/ip.ts'
import { ipFromBytes, ipToBytes, parseIp } from '../net/ip.ts'
import type { Port } from '../net/port.ts'
import type { Outcome } from '../services/decision.ts'
import { ProxyError, UnsupportedError } from '../shared/errors.ts'
import type { CaseResult, PreparedCase } from '../trace/expectations.ts'
import { judge, notRun } from '../trace/expectations.ts'
import { outcomeReport } from '../trace/report.ts'
import type { FlowExpectation, FlowsFile } from '../trace/flows/flows-file.ts'

/** Fixtures under way at a time; each is a dozen processes. */
const FIXTURES_AT_ONCE = 2

/** Checks cases with real packets in network namespaces, with the real agent on the node under test. */
export async function checkWithPackets(
  file: FlowsFile,
  cases: readonly PreparedCase[],
  mode: AnyMode,
  onDone: (result: CaseResult) => void,
): Promise<readonly CaseResult[]> {
  if (process.getuid?.() !== 0) {
    throw new UnsupportedError(
      'PACKETS_NEED_ROOT',
      'Sending real packets',
      'the right to make network namespaces',
      'Run the command as root, or leave "packets" out of --level.',
    )
  }
  const results = new Map<string, CaseResult>()
  const put = (result: CaseResult): void => {
    results.set(result.id, result)
    onDone(result)
  }
  const runnable = cases.filter((prepared) => {
    const reason = whyNot(prepared)
    if (reason !== null) put(notRun(prepared, mode.name, 'packets', reason))
    return reason === null
  })
  const waiting = [...grouped(runnable, ({ flow }) => flow.fixture.name)]
  let number = 0
  const worker = async (signal: AbortSignal): Promise<void> => {
    for (let list = waiting.shift(); list !== undefined; list = waiting.shift()) {
      const prefix = `sb-p${process.pid}-${number++}`
      const observed = await runFixture(fixtureOf(file, list, mode), prefix, agentCommand(), signal)
      for (const prepared of list) put(conclude(prepared, mode, observed.get(prepared.flow.id)!))
    }
  }
  await untilSignal(FIXTURES_AT_ONCE, worker)
  return cases.map(({ flow }) => results.get(flow.id)!)
}

/**
 * Runs workers side by side; the first failure, SIGINT or SIGTERM stops them all. Rejects only when every worker has
 * taken down what it built.
 */
async function untilSignal(count: number, worker: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const controller = new AbortController()
  const onSignal = (name: NodeJS.Signals): void => {
    controller.abort(
      new ProxyError('INTERRUPTED', `Stopped by ${name}; the namespaces of the packet tests are removed.`),
    )
  }
  process.once('SIGINT', onSignal)
  process.once('SIGTERM', onSignal)
  try {
    const ends = await Promise.allSettled(
      Array.from({ length: count }, () =>
        worker(controller.signal).catch((error: unknown) => {
          controller.abort(error)
          throw error
        }),
      ),
    )
    if (ends.some(({ status }) => status === 'rejected')) throw controller.signal.reason
  } finally {
    process.off('SIGINT', onSignal)
    process.off('SIGTERM', onSignal)
  }
}

function agentCommand(): readonly string[] {
  return [process.execPath, fileURLToPath(new URL('../../bin/switchback', import.meta.url)), 'run']
}

/** Why real packets cannot show a case here; null if they can. */
function whyNot({ flow }: PreparedCase): string | null {
  if (flow.packet.protocol !== 'SCTP') return null
  const hasSctp = readFileSync('/proc/net/protocols', 'utf8')
    .split('\n')
    .some((line) => line.startsWith('SCTP'))
  return hasSctp
    ? "the packet test's traffic program speaks TCP and UDP only"
    : 'this kernel has no SCTP (/proc/net/protocols does not list it)'
}

function fixtureOf(file: FlowsFile, list: readonly PreparedCase[], mode: AnyMode): PacketFixture {
  const groups = grouped(list, ({ setting }) => JSON.stringify(setting.config))
  return {
    objects: list[0]!.setting.objects,
    nodeName: file.nodeUnderTest,
    localAddresses: file.localAddresses,
    serviceCidrs: file.serviceCidrs.map((cidr) => rangeFor(cidr, list[0]!.setting.objects)),
    groups: groups.map((group) => groupOf(group, mode)),
  }
}

/**
 * The API server's own Service takes the first address of the range. Where the fixture uses that address, a range twice
 * as wide begins elsewhere (test/cases/flows.md).
 */
function rangeFor(cidr: Cidr, objects: readonly unknown[]): Cidr {
  const { address, bits } = splitCidr(cidr)
  const bytes = ipToBytes(address)
  bytes[bytes.length - 1]! |= 1
  const isUsed = JSON.stringify(objects).includes(`"${ipFromBytes(bytes)}"`)
  return isUsed ? (parseCidr(`${address}/${bits - 1}`) ?? cidr) : cidr
}

function groupOf(group: readonly PreparedCase[], mode: AnyMode): PacketGroup {
  const wanted = group.map((prepared) => ({
    prepared,
    text: textOf(mode.trace(mode.compile(prepared.map), prepared.setting.packet, prepared.map.node)),
  }))
  return {
    config: { ...group[0]!.setting.config, mode: mode.name },
    cases: group.map((prepared) => caseOf(prepared, mode, group)),
    isReady(ruleset) {
      const views = readNftJson(ruleset).map(withoutClients).map(viewOf)
      return wanted.every(({ prepared, text }) => {
        return textOf(traceTables(views, prepared.setting.packet, prepared.map.node)) === text
      })
    },
  }
}

/** Without what is remembered of clients of earlier cases: affinity outlives the agent. */
function withoutClients(table: NftTableContents): NftTableContents {
  const elements = [...table.elements].map(([name, list]) => {
    return [name, table.sets.get(name)?.timeout === true ? [] : list] as const
  })
  return { ...table, elements: new Map(elements) }
}

/**
 * Neighbours of a case's client whose packets meet the same: enough of them that, by chance, all endpoints are chosen.
 * Addresses that mean something in the fixture are left out; the node has no neighbours that are the node.
 */
function otherClients(
  { setting: { objects, packet }, map, expected }: PreparedCase,
  mode: AnyMode,
  group: readonly PreparedCase[],
): readonly Ip[] {
  if (!expected.sticky || packet.origin === 'local') return []
  const enough = enoughClients(expected.destinations.size)
  const cluster = JSON.stringify(objects)
  const known = new Set(group.flatMap(({ flow }) => [flow.packet.source, flow.packet.destination]))
  const rules = mode.compile(map)
  const outcome = (source: Ip): string => textOf(mode.trace(rules, { ...packet, source }, map.node))
  const wanted = outcome(packet.source)
  const others: Ip[] = []
  for (let last = 254; last > 0 && others.length < enough; last--) {
    const ip = neighbour(packet.source, last)
    if (!known.has(ip) && !cluster.includes(`"${ip}"`) && outcome(ip) === wanted) others.push(ip)
  }
  return others
}

function enoughClients(endpoints: number): number {
  return Math.ceil(endpoints * (Math.log(endpoints) + CHOICES_TO_BE_SURE))
}

/** Of n endpoints, n·(ln n + this) choices leave one out once in 3000 times. */
const CHOICES_TO_BE_SURE = 8

function neighbour(ip: Ip, lastByte: number): Ip {
  const bytes = ipToBytes(ip)
  bytes[bytes.length - 1] = lastByte
  return ipFromBytes(bytes)
}

function grouped<T>(list: readonly T[], keyOf: (item: T) => string): readonly (readonly T[])[] {
  const groups = new Map<string, T[]>()
  for (const item of list) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item])
  return [...groups.values()]
}

function textOf(outcome: Outcome): string {
  return JSON.stringify([outcome.verdict, outcomeReport(outcome), outcome.sticky])
}

function caseOf(prepared: PreparedCase, mode: AnyMode, group: readonly PreparedCase[]): PacketCase {
  const { flow, expected } = prepared
  return {
    id: flow.id,
    packet: {
      ...flow.packet,
      others: otherClients(prepared, mode, group),
      answeredByAgent: expected.verdict === 'ACCEPT_LOCAL',
    },
    destinations: expected.destinations.size,
    silent: expected.verdict === 'DROP',
    sticky: expected.sticky,
  }
}

function conclude(prepared: PreparedCase, mode: AnyMode, observed: CaseObservation): CaseResult {
  const notes = [...new Set(observed.notes)]
  const counts = [...observed.destinations.values()].map(({ flows }) => flows)
  if (observed.comparable && counts.length > 1 && !looksEven(counts))
    notes.push(`shares are uneven: ${counts.join(', ')}`)
  for (const [address, { masquerade }] of observed.destinations) {
    if (masquerade === 'mixed') notes.push(`${address} sees sometimes the node and sometimes the client`)
  }
  const outcome: Outcome = {
    verdict: observed.verdict === 'MIXED' ? 'NONE' : observed.verdict,
    destinations: [...observed.destinations].map(([address, { masquerade }]) => ({
      endpoint: endpointOf(address),
      masquerade: masquerade === true,
    })),
    sticky: observed.sticky,
  }
  if (observed.verdict === 'MIXED') notes.push('flows ended differently')
  return judge({ ...prepared, expected: visible(prepared, observed) }, mode.name, 'packets', outcome, notes)
}

/** Where few clients stick to few endpoints, only these can be judged. */
function visible({ expected }: PreparedCase, observed: CaseObservation): FlowExpectation {
  const seen = [...expected.destinations].filter(([address]) => observed.destinations.has(address))
  const isFew = observed.clients <= enoughClients(expected.destinations.size)
  return expected.sticky && isFew && seen.length > 0 ? { ...expected, destinations: new Map(seen) } : expected
}

function endpointOf(address: string): Outcome['destinations'][number]['endpoint'] {
  const colon = address.lastIndexOf(':')
  const ip = parseIp(address.slice(0, colon).replace(/^\[|\]$/g, ''))!
  return { ip, port: Number(address.slice(colon + 1)) as Port }
}
