import type { Arbitrary } from 'fast-check'
import fc from 'fast-check'
import type { KernelError } from '../../../shared/errors.ts'
import { comparable } from '../contract.ts'
import type { NftOperation, NftPort } from '../port.ts'
import type {
  NftChain,
  NftElement,
  NftRule,
  NftSet,
  NftStatement,
  NftTable,
  NftTableContents,
  NftVerdict,
} from '../ruleset.ts'

/** Random transactions on one small table: few names and keys, so that they meet. */

export const MODEL_TABLE = 'model'

const CHAINS = ['c0', 'c1', 'c2', 'c3'] as const
const BASE_CHAIN = 'base'

const SHAPES: Readonly<Record<string, Partial<NftSet>>> = {
  ports: { key: ['inet_service'] },
  few: { key: ['inet_service'], size: 3 },
  verdicts: { key: ['ipv4_addr', 'inet_proto', 'inet_service'], data: 'verdict' },
  endpoints: { key: ['ipv4_addr', 'mark'], data: ['ipv4_addr', 'inet_service'] },
  ranges: { key: ['ipv4_addr', 'inet_service'], interval: true },
  prefixes: { key: ['ipv4_addr'], interval: true },
}
const SETS = Object.keys(SHAPES)

const setOf = (name: string, rest: Partial<NftSet> = {}): NftSet => ({
  name,
  comment: null,
  key: ['inet_service'],
  data: null,
  interval: false,
  dynamic: false,
  timeout: false,
  timeoutSeconds: null,
  size: null,
  ...SHAPES[name],
  ...rest,
})

const oneOf = <T>(...values: readonly T[]): Arbitrary<T> => fc.constantFrom(...values)
const address = oneOf('10.0.0.1', '10.0.0.2', '10.0.1.1')
const port = oneOf('80', '81', '443')
const prefix = oneOf('10.0.0.0/24', '10.0.0.0/8', '10.0.0.7', '10.1.0.0-10.1.0.9', '192.168.0.0/16')
/** Two of them are the same or apart: of overlaps in several dimensions, the kernel sees only some. */
const block = oneOf('10.0.0.0/24', '10.1.0.0-10.1.0.9', '192.168.0.0/16', '192.0.2.1')
const ports = oneOf('80', '80-90', '85-95', '443')

const verdict: Arbitrary<NftVerdict> = fc.oneof(
  oneOf<NftVerdict>({ verdict: 'accept' }, { verdict: 'drop' }, { verdict: 'return' }),
  oneOf(...CHAINS).map((chain): NftVerdict => ({ verdict: 'goto', chain })),
)

function elementOf(set: string): Arbitrary<NftElement> {
  const build = (
    key: Arbitrary<readonly string[]>,
    data: Arbitrary<readonly string[] | null> = fc.constant(null),
    to: Arbitrary<NftVerdict | null> = fc.constant(null),
  ): Arbitrary<NftElement> =>
    fc.record({
      set: fc.constant(set),
      key,
      data,
      verdict: to,
      timeoutMs: fc.constant(null),
      comment: oneOf(null, 'said "so"'),
    })
  switch (set) {
    case 'verdicts':
      return build(fc.tuple(address, oneOf('tcp', 'udp', '6'), port), undefined, verdict)
    case 'endpoints':
      return build(fc.tuple(address, oneOf('0', '0x1', '1')), fc.tuple(address, port))
    case 'ranges':
      return build(fc.tuple(block, ports))
    case 'prefixes':
      return build(fc.tuple(prefix))
    default:
      return build(fc.tuple(fc.oneof(port, oneOf('1', '2', '3', '4'))))
  }
}

/** Jumps lead from a chain to later ones only: loops are refused by the kernel and not judged by the model. */
function statementIn(chain: string): Arbitrary<NftStatement> {
  const later = chain === BASE_CHAIN ? CHAINS : CHAINS.slice(CHAINS.indexOf(chain as 'c0') + 1)
  const lookups: NftStatement[] = [
    { matchSet: { key: [{ field: 'dport' }], op: 'in', set: 'ports' } },
    { matchSet: { key: [{ field: 'daddr' }, { field: 'dport' }], op: 'not in', set: 'ranges' } },
    { matchSet: { key: [{ field: 'saddr' }], op: 'in', set: 'prefixes' } },
  ]
  const plain: NftStatement[] = [
    { match: { left: 'saddr', op: '==', right: ['10.0.0.0/8'] } },
    { match: { left: 'l4proto', op: '!=', right: ['udp', '6'] } },
    { match: { left: 'ct state', op: '==', right: ['new', 'invalid'] } },
    { matchMark: { mask: 0x4000, op: '==', value: 0 } },
    { setMark: { and: 0xffffbfff, xor: 0x4000 } },
    { counter: { packets: 0, bytes: 0 } },
  ]
  const jumps = later.map((to): NftStatement => ({ verdict: 'jump', chain: to }))
  const maps = later.flatMap((to): NftStatement[] => [
    {
      anonymousVmap: {
        key: [{ random: { mod: 2 } }],
        entries: [
          [['0'], { verdict: 'goto', chain: to }],
          [['1'], { verdict: 'drop' }],
        ],
      },
    },
  ])
  return fc.oneof(oneOf(...plain), oneOf(...lookups), oneOf(...plain, ...jumps), oneOf(...plain, ...maps))
}

const rule: Arbitrary<NftRule> = oneOf(...CHAINS, BASE_CHAIN).chain((chain) =>
  fc.record({
    chain: fc.constant(chain as string),
    statements: fc.array(statementIn(chain), { minLength: 1, maxLength: 3 }),
    comment: oneOf(null, 'a comment'),
  }),
)

const table: Arbitrary<NftTable> = fc.record({
  family: fc.constant('ip' as const),
  name: fc.constant(MODEL_TABLE),
  comment: fc.constant(null),
  dormant: fc.constant(false),
  owned: fc.constant(false),
})

const baseChain: NftChain = {
  name: BASE_CHAIN,
  comment: null,
  base: { type: 'filter', hook: 'input', priority: 0, policy: 'accept' },
}

const element = oneOf(...SETS).chain(elementOf)

const operation: Arbitrary<NftOperation> = fc.oneof(
  { weight: 2, arbitrary: fc.record({ op: fc.constant('add table' as const), table }) },
  { weight: 1, arbitrary: fc.constant({ op: 'delete table' } as const) },
  {
    weight: 6,
    arbitrary: oneOf(...CHAINS).map(
      (name) => ({ op: 'add chain', chain: { name, comment: null, base: null } }) as const,
    ),
  },
  { weight: 2, arbitrary: fc.constant({ op: 'add chain', chain: baseChain } as const) },
  {
    weight: 2,
    arbitrary: oneOf(...CHAINS, BASE_CHAIN).map((chain) => ({ op: 'flush chain', chain }) as const),
  },
  {
    weight: 3,
    arbitrary: oneOf(...CHAINS, BASE_CHAIN).map((chain) => ({ op: 'delete chain', chain }) as const),
  },
  { weight: 8, arbitrary: rule.map((rule) => ({ op: 'add rule', rule }) as const) },
  { weight: 8, arbitrary: oneOf(...SETS).map((name) => ({ op: 'add set', set: setOf(name) }) as const) },
  { weight: 2, arbitrary: oneOf(...SETS).map((set) => ({ op: 'flush set', set }) as const) },
  { weight: 2, arbitrary: oneOf(...SETS).map((set) => ({ op: 'delete set', set }) as const) },
  { weight: 20, arbitrary: element.map((element) => ({ op: 'add element', element }) as const) },
  { weight: 10, arbitrary: element.map((element) => ({ op: 'delete element', element }) as const) },
)

/** A fresh table with some of everything, so that random steps have something to meet. */
const foundation: readonly NftOperation[] = [
  {
    op: 'add table',
    table: { family: 'ip', name: MODEL_TABLE, comment: null, dormant: false, owned: false },
  },
  ...CHAINS.map((name) => ({ op: 'add chain', chain: { name, comment: null, base: null } }) as const),
  ...SETS.map((name) => ({ op: 'add set', set: setOf(name) }) as const),
]

/** A set of another shape than what is there: refused whole, so that elements always have the shape of their set. */
const mismatch: Arbitrary<readonly NftOperation[]> = oneOf(...SETS).map((name) => [
  { op: 'add set', set: setOf(name) },
  { op: 'add set', set: setOf(name, { key: ['inet_proto'] }) },
])

/** Transactions to apply one after the other. */
export const transactions: Arbitrary<readonly (readonly NftOperation[])[]> = fc
  .array(
    fc.oneof(
      { weight: 20, arbitrary: fc.array(operation, { minLength: 1, maxLength: 4 }) },
      { weight: 1, arbitrary: mismatch },
    ),
    { minLength: 1, maxLength: 25 },
  )
  .map((list) => [foundation, ...list])

/** What a transaction did: the errno and the step it was refused at, or the table afterwards. */
export type Outcome =
  { readonly refused: string; readonly errno: string } | { readonly table: NftTableContents | null }

export async function outcomeOn(port: NftPort, operations: readonly NftOperation[]): Promise<Outcome> {
  try {
    await port.transaction('ip', MODEL_TABLE, operations)
  } catch (error) {
    const { operation, errnoName } = error as KernelError
    if (errnoName === undefined) throw error
    return { refused: operation, errno: errnoName }
  }
  return { table: comparable(await port.read('ip', MODEL_TABLE)) }
}
