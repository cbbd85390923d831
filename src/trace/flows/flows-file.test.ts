import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { ConfigError } from '../../shared/errors.ts'
import { expectationFor, parseFlows } from './flows-file.ts'
import { flowSetting } from './flow-setting.ts'
import { differences } from './compare.ts'

const PATH = 'test/cases/flows.json'
const file = parseFlows(readFileSync(PATH, 'utf8'), PATH)
const caseOf = (id: string) => file.cases.find((flow) => flow.id === id)!

test('the open cases are read completely', () => {
  expect(file.cases).toHaveLength(109)
  expect(file.cases.filter(({ core }) => core)).toHaveLength(63)
  expect(file.localAddresses).toContain('2001:db8:10::a')
})

test('a mode override replaces only the fields it has', () => {
  expect(caseOf('F040').expect.verdict).toBe('REJECT')
  expect(expectationFor(caseOf('F040'), 'nftables').verdict).toBe('DROP')
  expect(expectationFor(caseOf('F040'), 'iptables')).toBe(caseOf('F040').expect)
  expect(expectationFor(caseOf('F062'), 'ipvs')).toEqual(caseOf('F062').expect)
})

test('masquerading is read per destination', () => {
  expect([...caseOf('F002').expect.destinations]).toEqual([
    ['10.64.0.101:8080', { masquerade: true }],
    ['10.64.1.101:8080', { masquerade: false }],
  ])
})

test('configuration overrides of a case are laid over those of the file', () => {
  const node = flowSetting(file, caseOf('F047'), 'iptables').view(null)
  expect(node.nodePortAddresses).toEqual(['192.0.2.0/24', '198.51.100.0/24'])
  expect(node.nodePortIps).toEqual(['192.0.2.10', '198.51.100.10'])
  expect(flowSetting(file, caseOf('F011'), 'nftables').view(null).masqueradeAll).toBe(true)
  expect(flowSetting(file, caseOf('F012'), 'nftables').view(null).detectLocal).toEqual({ by: 'none' })
  expect(flowSetting(file, caseOf('F045'), 'iptables').loopbackNodePorts).toBe(false)
})

test('every mistake in a file is reported at once', () => {
  const wrong = JSON.stringify({ schema: 'x', fixtures: { f: {} }, cases: [{ fixture: 'f', packet: {} }, 1] })
  expect(() => parseFlows(wrong, 'f.json')).toThrow(ConfigError)
  expect(() => parseFlows(wrong, 'f.json')).toThrow(/schema[^]*packet\.src[^]*cases\[1\]/)
  expect(() => parseFlows('{', 'f.json')).toThrow(/is not JSON/)
})

test('the comparison names what is missing, surplus, masqueraded wrongly or uneven', () => {
  const outcome = (addresses: [string, boolean][]) => ({
    verdict: 'FORWARD' as const,
    sticky: true,
    destinations: addresses.map(([ip, masquerade]) => ({
      endpoint: { ip: ip as never, port: 8080 as never },
      masquerade,
    })),
  })
  const { expect: expected } = caseOf('F001')
  const right = outcome([
    ['10.64.0.101', false],
    ['10.64.1.101', false],
  ])
  expect(differences(expected, { ...right, sticky: false })).toEqual([])
  expect(
    differences(
      expected,
      outcome([
        ['10.64.0.101', true],
        ['10.64.9.9', false],
        ['10.64.9.9', false],
      ]),
    ),
  ).toEqual([
    '10.64.0.101:8080 sees the node, not the client, as source',
    '10.64.1.101:8080 is never chosen',
    '10.64.9.9:8080 may be chosen but must not',
    'a destination is listed twice, so shares are uneven',
    'flows of one client stick',
  ])
  expect(differences(expected, { verdict: 'DROP', destinations: [], sticky: false })).toEqual([
    'expected FORWARD, got DROP',
  ])
})
