import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { clusterStateFromObjects } from '../src/cluster/objects.ts'
import { buildServiceMap } from '../src/services/build-service-map.ts'
import type { DecideTraits } from '../src/services/decide.ts'
import { decide, IPTABLES_TRAITS, NFTABLES_TRAITS } from '../src/services/decide.ts'
import { differences } from '../src/trace/flows/compare.ts'
import { expectationFor, parseFlows } from '../src/trace/flows/flows-file.ts'
import { flowSetting } from '../src/trace/flows/flow-setting.ts'

const PATH = join(import.meta.dirname, 'cases/flows.json')
const file = parseFlows(readFileSync(PATH, 'utf8'), PATH)

const MODES: readonly (readonly [string, DecideTraits])[] = [
  ['iptables', IPTABLES_TRAITS],
  ['nftables', NFTABLES_TRAITS],
]

describe.each(MODES)('the reference model with the traits of %s mode', (mode, traits) => {
  test.each(file.cases.map((flow) => [flow.id, flow.title, flow] as const))('%s: %s', (_id, _title, flow) => {
    const setting = flowSetting(file, flow, mode)
    const { state } = clusterStateFromObjects(setting.objects, setting.nodeName)
    const map = buildServiceMap(state, setting.view(state.node))
    const loopbackNodePorts = traits.loopbackNodePorts && setting.loopbackNodePorts
    const decision = decide(map, setting.packet, { ...traits, loopbackNodePorts })
    expect(differences(expectationFor(flow, mode), decision), decision.reasons.join('\n')).toEqual([])
    expect(decision.reasons.every((reason) => /^\S.*\.$/s.test(reason))).toBe(true)
  })
})
