import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readNftJson } from '../src/kernel/nft/json.ts'
import type { RuleView } from '../src/kernel/nft/rule-view.ts'
import { viewOf } from '../src/kernel/nft/rule-view.ts'
import { createNamespaces, deleteNamespaces, ipBatch, runIn } from '../src/lab/namespaces.ts'
import { nftables } from '../src/modes/nftables/index.ts'
import { contents, print } from '../src/modes/nftables/rules.ts'
import { traceTables } from '../src/modes/nftables/trace.ts'
import { IP_FAMILIES } from '../src/net/family.ts'
import { nodeView, serviceMap, servicePort } from './support/service-maps.ts'
import type { GoldenSet } from './support/golden.ts'
import { GOLDEN, goldenNames, goldenPackets, loadGolden } from './support/golden.ts'

const NAMESPACE = `sb-trace-${process.pid}`
const ROOT = resolve(import.meta.dirname, '..')

beforeAll(async () => {
  await createNamespaces([NAMESPACE])
  await ipBatch(['link set lo up', 'addr add 10.250.0.2/32 dev lo'], { namespace: NAMESPACE })
})
afterAll(() => deleteNamespaces([NAMESPACE]))

async function load(text: string): Promise<readonly RuleView[]> {
  await runIn(NAMESPACE, ['nft', '-f', '-'], { input: `flush ruleset\n${text}` })
  return readNftJson((await runIn(NAMESPACE, ['nft', '-j', 'list', 'ruleset'])).stdout).map(viewOf)
}

/** Outcomes of every packet of a set by these rules, for comparing two sources of the same rules. */
function outcomes(
  set: GoldenSet,
  viewsOf: (family: (typeof IP_FAMILIES)[number]) => readonly RuleView[],
): readonly string[] {
  return IP_FAMILIES.flatMap((family) => {
    const views = viewsOf(family)
    return goldenPackets(set, family).map(({ name, packet }) => {
      const { verdict, destinations, shares, sticky, notUnderstood } = traceTables(
        views,
        packet,
        set.maps[family].node,
      )
      return JSON.stringify([name, verdict, destinations, shares, sticky, notUnderstood])
    })
  })
}

const NAMES = goldenNames().filter((name) =>
  ['all-in-one', 'dualstack-nodeport-lb-local', 'lb-local-sourceranges'].includes(name),
)
if (NAMES.length === 0) test.skip(`kube-proxy's rules are not at hand: ${GOLDEN} is missing`, () => undefined)

describe.each(NAMES)('rules in the kernel, objects of %s', (name) => {
  test("kube-proxy's rules trace alike from its file and from the kernel", async () => {
    const set = await loadGolden(name)
    const live = await load(readFileSync(join(GOLDEN, name, 'nftables/nft-list-ruleset.txt'), 'utf8'))
    const file = readNftJson(set.upstream).map(viewOf)
    expect(outcomes(set, () => live)).toEqual(outcomes(set, () => file))
  })

  test('our rules trace alike from memory and from the kernel', async () => {
    const set = await loadGolden(name)
    const rules = IP_FAMILIES.map((family) => nftables.compile(set.maps[family]))
    const live = await load(rules.map((one) => print(one as never)).join('\n'))
    const memory = rules.map((one) => viewOf(contents(one as never)))
    expect(outcomes(set, () => live)).toEqual(outcomes(set, () => memory))
  })
})

describe('switchback trace --kernel', () => {
  const map = serviceMap([servicePort('IPv4', { number: 0, cluster: [0, 1] })], nodeView())
  const table = print(nftables.compile(map) as never)

  async function traceKernel(): Promise<{
    verdict: string
    destinations: string[]
    hops: { object: string; why: string }[]
  }> {
    const bin = join(ROOT, 'bin/switchback')
    expect(existsSync(join(ROOT, 'dist/cli/trace.js')), 'run "npm run build" first').toBe(true)
    const argv = [
      process.execPath,
      bin,
      'trace',
      '--kernel',
      '--to',
      '10.96.0.1:80',
      '--from',
      '10.128.0.20',
      '-o',
      'json',
    ]
    return JSON.parse((await runIn(NAMESPACE, argv)).stdout) as Awaited<ReturnType<typeof traceKernel>>
  }

  test('explains the rules of the namespace that it runs in', async () => {
    await load(table)
    const { verdict, destinations } = await traceKernel()
    expect([verdict, destinations]).toEqual(['FORWARD', ['10.128.0.1:8080', '10.128.0.2:8080']])
  })

  test("names another program's table that drops the packet", async () => {
    await load(
      `${table}\ntable inet firewall {\n chain forward {\n type filter hook forward priority 10; policy drop;\n tcp dport 22 accept\n ct state established,related accept\n }\n}\n`,
    )
    const { verdict, hops } = await traceKernel()
    expect(verdict).toBe('DROP')
    expect(hops.at(-1)).toMatchObject({ object: 'table inet firewall chain forward' })
    expect(hops.at(-1)?.why).toContain('table inet firewall')
  })
})
