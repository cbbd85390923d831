import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { clusterStateFromObjects } from '../src/cluster/objects.ts'
import { buildServiceMap } from '../src/services/build-service-map.ts'
import { differences } from '../src/trace/flows/compare.ts'
import { flowSetting } from '../src/trace/flows/flow-setting.ts'
import { expectationFor, parseFlows } from '../src/trace/flows/flows-file.ts'
import { nftables } from '../src/modes/nftables/index.ts'

const PATH = join(import.meta.dirname, 'cases/flows.json')
const file = parseFlows(readFileSync(PATH, 'utf8'), PATH)

test.each(file.cases.map((flow) => [flow.id, flow.title, flow] as const))('%s: %s', (_id, _title, flow) => {
  const setting = flowSetting(file, flow, 'nftables')
  const { state } = clusterStateFromObjects(setting.objects, setting.nodeName)
  const map = buildServiceMap(state, setting.view(state.node))
  const trace = nftables.trace(nftables.compile(map), setting.packet, map.node)
  expect(trace.notUnderstood).toEqual([])
  const expected = expectationFor(flow, 'nftables')
  const known = expected.verdict === 'ACCEPT_LOCAL' ? { ...expected, verdict: 'NONE' as const } : expected
  expect(differences(known, trace)).toEqual([])
})
