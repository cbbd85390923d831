import type { NftChain, NftElement, NftFamily, NftRule, NftSet, NftTableContents } from './ruleset.ts'

/** A table that uses every shape of the model at least once; for tests of what writes and reads rules. */
export function sampleTable(family: 'ip' | 'ip6'): NftTableContents {
  const [pod, service, range, address] =
    family === 'ip'
      ? ['10.1.0.7', '10.96.0.1', '10.0.0.0/8', 'ipv4_addr' as const]
      : ['fd00:1::7', 'fd00:96::1', 'fd00::/16', 'ipv6_addr' as const]
  const frontend = [{ field: 'daddr' }, { field: 'l4proto' }, { field: 'dport' }] as const
  const set = (name: string, rest: Partial<NftSet>): NftSet => ({
    name,
    comment: null,
    key: [address],
    data: null,
    interval: false,
    dynamic: false,
    timeout: false,
    timeoutSeconds: null,
    size: null,
    ...rest,
  })
  const element = (set: string, key: readonly string[], rest: Partial<NftElement> = {}): NftElement => ({
    set,
    key,
    data: null,
    verdict: null,
    timeoutMs: null,
    comment: null,
    ...rest,
  })
  const key3 = [address, 'inet_proto', 'inet_service'] as const
  const sets = [
    set('cluster-ips', { comment: 'a comment', size: 16 }),
    set('service-ips', { key: key3, data: 'verdict' }),
    set('endpoints', { key: [...key3, 'mark'], data: [address, 'inet_service'], size: 64 }),
    set('sources', { key: [...key3, address], interval: true }),
    set('clients', { dynamic: true, timeout: true, timeoutSeconds: 10_800, size: 65_535 }),
  ]
  const elements = [
    element('cluster-ips', [service]),
    element('service-ips', [service, 'tcp', '80'], {
      verdict: { verdict: 'goto', chain: 'cluster-2' },
      comment: 'ns/svc:http',
    }),
    element('service-ips', [service, 'udp', '53'], { verdict: { verdict: 'drop' } }),
    element('endpoints', [service, 'tcp', '80', '0'], { data: [pod, '8080'] }),
    element('endpoints', [service, 'tcp', '80', '1'], { data: [pod, '8081'] }),
    element('sources', [service, 'tcp', '80', range]),
    element('clients', [pod], { timeoutMs: 5_400_250 }),
  ]
  return collect(family, SAMPLE_CHAINS, sampleRules(frontend, pod, range), sets, elements)
}

const SAMPLE_CHAINS: readonly NftChain[] = [
  {
    name: 'nat-prerouting',
    comment: 'where it starts',
    base: { type: 'nat', hook: 'prerouting', priority: -100, policy: 'accept' },
  },
  {
    name: 'filter-forward',
    comment: null,
    base: { type: 'filter', hook: 'forward', priority: 0, policy: 'accept' },
  },
  {
    name: 'nat-postrouting',
    comment: null,
    base: { type: 'nat', hook: 'postrouting', priority: 100, policy: 'accept' },
  },
  { name: 'cluster-2', comment: null, base: null },
  { name: 'cluster-10', comment: null, base: null },
  { name: 'endpoint-a/b.c_1', comment: 'any name', base: null },
]

function sampleRules(
  frontend: readonly [{ field: 'daddr' }, { field: 'l4proto' }, { field: 'dport' }],
  pod: string,
  range: string,
): readonly NftRule[] {
  const rule = (chain: string, ...statements: NftRule['statements']): NftRule => ({
    chain,
    statements,
    comment: null,
  })
  const match = (left: 'saddr' | 'iifname' | 'ct state' | 'l4proto', op: '==' | '!=', ...right: string[]) =>
    ({ match: { left, op, right } }) as const
  const marked = { setMark: { and: ~0x4000 >>> 0, xor: 0x4000 } }
  return [
    { ...rule('nat-prerouting', match('saddr', '!=', range), marked), comment: 'from "outside"' },
    rule('nat-prerouting', match('iifname', '!=', 'veth*'), marked),
    rule('nat-prerouting', { matchSet: { key: [{ field: 'daddr' }], op: 'in', set: 'cluster-ips' } }, marked),
    rule('nat-prerouting', { vmap: { key: frontend, map: 'service-ips' } }),
    rule(
      'nat-prerouting',
      match('saddr', '==', pod),
      { match: { left: 'fib daddr type', op: '==', right: ['local'] } },
      { verdict: 'jump', chain: 'cluster-10' },
    ),
    rule(
      'filter-forward',
      match('ct state', '==', 'new'),
      { matchSet: { key: [...frontend, { field: 'saddr' }], op: 'not in', set: 'sources' } },
      { verdict: 'drop' },
    ),
    rule('filter-forward', match('l4proto', '==', 'tcp'), { reject: 'tcp reset' }),
    rule('filter-forward', { reject: 'port-unreachable' }),
    rule(
      'nat-postrouting',
      { matchMark: { mask: 0x4000, op: '!=', value: 0 } },
      { setMark: { and: 0xffffffff, xor: 0x4000 } },
      { masquerade: { fullyRandom: true } },
    ),
    rule('cluster-2', { dnat: { key: [...frontend, { random: { mod: 2 } }], map: 'endpoints' } }),
    rule('cluster-10', {
      anonymousVmap: {
        key: [{ random: { mod: 2 } }],
        entries: [
          [['0'], { verdict: 'goto', chain: 'endpoint-a/b.c_1' }],
          [['1'], { verdict: 'return' }],
        ],
      },
    }),
    rule('endpoint-a/b.c_1', {
      updateSet: { set: 'clients', key: ['saddr'], op: 'update', timeoutSeconds: 60 },
    }),
    rule('endpoint-a/b.c_1', match('l4proto', '==', 'tcp'), { dnat: { to: [pod, '8080'] } }),
  ]
}

function collect(
  family: NftFamily,
  chains: readonly NftChain[],
  rules: readonly NftRule[],
  sets: readonly NftSet[],
  elements: readonly NftElement[],
): NftTableContents {
  const grouped = <T>(items: readonly T[], of: (item: T) => string): Map<string, T[]> => {
    const groups = new Map<string, T[]>()
    for (const item of items) groups.set(of(item), [...(groups.get(of(item)) ?? []), item])
    return groups
  }
  return {
    table: { family, name: 'sample', comment: 'every shape once', dormant: false, owned: false },
    chains: new Map(chains.map((chain) => [chain.name, chain])),
    rules: grouped(rules, ({ chain }) => chain),
    sets: new Map(sets.map((set) => [set.name, set])),
    elements: grouped(elements, ({ set }) => set),
  }
}
