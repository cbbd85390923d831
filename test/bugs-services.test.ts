import fc from 'fast-check'
import { describe, expect, test, vi } from 'vitest'
import { NFTABLES_TRAITS } from '../src/services/decide.ts'
import { noLocalEndpoints } from '../src/services/build-service-map.ts'
import { BAD, BugCase, GOOD, HOST, plain, POD } from './support/bug-case.ts'

vi.setConfig({ testTimeout: 60_000 })

/** The cases of test/cases/bugs.md that the rules of Services decide, step by step. */

describe('B03: a pod IP reused while the old pod lingers in another slice', () => {
  const VIP = '10.111.20.4:80'

  test.each([
    ['in the order given', false, false],
    ['with the ready slice first', true, false],
    ['with the slice names swapped', false, true],
    ['with both', true, true],
  ])('%s, the ready entry wins', (_, readyFirst, swapped) => {
    const bug = new BugCase('B03')
    const rename = (name: string): string =>
      swapped ? name.replace(/aaa|bbb/, (part) => (part === 'aaa' ? 'bbb' : 'aaa')) : name
    const renamed = (objects: readonly unknown[]): unknown[] =>
      JSON.parse(JSON.stringify(objects), (key, value) => (key === 'name' ? rename(value) : value))
    const objects = renamed(bug.objects(1))
    bug.applyObjects(readyFirst ? objects.toReversed() : objects)
    expect(bug.outcome(POD, VIP)).toBe('10.64.1.31:8080 (client)')

    const before = bug.map()
    bug.applyObjects(renamed(bug.objects(2)))
    expect(bug.map()).toBe(before)

    bug.remove('endpointslices', `b03/${rename('cart-bbb')}`)
    expect(bug.outcome(POD, VIP)).toBe('REJECT')
    bug.remove('endpointslices', `b03/${rename('cart-aaa')}`)
    expect(bug.outcome(POD, VIP)).toBe('REJECT')
    expect(bug.map().ports.size).toBe(1)
  })
})

test('B07: Local policy without a local endpoint leaves the clients of this node alone', () => {
  const bug = new BugCase('B07')
  const targets = ['198.18.20.9:80', '198.18.29.9:80', `${HOST}:30509`]
  const expectElsewhere = (): void => {
    for (const to of targets) {
      expect(bug.outcome(POD, to)).toBe('10.64.1.71:8080 10.64.2.71:8080 (client)')
      expect(bug.outcome(HOST, to)).toBe('10.64.1.71:8080 10.64.2.71:8080 (node)')
      expect(bug.outcome(GOOD, to)).toBe('DROP')
    }
    expect(noLocalEndpoints(bug.map())).toEqual({ internal: 0, external: 1 })
  }
  bug.apply(1)
  expectElsewhere()
  bug.apply(2)
  for (const to of targets) {
    expect(bug.outcome(GOOD, to)).toBe('10.64.0.71:8080 (client)')
    expect(bug.outcome(POD, to)).toBe('10.64.0.71:8080 10.64.2.71:8080 (client)')
  }
  expect(noLocalEndpoints(bug.map()).external).toBe(0)
  bug.apply(3)
  expectElsewhere()
})

test('B08: internal and external policy are judged apart, and follow the Service alone', () => {
  const bug = new BugCase('B08')
  bug.apply(1)
  expect(bug.outcome(POD, '10.111.20.10:80')).toBe('10.64.0.81:8080 (client)')
  expect(bug.outcome(GOOD, `${HOST}:30510`)).toBe('10.64.0.81:8080 10.64.1.81:8080 (node)')
  expect(bug.outcome(POD, '10.111.20.11:80')).toBe('10.64.0.82:8080 (client)')
  expect(bug.outcome(GOOD, `${HOST}:30511`)).toBe('10.64.0.82:8080 (client)')
  expect(bug.outcome(POD, `${HOST}:30511`)).toBe('10.64.0.82:8080 10.64.1.82:8080 (client)')
  bug.apply(2)
  expect(bug.outcome(POD, '10.111.20.10:80')).toBe('10.64.0.81:8080 10.64.1.81:8080 (client)')
  expect(bug.outcome(GOOD, `${HOST}:30510`)).toBe('10.64.0.81:8080 (client)')
  expect(bug.outcome(POD, '10.111.20.11:80')).toBe('10.64.0.82:8080 10.64.1.82:8080 (client)')
  expect(bug.outcome(GOOD, `${HOST}:30511`)).toBe('10.64.0.82:8080 10.64.1.82:8080 (node)')
})

test('B09: no local endpoint drops, no endpoint at all rejects, and only the former is counted', () => {
  const bug = new BugCase('B09')
  bug.apply(1)
  expect(bug.outcome(POD, '10.111.20.12:80')).toBe('DROP')
  expect(bug.outcome(POD, '10.111.20.13:80')).toBe('REJECT')
  expect(bug.outcome(GOOD, `${HOST}:30513`)).toBe('REJECT')
  expect(bug.outcome(GOOD, `${HOST}:30514`)).toBe('DROP')
  expect(bug.outcome(GOOD, `${HOST}:30515`)).toBe('DROP')
  expect(noLocalEndpoints(bug.map())).toEqual({ internal: 1, external: 2 })
  const { index: _, ...byHand } = bug.map()
  expect(noLocalEndpoints(byHand)).toEqual({ internal: 1, external: 2 })
  bug.remove('endpointslices', 'b09/far-s1')
  expect(bug.outcome(POD, '10.111.20.12:80')).toBe('REJECT')
  expect(noLocalEndpoints(bug.map())).toEqual({ internal: 0, external: 2 })
})

test('B10: blanks around source ranges are taken off, what is no CIDR is left out and reported', () => {
  const bug = new BugCase('B10')
  bug.apply(1)
  expect(bug.outcome(POD, '10.111.20.16:80')).toBe('10.64.1.101:8080 (client)')
  expect(bug.outcome(GOOD, '198.18.20.15:80')).toBe('10.64.0.101:8080 (node)')
  expect(bug.outcome(BAD, '198.18.20.15:80')).toBe('DROP')
  const ranges = bug
    .map()
    .ports.get('b10/lb:web')!
    .frontends.map(({ sourceRanges }) => sourceRanges)
  expect(ranges).toContainEqual(['192.0.2.0/24', '198.18.20.15/32', '203.0.113.0/25'])
  expect(
    bug
      .map()
      .problems.get('b10/lb')!
      .map(({ field }) => field),
  ).toEqual([
    'spec.loadBalancerSourceRanges[2]',
    'spec.loadBalancerSourceRanges[3]',
    'spec.loadBalancerSourceRanges[4]',
  ])
  expect(bug.map('IPv6').problems.size).toBe(0)
})

test('B11: ranges hold for every load-balancer IP, and admit the node looped to itself', () => {
  const bug = new BugCase('B11')
  const check = (vip: string): void => {
    for (const [port, target] of [
      ['80', '8080'],
      ['443', '8443'],
    ]) {
      expect(bug.outcome(HOST, `${vip}:${port}`)).toBe(`10.64.1.111:${target} (node)`)
      expect(bug.outcome(GOOD, `${vip}:${port}`)).toBe(`10.64.1.111:${target} (node)`)
      expect(bug.outcome(vip, `${vip}:${port}`)).toBe(`10.64.1.111:${target} (node)`)
      expect(bug.outcome(BAD, `${vip}:${port}`)).toBe('DROP')
      expect(bug.outcome(POD, `${vip}:${port}`)).toBe('DROP')
    }
  }
  bug.apply(1)
  check('198.18.20.17')
  check('198.18.20.18')
  bug.apply(2)
  check('198.18.20.18')
  check('198.18.20.19')
  expect(JSON.stringify(bug.map())).not.toContain('198.18.20.17')
})

test('B12: a /0 admits everyone of its family', () => {
  const bug = new BugCase('B12')
  const served = '10.64.1.121:8080 (node)'
  for (const step of [1, 2]) {
    bug.apply(step)
    for (const from of [BAD, POD, HOST]) expect(bug.outcome(from, '198.18.20.20:80')).toBe(served)
    expect(bug.outcome('2001:db8:ffff::7', '[2001:db8:18::20]:80')).toBe('[fd00:64:0:1::121]:8080 (node)')
    expect(JSON.stringify(bug.map())).not.toContain('/0"')
  }
  bug.apply(3)
  expect(bug.outcome(BAD, '198.18.20.20:80')).toBe('DROP')
  expect(bug.outcome('203.0.113.9', '198.18.20.20:80')).toBe(served)
  expect(bug.outcome('2001:db8:ffff::7', '[2001:db8:18::20]:80')).toBe('[fd00:64:0:1::121]:8080 (node)')
})

test('B13: source ranges can be added, changed and removed on a live Service', () => {
  const bug = new BugCase('B13')
  const served = '10.64.1.131:8080 (node)'
  const steps = [
    [served, served],
    [served, 'DROP'],
    ['DROP', served],
    [served, served],
  ]
  for (const [i, expected] of steps.entries()) {
    bug.apply(i + 1)
    expect([GOOD, BAD].map((from) => bug.outcome(from, '198.18.20.21:80'))).toEqual(expected)
  }
})

describe('B14: three Services claim one external IP and port', () => {
  const VIP = '198.18.20.22:80'
  const endpoint = {
    first: '10.64.1.140:8080 (node)',
    second: '10.64.1.141:8080 (node)',
    third: '10.64.1.142:8080 (node)',
  }
  const created = (objects: readonly unknown[], times: Record<string, string>): unknown[] =>
    objects.map((object) => {
      const { metadata, ...rest } = object as { metadata: { name: string } }
      return { ...rest, metadata: { ...metadata, creationTimestamp: times[metadata.name] ?? '' } }
    })

  test('one of them serves it, whatever the order of events', () => {
    const outcomes = new Set<string>()
    fc.assert(
      fc.property(fc.shuffledSubarray([0, 1, 2, 3, 4, 5], { minLength: 6 }), (order) => {
        const bug = new BugCase('B14')
        const objects = bug.objects(1)
        for (const i of order) {
          bug.applyObjects([objects[i]])
          bug.map()
        }
        outcomes.add(JSON.stringify([bug.outcome(GOOD, VIP), plain(bug.map())]))
        expect(bug.outcome(GOOD, '10.111.20.22:80')).toBe(endpoint.first)
        expect(bug.outcome(GOOD, '10.111.20.23:80')).toBe(endpoint.second)
        expect(bug.outcome(GOOD, '10.111.20.24:80')).toBe(endpoint.third)
        expect(bug.outcome(GOOD, `${HOST}:30524`)).toBe(endpoint.third)
      }),
      { numRuns: 30 },
    )
    expect(outcomes.size).toBe(1)
  })

  test('the oldest serves it, the next takes over when it goes, and then nobody', () => {
    const bug = new BugCase('B14')
    const times = {
      first: '2026-03-01T00:00:00Z',
      second: '2026-01-01T00:00:00Z',
      third: '2026-02-01T00:00:00Z',
    }
    bug.applyObjects(created(bug.objects(1), times))
    expect(bug.outcome(GOOD, VIP)).toBe(endpoint.second)
    const map = bug.map()
    expect(map.ports.get('b14/first:web')!.shadowed.map(({ owner }) => owner)).toEqual(['b14/second:web'])
    bug.remove('services', 'b14/second')
    expect(bug.outcome(GOOD, VIP)).toBe(endpoint.third)
    bug.remove('services', 'b14/third')
    expect(bug.outcome(GOOD, VIP)).toBe(endpoint.first)
    expect(bug.map().ports.get('b14/first:web')!.shadowed).toEqual([])
    bug.remove('services', 'b14/first')
    expect(bug.outcome(GOOD, VIP)).toBe('NONE')
  })

  test('an older Service cannot take a cluster IP by naming it as its external IP', () => {
    const bug = new BugCase('B14')
    const thief = {
      metadata: { namespace: 'x', name: 'thief', creationTimestamp: '2020-01-01T00:00:00Z' },
      kind: 'Service',
    }
    const spec = { clusterIP: '10.111.20.99', externalIPs: ['10.111.20.22'], ports: [{ port: 80 }] }
    bug.applyObjects([{ ...thief, spec }, ...bug.objects(1)])
    expect(bug.outcome(POD, '10.111.20.22:80')).toBe('10.64.1.140:8080 (client)')
  })
})

test('B16: one node port number serves TCP and UDP apart', () => {
  const bug = new BugCase('B16')
  const node = (port: number): string => `${HOST}:${port}`
  bug.apply(1)
  expect(bug.outcome(GOOD, node(30053), 'UDP')).toBe('10.64.0.161:5300 (client)')
  expect(bug.outcome(GOOD, node(30053), 'TCP')).toBe('10.64.0.161:5301 (client)')
  expect(bug.outcome(GOOD, node(30054), 'UDP')).toBe('NONE')
  expect(bug.outcome(GOOD, node(30054), 'TCP')).toBe('10.64.1.162:8080 (node)')
  bug.apply(2)
  expect(bug.outcome(GOOD, node(30053), 'TCP')).toBe('NONE')
  expect(bug.outcome(GOOD, node(30053), 'UDP')).toBe('10.64.0.161:5300 (client)')
  bug.apply(3)
  expect(bug.outcome(GOOD, node(30053), 'TCP')).toBe('10.64.0.161:5301 (client)')
  expect(bug.outcome(GOOD, node(30053), 'UDP')).toBe('NONE')
})

test('B17: entry points follow the type of a Service', () => {
  const bug = new BugCase('B17')
  const entries = ['10.111.20.32:80', `${HOST}:30532`, '198.18.20.32:80', `${HOST}:32532`]
  const remote = '10.64.1.171:8080 (node)'
  const expected = [
    ['NONE', 'NONE', 'NONE', 'NONE'],
    [remote, 'NONE', 'NONE', 'NONE'],
    [remote, remote, 'NONE', 'NONE'],
    [remote, 'DROP', 'DROP', 'ACCEPT_LOCAL'],
    [remote, 'NONE', 'NONE', 'NONE'],
    ['NONE', 'NONE', 'NONE', 'NONE'],
  ]
  for (const [i, outcomes] of expected.entries()) {
    bug.apply(i + 1)
    expect(entries.map((to) => bug.outcome(GOOD, to))).toEqual(outcomes)
    const health = bug.map().health.get('b17/x')
    expect(health?.localReadyIps).toEqual(i === 3 ? [] : undefined)
  }
  expect(bug.map().ports.size).toBe(0)
})

test('B18: Service port and slice port meet by name, at every step of a rename', () => {
  const bug = new BugCase('B18')
  const outcomes: string[] = []
  for (const step of [1, 2, 3, 4]) {
    bug.apply(step)
    outcomes.push(bug.outcome(POD, '10.111.20.33:80'))
    expect(bug.map().ports.size).toBe(1)
  }
  bug.remove('endpointslices', 'b18/w-s1')
  outcomes.push(bug.outcome(POD, '10.111.20.33:80'))
  expect(outcomes).toEqual([
    'REJECT',
    '10.64.1.181:8080 (client)',
    'REJECT',
    '10.64.1.182:8080 (client)',
    '10.64.1.182:8080 (client)',
  ])
})

test('B19: an endpoint that is not ready is no destination of affinity either', () => {
  const bug = new BugCase('B19')
  const both = '10.64.0.191:8080 10.64.1.191:8080 (client)'
  const expected = [both, '10.64.1.191:8080 (client)', both, 'REJECT']
  for (const [i, outcome] of expected.entries()) {
    bug.apply(i + 1)
    expect(bug.outcome(POD, '10.111.20.34:80')).toBe(outcome)
    expect(bug.decide(POD, '10.111.20.34:80').sticky).toBe(outcome !== 'REJECT')
  }
})

test('B20: the affinity time follows the Service', () => {
  const bug = new BugCase('B20')
  for (const [i, seconds] of [10_800, 5, null, 10_800].entries()) {
    bug.apply(i + 1)
    expect(bug.map().ports.get('b20/s:web')!.affinitySeconds).toBe(seconds)
    expect(bug.decide(GOOD, `${HOST}:30535`).sticky).toBe(seconds !== null)
  }
})

test('B21: hints are judged over ready endpoints, and follow the zone of the Node', () => {
  const bug = new BugCase('B21')
  const expected = [
    '10.64.0.211:8080 (client)',
    '10.64.1.211:8080 10.64.1.212:8080 (client)',
    '10.64.0.211:8080 10.64.1.211:8080 10.64.1.212:8080 (client)',
    '10.64.1.211:8080 10.64.1.212:8080 (client)',
  ]
  for (const [i, outcome] of expected.entries()) {
    bug.apply(i + 1)
    expect(bug.outcome(POD, '10.111.20.36:80')).toBe(outcome)
  }
})

test('B27: names of the greatest length stay apart', () => {
  const bug = new BugCase('B27')
  bug.apply(1)
  expect(bug.outcome(POD, '10.111.20.44:80')).toBe('10.64.1.42:8080 (client)')
  expect(bug.outcome(POD, '10.111.20.42:80')).toBe('10.64.0.41:8080 10.64.1.41:8080 (client)')
  expect(bug.outcome(GOOD, '198.18.20.42:80')).toBe('10.64.0.41:8080 10.64.1.41:8080 (node)')
  expect(bug.outcome(POD, '10.111.20.43:80')).toBe('REJECT')
  expect(new Set(bug.map().ports.keys()).size).toBe(3)
})

test('B28: addresses of the other family are passed over', () => {
  const bug = new BugCase('B28')
  bug.apply(1)
  expect(bug.outcome(GOOD, '198.18.20.45:80')).toBe('10.64.1.51:8080 (node)')
  expect(bug.outcome(GOOD, '198.18.29.45:80')).toBe('10.64.1.51:8080 (node)')
  expect(bug.outcome(BAD, '198.18.20.45:80')).toBe('DROP')
  expect(bug.outcome('2001:db8:ffff::7', '[2001:db8:18::45]:80')).toBe('NONE')
  expect(bug.outcome('2001:db8:ffff::7', '[2001:db8:18::2945]:80')).toBe('NONE')
  expect(bug.outcome(GOOD, '198.18.20.46:80')).toBe('NONE')
  expect(bug.outcome('fd00:64::20', '[fd11:111::1446]:80')).toBe('[fd00:64:0:1::52]:8080 (client)')
  expect([bug.map().problems.size, bug.map('IPv6').problems.size]).toEqual([0, 0])
})

test('B29: padded octets are decimal, and the canonical form of the same address is no change', () => {
  const bug = new BugCase('B29')
  bug.apply(1)
  for (const to of ['10.111.20.47:80', '198.18.20.47:80', `${HOST}:30547`, '198.18.21.7:80']) {
    expect(bug.outcome(GOOD, to)).toBe('10.64.0.61:8080 (node)')
  }
  expect(bug.outcome(BAD, '198.18.21.7:80')).toBe('DROP')
  expect(bug.outcome(POD, '10.111.16.39:80')).toBe('NONE')
  const before = bug.map()
  expect(JSON.stringify(before.ports)).not.toMatch(/\b0\d/)
  bug.apply(2)
  expect(bug.map()).toBe(before)
})

test('B30: an SCTP node port serves every address that nodePortAddresses selects', () => {
  const bug = new BugCase('B30')
  bug.apply(1)
  for (const to of ['192.0.2.10:30548', '198.51.100.10:30548', '198.18.20.48:38412']) {
    expect(bug.outcome(GOOD, to, 'SCTP')).toBe('10.64.1.71:38412 10.64.2.71:38412 (node)')
  }
  expect(bug.outcome(GOOD, '198.51.100.10:30549', 'SCTP')).toBe('10.64.0.72:38412 (client)')
  expect(bug.outcome(GOOD, '192.0.2.10:30548', 'TCP')).toBe('NONE')
  expect(bug.outcome(GOOD, '192.0.2.10:30548', 'UDP')).toBe('NONE')
  bug.apply(2)
  expect(bug.outcome(GOOD, '192.0.2.10:30548', 'SCTP')).toBe('10.64.2.71:38412 (node)')
})

test('B33: without a Node object, or without its addresses, no endpoint is local and nothing is loopback', () => {
  const bug = new BugCase('B33')
  bug.apply(1)
  for (const step of [1, 2]) {
    bug.apply(step)
    expect(bug.map().node.primaryIp).toBeNull()
    expect(bug.outcome(POD, '10.111.20.50:80')).toBe('10.64.0.81:8080 10.64.1.81:8080 (client)')
    expect(bug.outcome(GOOD, `${HOST}:30550`)).toBe('DROP')
  }
})

test('B24, B34: what the node is follows its configuration and its object', () => {
  const dual = new BugCase('B24')
  dual.apply(1)
  expect(dual.map('IPv4').node.nodePortIps).toEqual([HOST])
  expect(dual.map('IPv6').node.nodePortAddresses).toBe('any-local')

  const moved = new BugCase('B34')
  moved.apply(1)
  expect(moved.outcome('10.64.0.20', '10.111.20.51:80')).toBe('10.64.1.91:8080 (client)')
  moved.apply(2)
  expect(moved.outcome('10.64.9.20', '10.111.20.51:80')).toBe('10.64.1.91:8080 (client)')
  expect(moved.outcome('10.64.0.20', '10.111.20.51:80')).toBe('10.64.1.91:8080 (node)')
  moved.apply(3)
  expect(moved.map().node.nodePortIps).toEqual(['192.0.2.77'])
})

test('an unused address of a Service range is dropped and an unused port refused where a mode can tell', () => {
  const bug = new BugCase('B29')
  bug.apply(1)
  expect(bug.outcome(POD, '10.111.16.39:80', 'TCP', NFTABLES_TRAITS)).toBe('DROP')
  expect(bug.outcome(POD, '10.111.20.47:81', 'TCP', NFTABLES_TRAITS)).toBe('REJECT')
})
