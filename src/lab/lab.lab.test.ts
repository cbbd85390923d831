import { spawn, spawnSync } from 'node:child_process'
import { chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { LabStatus } from './control.ts'
import { MANIFEST } from './demo/manifest.ts'
import { LabSession } from './demo/session.ts'
import { labInstance, processStart } from './instance.ts'
import {
  alive,
  buildProgram,
  ok,
  processesOf,
  PROGRAMS,
  ROOT,
  running,
  testLabs,
} from '../../test/support/lab.ts'
import type { Outcome } from '../../test/support/lab.ts'

const NOBODY = 65_534
const AS_NOBODY = ['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups']
const NAME = 'http://echo.default.svc.cluster.local/'

const labs = testLabs()
const { dir, env, lab, kubectl } = labs

/** What the machine's own namespace shows: rules, links, and names of namespaces that could be a lab's. */
function hostState(): unknown {
  const out = (...argv: string[]): string => spawnSync(argv[0]!, argv.slice(1), { encoding: 'utf8' }).stdout
  const names = existsSync('/run/netns') ? readdirSync('/run/netns') : []
  return {
    rules: out('nft', 'list', 'ruleset'),
    links: out('ip', '-o', 'link').replaceAll(/^\d+: /gm, ''),
    addresses: out('ip', '-o', 'addr'),
    namespaces: names.filter((name) => /^(node-\d|control|underlay|outside|pod\.)/.test(name)),
    forwarding: readFileSync('/proc/sys/net/ipv4/ip_forward', 'utf8'),
  }
}

async function eventually(condition: () => boolean, what: string): Promise<void> {
  const deadline = performance.now() + 20_000
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`in vain: ${what}`)
    await sleep(50)
  }
}

beforeAll(buildProgram)

afterAll(() => labs[Symbol.dispose]())

describe('a running lab', () => {
  const before = hostState()
  const instance = labInstance('semantics', env)
  const session = new LabSession(instance, PROGRAMS)
  let supervisor = 0

  beforeAll(async () => {
    ok(lab(['up', '--name', 'semantics']))
    supervisor = running(instance).supervisorPid
    kubectl('semantics', ['apply', '-f', '-'], MANIFEST)
    kubectl('semantics', ['wait', '--for=condition=Available', 'deployment/echo', '--timeout=60s'])
    kubectl('semantics', ['wait', '--for=condition=Ready', 'pod/client', '--timeout=60s'])
    await session.reachAll('pod:default/client', NAME, 3, 4)
    await session.reachAll('pod:default/client', NAME, 3, 6)
  })

  afterAll(() => {
    ok(lab(['down', '--name', 'semantics']))
  })

  test('its status names nodes, agents, pods and logs', () => {
    const status = JSON.parse(ok(lab(['status', '--name', 'semantics', '-o', 'json']))) as LabStatus
    expect(status.nodes.map(({ node, zone, agent }) => `${node} ${zone} ${agent}`)).toEqual([
      'node-1 a running',
      'node-2 a running',
      'node-3 b running',
    ])
    expect(status.pods.filter(({ ready }) => ready).length).toBe(status.pods.length)
    expect(status.namespaces).toEqual(expect.arrayContaining(['control', 'outside', 'underlay', 'node-1']))
    const pages = ok(lab(['status', '--name', 'semantics']))
    expect(pages).toContain('default/client')
    expect(ok(lab(['logs', '--name', 'semantics', 'node-1']))).toContain('Using nftables Proxier')
  })

  test('is not started twice', () => {
    const again = lab(['up', '--name', 'semantics'])
    expect(again).toMatchObject({ status: 0, stderr: expect.stringContaining('runs already') as string })
    expect(running(instance).supervisorPid).toBe(supervisor)
  })

  test.each([4, 6] as const)(
    'spreads requests by name over the pods of three nodes, over IPv%d',
    async (family) => {
      const summary = await session.requests('pod:default/client', NAME, 60, family)
      expect(summary).toMatchObject({ sent: 60, answered: 60, failed: 0 })
      const nodes = Object.values(summary.pods).map(({ node }) => node)
      expect(nodes.toSorted()).toEqual(['node-1', 'node-2', 'node-3'])
      expect(Object.keys(summary.clients)).toHaveLength(1)
    },
  )

  test.each([4, 6] as const)('leads node ports from outside to pods, over IPv%d', async (family) => {
    for (const node of ['node-1', 'node-2', 'node-3']) {
      const summary = await session.requests('outside', `http://${node}:30080/`, 30, family)
      expect(summary).toMatchObject({ answered: 30, failed: 0 })
      expect(Object.keys(summary.clients).some((client) => client.includes('198.51.100.'))).toBe(false)
    }
  })

  test('lets a pod reach itself through its own Service', async () => {
    const pod = kubectl('semantics', [
      'get',
      'pods',
      '-l',
      'app=echo',
      '-o',
      'jsonpath={.items[0].metadata.name}',
    ])
    const summary = await session.requests(`pod:default/${pod}`, NAME, 60, 4)
    expect(summary).toMatchObject({ answered: 60, failed: 0 })
    expect(summary.pods[pod]?.answers).toBeGreaterThan(0)
  })

  test('answers DNS through the Service over UDP and TCP, in both families', async () => {
    const program = `
      import { Resolver } from 'node:dns/promises'
      import { connect } from 'node:net'
      import dns from 'dns-packet'
      const out = {}
      for (const server of ['10.96.0.10', '[fd00:10:96::a]']) {
        const r = new Resolver(); r.setServers([server])
        out[server] = {
          a: await r.resolve4('echo.default.svc.cluster.local'),
          aaaa: await r.resolve6('echo.default.svc.cluster.local'),
          srv: await r.resolveSrv('_http._tcp.echo.default.svc.cluster.local'),
          ptr: await r.reverse('10.96.0.10'),
          none: await r.resolve4('nothing.default.svc.cluster.local').catch((e) => e.code),
          empty: await r.resolveMx('echo.default.svc.cluster.local').catch((e) => e.code),
        }
      }
      const ask = (host) => new Promise((resolve, reject) => {
        const socket = connect(53, host, () => socket.write(dns.streamEncode({ type: 'query', id: 1,
          questions: [{ type: 'A', name: 'echo.default.svc.cluster.local' }] })))
        socket.on('data', (data) => { resolve(dns.streamDecode(data).answers.map((a) => a.data)); socket.destroy() })
        socket.on('error', reject)
      })
      out.tcp = [await ask('10.96.0.10'), await ask('fd00:10:96::a')]
      console.log(JSON.stringify(out))`
    const ips = kubectl('semantics', ['get', 'svc', 'echo', '-o', 'jsonpath={.spec.clusterIPs}'])
    const [ipv4, ipv6] = JSON.parse(ips) as [string, string]
    const argv = [process.execPath, '--input-type=module', '-e', program]
    const answers = JSON.parse(await session.run('pod:default/client', argv)) as Record<string, unknown>
    const each = {
      a: [ipv4],
      aaaa: [ipv6],
      srv: [{ name: 'echo.default.svc.cluster.local', port: 80, priority: 0, weight: 100 }],
      ptr: ['kube-dns.kube-system.svc.cluster.local'],
      none: 'ENOTFOUND',
      empty: 'ENODATA',
    }
    expect(answers).toEqual({ '10.96.0.10': each, '[fd00:10:96::a]': each, tcp: [[ipv4], [ipv4]] })
  })

  test('keeps an unready pod out of the Service, as its annotation says', async () => {
    const pod = kubectl('semantics', [
      'get',
      'pods',
      '-l',
      'app=echo',
      '-o',
      'jsonpath={.items[0].metadata.name}',
    ])
    const ready = `jsonpath={.status.conditions[?(@.type=="Ready")].status}`
    const isReady = (): string => kubectl('semantics', ['get', 'pod', pod, '-o', ready])
    kubectl('semantics', ['annotate', 'pod', pod, 'lab.switchback/ready=false'])
    await eventually(() => isReady() === 'False', 'the pod is unready')
    const load = session.load('pod:default/client', NAME, 200, 4)
    const counts: (number | undefined)[] = []
    await load.until(({ pods }) => {
      counts.push(pods[pod]?.answers ?? 0)
      return counts.length > 4 && counts.at(-1) === counts.at(-4)
    })
    expect(await load.stop()).toMatchObject({ failed: 0 })
    kubectl('semantics', ['annotate', 'pod', pod, 'lab.switchback/ready-', '--overwrite'])
    await eventually(() => isReady() === 'True', 'the pod is ready again')
    await session.reachAll('pod:default/client', NAME, 3, 4)
  })

  test('loses no request when a pod is deleted, and a request under way is answered to its end', async () => {
    const pod = kubectl('semantics', [
      'get',
      'pods',
      '-l',
      'app=echo',
      '-o',
      'jsonpath={.items[0].metadata.name}',
    ])
    const ip = kubectl('semantics', ['get', 'pod', pod, '-o', 'jsonpath={.status.podIP}'])
    const load = session.load('pod:default/client', NAME, 100, 4)
    await load.until(({ progress }) => progress >= 100)
    const slow = session.requests('pod:default/client', `http://${ip}:8080/slow?ms=4000`, 1, 4)
    kubectl('semantics', ['delete', 'pod', pod])
    const { progress } = await load.until(() => true)
    await load.until((now) => now.progress >= progress + 100)
    const summary = await load.stop()
    expect(summary).toMatchObject({ failed: 0, answered: summary.sent })
    expect(await slow).toMatchObject({ answered: 1, failed: 0 })
    const status = JSON.parse(ok(lab(['status', '--name', 'semantics', '-o', 'json']))) as LabStatus
    expect(status.namespaces).not.toContain(`pod.default.${pod}`)
    expect(status.pods.filter(({ name }) => name.startsWith('echo-'))).toHaveLength(3)
  })

  test('plays the load balancer, which asks nodes for their health and lets pods see the client', async () => {
    const service = {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'public' },
      spec: {
        type: 'LoadBalancer',
        externalTrafficPolicy: 'Local',
        ipFamilyPolicy: 'RequireDualStack',
        selector: { app: 'public' },
        ports: [{ port: 80 }],
      },
    }
    kubectl('semantics', ['run', 'public', '--image=lab/echo', '--labels=app=public'])
    kubectl('semantics', ['apply', '-f', '-'], JSON.stringify(service))
    const ingress = (): string =>
      kubectl('semantics', ['get', 'svc', 'public', '-o', 'jsonpath={.status.loadBalancer.ingress[*].ip}'])
    await eventually(() => ingress() !== '', 'the Service has addresses')
    const [ipv4, ipv6] = ingress().split(' ')
    const routes = (): string =>
      ok(lab(['exec', '--name', 'semantics', 'underlay', '--', 'ip', 'route', 'show', ipv4!]))
    await eventually(() => /via 192\.0\.2\.1\d dev/.test(routes()), 'the router knows the one healthy node')
    for (const [family, url, client] of [
      [4, `http://${ipv4}/`, '198.51.100.10'],
      [6, `http://[${ipv6}]/`, '[2001:db8:0:2::10]'],
    ] as const) {
      const summary = await session.requests('outside', url, 20, family)
      expect(summary).toMatchObject({ answered: 20, failed: 0, clients: { [client]: 20 } })
    }
    kubectl('semantics', ['delete', 'service/public', 'pod/public', '--grace-period=1'])
    await eventually(() => routes() === '', 'the route goes with the Service')
  })

  test('gives a pod with hostNetwork the node’s addresses', () => {
    const pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'on-host' },
      spec: {
        hostNetwork: true,
        nodeSelector: { 'kubernetes.io/hostname': 'node-2' },
        containers: [{ name: 'echo', image: 'lab/echo', ports: [{ containerPort: 7000 }] }],
      },
    }
    kubectl('semantics', ['apply', '-f', '-'], JSON.stringify(pod))
    kubectl('semantics', ['wait', '--for=condition=Ready', 'pod/on-host', '--timeout=30s'])
    const answer = ok(
      lab(['exec', '--name', 'semantics', 'outside', '--', 'curl', '-sS', '-4', 'http://node-2:7000/']),
    )
    expect(JSON.parse(answer)).toMatchObject({ pod: 'on-host', server: '192.0.2.12:7000', protocol: 'TCP' })
  })

  test('gives the exit status of what runs inside, and refuses places that do not exist', () => {
    expect(lab(['exec', '--name', 'semantics', 'node-1', '--', 'sh', '-c', 'exit 7']).status).toBe(7)
    expect(lab(['exec', '--name', 'semantics', 'node-9', '--', 'true'])).toMatchObject({ status: 2 })
    expect(lab(['exec', '--name', 'semantics', 'pod:default/none', '--', 'true'])).toMatchObject({
      status: 2,
    })
  })

  test('goes without a trace: no process, no name, no rule, no link on the machine', () => {
    expect(hostState()).toEqual(before)
    const processes = processesOf(instance)
    expect(processes.length).toBeGreaterThan(8)
    ok(lab(['down', '--name', 'semantics']))
    expect(alive(processes)).toEqual([])
    expect(existsSync(instance.dir)).toBe(false)
    expect(hostState()).toEqual(before)
    expect(lab(['status', '--name', 'semantics'])).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('no lab is running') as string,
    })
  })
})

test('when the supervisor is killed nothing of the lab stays, and the next up cleans what it wrote', async () => {
  const instance = labInstance('killed', env)
  ok(lab(['up', '--name', 'killed', '--no-agents']))
  const processes = processesOf(instance)
  const { supervisorPid, outerPid } = running(instance)
  process.kill(supervisorPid, 'SIGKILL')
  await eventually(() => processStart(outerPid) === null, 'the outer process ends')
  expect(alive(processes)).toEqual([])
  expect(lab(['status', '--name', 'killed'])).toMatchObject({
    status: 1,
    stderr: expect.stringContaining('ended without "down"') as string,
  })
  const again = lab(['up', '--name', 'killed', '--no-agents'])
  expect(again).toMatchObject({ status: 0, stderr: expect.stringContaining('removing what') as string })
  ok(lab(['down', '--name', 'killed']))
  expect(existsSync(instance.dir)).toBe(false)
})

test('when the outer process is killed the whole lab ends', async () => {
  const instance = labInstance('orphan', env)
  ok(lab(['up', '--name', 'orphan', '--no-agents']))
  const processes = processesOf(instance)
  process.kill(running(instance).outerPid, 'SIGKILL')
  await eventually(() => alive(processes).length === 0, 'all processes end')
  ok(lab(['down', '--name', 'orphan']))
})

test('a lab with a mode that does not exist is refused and leaves nothing', () => {
  const failed = lab(['up', '--name', 'wrong', '--mode', 'no-such-mode'])
  expect(failed).toMatchObject({ status: 2, stderr: expect.stringContaining('no-such-mode') as string })
  expect(existsSync(labInstance('wrong', env).dir)).toBe(false)
})

test('an ordinary user gets a whole lab in a user namespace', async ({ skip }) => {
  const program = join(ROOT, 'bin/switchback')
  const canRead = spawnSync(AS_NOBODY[0]!, [...AS_NOBODY.slice(1), 'test', '-r', program]).status === 0
  skip(!canRead, `an ordinary user cannot read ${program} (a checkout below /root, say)`)
  const own = mkdtempSync('/tmp/sb-lab-nobody-')
  chownSync(own, NOBODY, NOBODY)
  const before = hostState()
  const userEnv = { ...env, SWITCHBACK_LAB_DIR: join(own, 'lab'), HOME: own }
  const asNobody = (args: readonly string[]): Outcome => {
    const argv = [...AS_NOBODY, process.execPath, join(ROOT, 'bin/switchback'), 'lab', ...args]
    return spawnSync(argv[0]!, argv.slice(1), { cwd: '/', env: userEnv, encoding: 'utf8', timeout: 120_000 })
  }
  try {
    ok(asNobody(['up']))
    const instance = labInstance('lab', userEnv)
    const status = readFileSync(`/proc/${running(instance).supervisorPid}/status`, 'utf8')
    expect(status).toMatch(new RegExp(`^Uid:\\t${NOBODY}\\t`, 'm'))
    expect(
      ok(asNobody(['kubectl', 'get', 'nodes', '-o', 'name']))
        .trim()
        .split('\n'),
    ).toHaveLength(3)
    expect(ok(asNobody(['exec', 'node-1', '--', 'nft', 'list', 'tables']))).toContain('table')
    ok(asNobody(['down']))
    expect(readdirSync(own)).toEqual([])
    expect(hostState()).toEqual(before)
  } finally {
    asNobody(['down'])
    rmSync(own, { recursive: true, force: true })
  }
})

test('the demo tells its story, loses nothing and leaves nothing', () => {
  const before = hostState()
  const { status, stdout, stderr } = lab(['demo'])
  expect(status, stderr + stdout).toBe(0)
  expect(stdout).toMatch(/== 3\. 100 requests/)
  expect(stdout).toMatch(/(\d+) requests sent, \1 answered, 0 lost/)
  for (const node of ['node-1', 'node-2', 'node-3']) expect(stdout).toContain(node)
  expect(stdout).toMatch(/now\s+10\.244\.3\.\d+:\d+ → 10\.244\.\d\.\d+:8080/)
  expect(existsSync(join(dir, 'lab'))).toBe(false)
  expect(hostState()).toEqual(before)
})

test('the demo’s lab ends with it, also when it is killed', async () => {
  const argv = [join(ROOT, 'bin/switchback'), 'lab', 'demo']
  const child = spawn(process.execPath, argv, { env, stdio: ['ignore', 'pipe', 'inherit'] })
  let text = ''
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()))
  await eventually(() => text.includes('- cluster DNS'), 'the demo starts')
  const instance = labInstance(`demo-${child.pid}`, env)
  const { outerPid } = running(instance)
  child.kill('SIGKILL')
  await eventually(() => processStart(outerPid) === null, 'its lab ends')
})
