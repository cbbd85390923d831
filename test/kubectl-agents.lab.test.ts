import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Load } from '../src/lab/demo/session.ts'
import { LAB } from '../src/lab/plan.ts'
import { agentPid, buildProgram, programNames } from './support/lab.ts'
import { FOLLOW_MS, names, POLL, TestCluster, waysOf } from './support/test-cluster.ts'
import type { EchoAnswer, Lines } from './support/test-cluster.ts'
import { addressAndPort, endpoints, OUTSIDE, toClusterIp, toNodePort } from './support/ways.ts'
import type { PerFamily, Ways } from './support/ways.ts'

const MANIFEST = `
apiVersion: apps/v1
kind: Deployment
metadata: { name: web }
spec:
  replicas: 3
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: web
          image: lab/echo
          ports: [{ containerPort: 8080 }, { containerPort: 9090 }, { containerPort: 5300, protocol: UDP }]
---
apiVersion: v1
kind: Pod
metadata: { name: other, labels: { app: other } }
spec:
  nodeSelector: { kubernetes.io/hostname: node-2 }
  containers: [{ name: other, image: lab/echo, ports: [{ containerPort: 8080 }] }]
---
apiVersion: v1
kind: Pod
metadata: { name: client }
spec:
  nodeSelector: { kubernetes.io/hostname: node-3 }
  containers: [{ name: client, image: lab/client }]
---
apiVersion: v1
kind: Service
metadata: { name: inner }
spec:
  ipFamilyPolicy: RequireDualStack
  selector: { app: web }
  ports:
    - { name: http, port: 80, targetPort: 8080 }
    - { name: udp, port: 53, targetPort: 5300, protocol: UDP }
---
apiVersion: v1
kind: Service
metadata: { name: open }
spec:
  type: NodePort
  ipFamilyPolicy: RequireDualStack
  selector: { app: web }
  ports: [{ name: http, port: 80, targetPort: 8080, nodePort: 30080 }]
`

/** What run.md promises for rules that somebody else changed. */
const REPAIR_MS = 1000

/** The supervisor's longest pause after agents that were killed early, and a start on a busy machine. */
const RESTART_MS = 20_000
const REMOVALS = ['flush ruleset', 'delete table ip kube-proxy', 'delete table ip6 kube-proxy'] as const
/** Where agents are killed: the client pod's node. */
const NODE = LAB.nodes[2]!

const cluster = new TestCluster('kubectl')

beforeAll(() => {
  buildProgram()
  cluster.up()
})

afterAll(() => cluster.down())

describe('a kubectl session that three agents follow', () => {
  let inner: PerFamily = { 4: '', 6: '' }
  let open: PerFamily = inner
  let watch: Lines | null = null
  const seen = (line: string): Promise<void> => expect.poll(() => watch?.lines, POLL).toContain(line)

  afterAll(() => watch?.stop())

  test('applied Services lead to their pods from pods, nodes and outside, in both families', async () => {
    expect(cluster.apply(MANIFEST).split('\n')).toEqual([
      'deployment.apps/web created',
      'pod/other created',
      'pod/client created',
      'service/inner created',
      'service/open created',
    ])
    cluster.kubectl('wait --for=condition=Available deployment/web --timeout=30s')
    cluster.kubectl('wait --for=condition=Ready pod/client pod/other --timeout=30s')
    inner = cluster.clusterIps('inner')
    open = cluster.clusterIps('open')
    const pods = cluster.servingPods('web')
    expect(pods.map(({ node }) => node).sort()).toEqual(['node-1', 'node-2', 'node-3'])
    await cluster.allFollow(
      toClusterIp(inner, 80, endpoints(pods)),
      toClusterIp(inner, 81, 'REJECT'),
      toClusterIp(open, 80, endpoints(pods)),
      toNodePort(30_080, () => endpoints(pods)),
    )
    await cluster.clusterIpAnswers(inner, 80, pods)
    await cluster.clusterIpAnswers(open, 80, pods)
    await cluster.nodePortAnswers(30_080, pods)
    expect(await cluster.at('pod:default/client').sendUdp(4000, inner[4], 53)).toContain('"protocol":"UDP"')
  })

  test('the program itself traces a packet through a node’s live rules', () => {
    const argv = [process.execPath, 'bin/switchback', 'trace', '--kernel', '-o', 'json']
    const packet = ['--from', OUTSIDE[4], '--to', `${LAB.nodes[0]!.address.ipv4}:30080`]
    const report = JSON.parse(cluster.exec('node-1', [...argv, ...packet])) as {
      verdict: string
      destinations: string[]
      masquerade: boolean
    }
    expect(report).toMatchObject({ verdict: 'FORWARD', masquerade: true, notUnderstood: [] })
    expect(report.destinations.toSorted().join(' ')).toBe(endpoints(cluster.servingPods('web'))[4])
  })

  test('the same manifest again changes nothing in any kernel', async () => {
    const before = await cluster.rules()
    cluster.kubectl('annotate service inner note=seen')
    for (const line of cluster.apply(MANIFEST).split('\n')) expect(line).toMatch(/ unchanged$/)
    const after = await cluster.rules()
    for (const [i, { text }] of after.entries()) expect(text).toBe(before[i]!.text)
  })

  test('a strategic patch adds a port, a JSON patch renumbers one, and a watch tells of both', async () => {
    const path = '{.metadata.name} {.spec.ports[*].port} {.spec.selector.app}{"\\n"}'
    watch = cluster.watch('get', 'service', 'inner', '--watch', '-o', `jsonpath=${path}`)
    await seen('inner 80 53 web')
    const pods = cluster.servingPods('web')
    await cluster.agentsFollow(
      () =>
        cluster.patch('inner', 'strategic', {
          spec: { ports: [{ name: 'admin', port: 81, targetPort: 9090 }] },
        }),
      toClusterIp(inner, 80, endpoints(pods)),
      toClusterIp(inner, 81, endpoints(pods, 9090)),
    )
    await seen('inner 81 80 53 web')
    await cluster.clusterIpAnswers(inner, 81, pods)
    await cluster.agentsFollow(
      () =>
        cluster.patch('inner', 'json', [
          { op: 'test', path: '/spec/ports/1/name', value: 'http' },
          { op: 'replace', path: '/spec/ports/1/port', value: 8000 },
          { op: 'remove', path: '/spec/ports/0' },
        ]),
      toClusterIp(inner, 8000, endpoints(pods)),
      toClusterIp(inner, 80, 'REJECT'),
      toClusterIp(inner, 81, 'REJECT'),
    )
    await seen('inner 8000 53 web')
    await cluster.clusterIpAnswers(inner, 8000, pods)
    for (const place of ['pod:default/client', 'node-1']) {
      expect(await cluster.at(place).request(`http://${addressAndPort(inner[4], 80)}/`)).toBe(null)
      expect(await cluster.at(place).request(`http://${addressAndPort(inner[6], 80)}/`)).toBe(null)
    }
  })

  test('a merge patch of the selector leads to other pods, and to nobody', async () => {
    const other = cluster.servingPods('other')
    await cluster.agentsFollow(
      () => cluster.patch('inner', 'merge', { spec: { selector: { app: 'other' } } }),
      toClusterIp(inner, 8000, endpoints(other)),
    )
    await cluster.clusterIpAnswers(inner, 8000, other)
    await cluster.agentsFollow(
      () => cluster.patch('inner', 'merge', { spec: { selector: { app: 'nobody' } } }),
      toClusterIp(inner, 8000, 'REJECT'),
    )
    expect(await cluster.at('node-3').request(`http://${addressAndPort(inner[6], 8000)}/`)).toBe(null)
    await cluster.agentsFollow(
      () => cluster.patch('inner', 'merge', { spec: { selector: { app: 'web' } } }),
      toClusterIp(inner, 8000, endpoints(cluster.servingPods('web'))),
    )
    await seen('inner 8000 53 nobody')
    await seen('inner 8000 53 web')
  })

  test('a JSON patch moves the node port', async () => {
    const pods = cluster.servingPods('web')
    await cluster.agentsFollow(
      () => cluster.patch('open', 'json', [{ op: 'replace', path: '/spec/ports/0/nodePort', value: 30_081 }]),
      toNodePort(30_081, () => endpoints(pods)),
      toNodePort(30_080, () => 'NONE'),
    )
    await cluster.nodePortAnswers(30_081, pods)
    for (const address of Object.values(LAB.nodes[0]!.address)) {
      expect(
        await cluster.at('outside').request(`http://${addressAndPort(address as string, 30_080)}/`),
      ).toBe(null)
    }
    for (const { text } of await cluster.rules()) expect(text).not.toContain('30080')
  })

  test('a client sticks to one pod while the session affinity says so', async () => {
    cluster.patch('inner', 'strategic', { spec: { sessionAffinity: 'ClientIP' } })
    const sticks = async (): Promise<boolean[]> =>
      (await cluster.rules()).map(({ text }) => text.includes('"affinity-'))
    await expect.poll(sticks, POLL).toEqual([true, true, true])
    for (const place of ['pod:default/client', 'node-1', 'node-2']) {
      for (const ip of [inner[4], inner[6]]) {
        const { pods } = await cluster.ask(place, addressAndPort(ip, 8000), 1)
        expect((await cluster.ask(place, addressAndPort(ip, 8000))).pods).toEqual(pods)
      }
    }
    cluster.patch('inner', 'strategic', { spec: { sessionAffinity: 'None' } })
    await expect.poll(sticks, POLL).toEqual([false, false, false])
    await cluster.clusterIpAnswers(inner, 8000, cluster.servingPods('web'))
  })

  test('the external traffic policy Local keeps to the node’s own pods and shows them the client', async () => {
    const pods = cluster.servingPods('web')
    await cluster.agentsFollow(
      () => cluster.patch('open', 'merge', { spec: { externalTrafficPolicy: 'Local' } }),
      toNodePort(30_081, ({ name }) => endpoints(pods.filter(({ node }) => node === name))),
      toClusterIp(open, 80, endpoints(pods)),
    )
    for (const { name, address } of LAB.nodes.slice(0, 2)) {
      const local = names(pods.filter(({ node }) => node === name))
      expect(await cluster.ask('outside', addressAndPort(address.ipv4, 30_081))).toEqual({
        pods: local,
        clients: [OUTSIDE[4]],
      })
      expect(await cluster.ask('outside', addressAndPort(address.ipv6, 30_081))).toEqual({
        pods: local,
        clients: [`[${OUTSIDE[6]}]`],
      })
    }
    cluster.kubectl('scale deployment web --replicas=1')
    cluster.kubectl('wait --for=jsonpath={.status.replicas}=1 deployment/web --timeout=20s')
    const [left] = cluster.servingPods('web')
    await cluster.allFollow(
      toNodePort(30_081, ({ name }) => (name === left!.node ? endpoints([left!]) : 'DROP')),
      toClusterIp(open, 80, endpoints([left!])),
    )
    const { address } = LAB.nodes.find(({ name }) => name === left!.node)!
    expect((await cluster.ask('outside', addressAndPort(address.ipv4, 30_081))).pods).toEqual([left!.name])
    await cluster.clusterIpAnswers(open, 80, [left!])
    await cluster.agentsFollow(
      () => cluster.patch('open', 'strategic', { spec: { externalTrafficPolicy: 'Cluster' } }),
      toNodePort(30_081, () => endpoints([left!])),
    )
    await cluster.nodePortAnswers(30_081, [left!])
  })

  test('scaled and deleted pods come and go in every kernel', async () => {
    cluster.kubectl('scale deployment web --replicas=5')
    cluster.kubectl('rollout status deployment/web --timeout=20s')
    const five = cluster.servingPods('web')
    expect(five).toHaveLength(5)
    await cluster.allFollow(
      toClusterIp(inner, 8000, endpoints(five)),
      toNodePort(30_081, () => endpoints(five)),
    )
    await cluster.nodePortAnswers(30_081, five)
    const answer = await cluster.at('pod:default/client').sendUdp(4001, inner[4], 53)
    const { pod: answered } = JSON.parse(answer!) as EchoAnswer
    cluster.kubectl(`delete pod ${answered}`)
    cluster.kubectl('rollout status deployment/web --timeout=20s')
    const replaced = cluster.servingPods('web')
    expect(names(replaced)).not.toContain(answered)
    await cluster.allFollow(
      toClusterIp(inner, 8000, endpoints(replaced)),
      toNodePort(30_081, () => endpoints(replaced)),
    )
    // The same flow as before: were it still in conntrack, it would lead to the pod that has gone.
    const again = await cluster.at('pod:default/client').sendUdp(4001, inner[4], 53)
    expect(names(replaced)).toContain((JSON.parse(again!) as EchoAnswer).pod)
  })

  test('a node port goes with the type, and deleted Services leave nothing in any table', async () => {
    const pods = cluster.servingPods('web')
    await cluster.agentsFollow(
      () => cluster.patch('open', 'merge', { spec: { type: 'ClusterIP' } }),
      toNodePort(30_081, () => 'NONE'),
      toClusterIp(open, 80, endpoints(pods)),
    )
    await cluster.clusterIpAnswers(open, 80, pods)
    await cluster.agentsFollow(
      () => cluster.kubectl('delete service inner open'),
      toClusterIp(inner, 8000, 'DROP'),
      toClusterIp(open, 80, 'DROP'),
    )
    const traces = ['default/inner', 'default/open', '30081', inner[4], inner[6], open[4], open[6]]
    const endpointIps = pods.flatMap(({ ips }) => [ips[4], ips[6]])
    for (const { text } of await cluster.rules()) {
      for (const trace of [...traces, ...endpointIps]) expect(text).not.toContain(`"${trace}"`)
      expect(text).not.toMatch(/default\/(inner|open)|30081/)
    }
  })

  test('a watch that is killed leaves no kubectl behind in the lab', async () => {
    const programs = (): readonly string[] => programNames(cluster.instance)
    expect(programs()).toContain('kubectl')
    await watch?.stop()
    await expect.poll(programs, POLL).not.toContain('kubectl')
  })

  test('applied again, they are back', async () => {
    expect(cluster.apply(MANIFEST)).toMatch(/service\/inner created\nservice\/open created$/)
    cluster.kubectl('rollout status deployment/web --timeout=20s')
    inner = cluster.clusterIps('inner')
    open = cluster.clusterIps('open')
    await expect.poll(() => cluster.servingPods('web').length, { timeout: FOLLOW_MS }).toBe(3)
    const pods = cluster.servingPods('web')
    await cluster.allFollow(
      toClusterIp(inner, 80, endpoints(pods)),
      toNodePort(30_080, () => endpoints(pods)),
    )
    await cluster.clusterIpAnswers(inner, 80, pods)
    await cluster.nodePortAnswers(30_080, pods)
  })
})

describe('agents that are killed, and rules that others remove', () => {
  const restarts = (): number => cluster.status().nodes[2]!.restarts
  const kill = async (): Promise<void> => {
    process.kill(agentPid(cluster.instance, NODE.name), 'SIGKILL')
    await expect.poll(healthy, POLL).toBe(false)
  }
  const restarted = (): Promise<void> =>
    expect.poll(healthy, { timeout: RESTART_MS, interval: 20 }).toBe(true)
  const healthy = async (): Promise<boolean> =>
    (await cluster.at('node-3').request('http://127.0.0.1:10256/healthz'))?.status === 200
  /** Traffic that node-3's rules lead: from its pod to a ClusterIP, and from outside to its node port. */
  const startLoads = async (): Promise<readonly Load[]> => {
    const loads = [
      cluster.session.load(
        'pod:default/client',
        `http://${addressAndPort(cluster.clusterIps('inner')[4], 80)}/`,
        100,
        4,
      ),
      cluster.session.load('outside', 'http://node-3:30080/', 100, 6),
    ]
    await Promise.all(loads.map((load) => load.until(({ progress }) => progress >= 50)))
    return loads
  }
  const moreAnswers = (loads: readonly Load[]): Promise<unknown> =>
    Promise.all(
      loads.map(async (load) => {
        const { progress } = await load.until(() => true)
        await load.until((now) => now.progress >= progress + 50)
      }),
    )
  const handlesOf = (text: string): readonly string[] =>
    (JSON.parse(text) as { nftables: { [kind: string]: { handle?: number } }[] }).nftables
      .flatMap((entry) => Object.entries(entry))
      .map(([kind, { handle }]) => `${kind} ${handle}`)

  test('a killed agent loses no request, is started again, adopts what is there and catches up', async () => {
    const loads = await startLoads()
    const before = await cluster.rulesOf(NODE)
    const restartsBefore = restarts()
    await kill()
    await restarted()
    expect(restarts()).toBe(restartsBefore + 1)
    const after = await cluster.rulesOf(NODE)
    expect(handlesOf(after.text)).toEqual(handlesOf(before.text))
    await moreAnswers(loads)
    for (const load of loads) expect(await load.stop()).toMatchObject({ failed: 0, errors: [] })
    cluster.kubectl('scale deployment web --replicas=4')
    cluster.kubectl('rollout status deployment/web --timeout=20s')
    await cluster.allFollow(
      toClusterIp(cluster.clusterIps('inner'), 80, endpoints(cluster.servingPods('web'))),
    )
  })

  test('what changes while an agent is away is there when it is back', async () => {
    await kill()
    cluster.patch('inner', 'json', [{ op: 'replace', path: '/spec/ports/0/port', value: 8000 }])
    await restarted()
    const pods = cluster.servingPods('web')
    await cluster.allFollow(
      toClusterIp(cluster.clusterIps('inner'), 8000, endpoints(pods)),
      toClusterIp(cluster.clusterIps('inner'), 80, 'REJECT'),
    )
    cluster.patch('inner', 'json', [{ op: 'replace', path: '/spec/ports/0/port', value: 80 }])
    await cluster.allFollow(toClusterIp(cluster.clusterIps('inner'), 80, endpoints(pods)))
  })

  /** Runs `nft` on the node, refused or not, and gives how long after it the rules lead everything again. */
  async function missingMs(change: string): Promise<number> {
    const pods = endpoints(cluster.servingPods('web'))
    const inner = cluster.clusterIps('inner')
    const wanted = { ...toClusterIp(inner, 80, pods)(NODE), ...toNodePort(30_080, () => pods)(NODE) }
    await cluster
      .at(NODE.name)
      .run(['nft', change])
      .catch(() => '')
    const start = performance.now()
    const look = async (): Promise<Ways> => waysOf(await cluster.rulesOf(NODE), Object.keys(wanted))
    await expect.poll(look, { timeout: FOLLOW_MS, interval: 10 }).toEqual(wanted)
    return performance.now() - start
  }
  const isOwned = async (): Promise<boolean> => (await cluster.rulesOf(NODE)).text.includes('"owner"')

  test('others cannot remove the rules where the kernel protects them; else they are back within a second', async () => {
    const loads = await startLoads()
    const owned = await isOwned()
    for (const change of REMOVALS) expect(await missingMs(change)).toBeLessThan(REPAIR_MS)
    await moreAnswers(loads)
    for (const load of loads) {
      const { failed } = await load.stop()
      if (owned) expect(failed).toBe(0)
    }
  })

  test('rules in a table that was made without an owner are back within a second after others removed them', async () => {
    const { address } = NODE
    const slow = `http://${addressAndPort(address.ipv4, 30_080)}/slow?ms=3000`
    await kill()
    const tables = ['ip', 'ip6'].map((family) => `${family} kube-proxy`)
    const anew = tables.map((table) => `delete table ${table}; add table ${table};`).join(' ')
    await cluster.at(NODE.name).run(['nft', anew])
    await restarted()
    expect(await missingMs('list tables')).toBeLessThan(FOLLOW_MS)
    expect(await isOwned()).toBe(false)
    const established = cluster.session.requests('outside', slow, 4, 4)
    const open = ['ss', '-Htn', 'state', 'established', 'dst', addressAndPort(address.ipv4, 30_080)]
    const connections = async (): Promise<number> =>
      (await cluster.at('outside').run(open)).split('\n').filter((line) => line !== '').length
    await expect.poll(connections, POLL).toBe(4)
    expect(await missingMs(REMOVALS[0])).toBeLessThan(REPAIR_MS)
    expect(await established).toMatchObject({ answered: 4, failed: 0 })
    await cluster.nodePortAnswers(30_080, cluster.servingPods('web'))
  })
})
