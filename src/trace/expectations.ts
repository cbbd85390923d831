import { clusterStateFromObjects } from '../cluster/objects.ts'
import type { AnyMode } from '../modes/registry.ts'
import { buildServiceMap } from '../services/build-service-map.ts'
import { decide } from '../services/decide.ts'
import type { Outcome } from '../services/decision.ts'
import type { ServiceMap } from '../services/service-map.ts'
import { differences } from './flows/compare.ts'
import type { FlowSetting } from './flows/flow-setting.ts'
import { flowSetting } from './flows/flow-setting.ts'
import type { FlowCase, FlowExpectation, FlowsFile } from './flows/flows-file.ts'
import { expectationFor } from './flows/flows-file.ts'
import { withHealthPorts } from './health.ts'
import { outcomeReport } from './report.ts'

/** How a case is checked: on the reference model, on the compiled rules, or with real packets. */
export type Level = 'decide' | 'trace' | 'packets'

export const LEVELS: readonly Level[] = ['decide', 'trace', 'packets']

/** One case at one level in one mode; `ok` is null where the level cannot run the case, and `note` says why. */
export interface CaseResult {
  readonly id: string
  readonly mode: string
  readonly level: Level
  readonly ok: boolean | null
  readonly want: string
  readonly got: string | null
  readonly note: string
}

/** `expect -o json`; docs/json.md describes the fields. */
export interface ExpectReport {
  readonly total: number
  readonly passed: number
  readonly failed: number
  /** Cases that a level could not run. */
  readonly notRun: number
  readonly results: readonly CaseResult[]
}

export function expectReport(results: readonly CaseResult[]): ExpectReport {
  const count = (ok: boolean | null): number => results.filter((result) => result.ok === ok).length
  return { total: results.length, passed: count(true), failed: count(false), notRun: count(null), results }
}

/** A case ready to be checked in a mode. */
export interface PreparedCase {
  readonly flow: FlowCase
  readonly setting: FlowSetting
  readonly map: ServiceMap
  readonly expected: FlowExpectation
}

export function prepareCase(file: FlowsFile, flow: FlowCase, mode: string): PreparedCase {
  const setting = flowSetting(file, flow, mode)
  const { state } = clusterStateFromObjects(setting.objects, setting.nodeName)
  const map = buildServiceMap(state, setting.view(state.node))
  return { flow, setting, map, expected: expectationFor(flow, mode) }
}

/** Checks a case without a kernel. */
export function checkCase(prepared: PreparedCase, mode: AnyMode, level: 'decide' | 'trace'): CaseResult {
  const { outcome, notes } = level === 'decide' ? decideCase(prepared, mode) : traceCase(prepared, mode)
  return judge(prepared, mode.name, level, outcome, notes)
}

interface Answer {
  readonly outcome: Outcome
  /** What makes an outcome doubtful; a case with notes fails. */
  readonly notes: readonly string[]
}

function decideCase({ setting, map }: PreparedCase, { traits }: AnyMode): Answer {
  const loopbackNodePorts = traits.loopbackNodePorts && setting.loopbackNodePorts
  return { outcome: decide(map, setting.packet, { ...traits, loopbackNodePorts }), notes: [] }
}

function traceCase({ setting, map }: PreparedCase, mode: AnyMode): Answer {
  const trace = mode.trace(mode.compile(map), setting.packet, map.node)
  const even = trace.shares.every((share) => Math.abs(share - 1 / trace.shares.length) < 1e-9)
  const notes = [...trace.notUnderstood, ...(even ? [] : [`shares are uneven: ${trace.shares.join(', ')}`])]
  return { outcome: withHealthPorts(trace, setting.packet, map), notes }
}

/** The result of a case whose outcome is known; it passes when nothing differs and nothing is doubtful. */
export function judge(
  { flow, expected }: PreparedCase,
  mode: string,
  level: Level,
  outcome: Outcome,
  doubts: readonly string[],
): CaseResult {
  const wrong = [...differences(expected, outcome), ...doubts]
  return {
    id: flow.id,
    mode,
    level,
    ok: wrong.length === 0,
    want: expectationText(expected),
    got: outcomeText(outcome),
    note: wrong.join('; '),
  }
}

/** The result of a case that a level cannot run. */
export function notRun(
  { flow, expected }: PreparedCase,
  mode: string,
  level: Level,
  reason: string,
): CaseResult {
  return { id: flow.id, mode, level, ok: null, want: expectationText(expected), got: null, note: reason }
}

function expectationText({ verdict, destinations, sticky }: FlowExpectation): string {
  return [
    verdict,
    ...[...destinations].map(([address, { masquerade }]) => address + (masquerade ? ' masqueraded' : '')),
    ...(sticky ? ['sticky'] : []),
  ].join(' ')
}

function outcomeText(outcome: Outcome): string {
  const { destinations } = outcomeReport(outcome)
  return [
    outcome.verdict,
    ...destinations.map(
      (address, i) => address + (outcome.destinations[i]!.masquerade ? ' masqueraded' : ''),
    ),
    ...(outcome.sticky ? ['sticky'] : []),
  ].join(' ')
}
