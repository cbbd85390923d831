import { execFile, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ApiObject } from '../src/lab/apiserver/json.ts'
import { clone, dictOf } from '../src/lab/apiserver/json.ts'
import { RESOURCES } from '../src/lab/apiserver/resources.ts'
import type { ApiServer } from '../src/lab/apiserver/server.ts'
import { startApiServer } from '../src/lab/apiserver/server.ts'
import type { Cidr } from '../src/net/cidr.ts'

/** The machine's kubectl, and others given by path, e.g. an older release. */
const BINARIES = [
  'kubectl',
  ...(process.env['SWITCHBACK_KUBECTL'] ?? '').split(':').filter((path) => path !== ''),
]

interface Result {
  readonly code: number
  readonly out: string
  readonly err: string
}

class Kubectl {
  readonly #binary: string
  readonly #flags: readonly string[]
  readonly #home: string

  constructor(binary: string, url: string, home: string) {
    this.#binary = binary
    this.#flags = ['--server', url, '--kubeconfig', '/dev/null']
    this.#home = home
  }

  run(...args: readonly string[]): Promise<Result> {
    return new Promise((resolve, reject) => {
      const options = { env: { ...process.env, HOME: this.#home }, timeout: 60_000 }
      execFile(this.#binary, [...this.#flags, ...args], options, (error, out, err) => {
        if (error !== null && (error as NodeJS.ErrnoException).code === 'ENOENT') {
          reject(new Error(`${this.#binary} is not installed; \`npm test\` installs what the tests need`))
        } else
          resolve({ code: typeof error?.code === 'number' ? error.code : error === null ? 0 : 1, out, err })
      })
    })
  }

  /** The output of a command that must succeed. */
  async ok(command: string): Promise<string> {
    const result = await this.run(...command.split(' '))
    if (result.code !== 0) throw new Error(`kubectl ${command}: ${result.err}`)
    return result.out.trim()
  }

  /** Starts a command that goes on until the signal; its lines come one by one. */
  lines(signal: AbortSignal, ...args: readonly string[]): AsyncIterator<string> {
    const child = spawn(this.#binary, [...this.#flags, ...args], {
      env: { ...process.env, HOME: this.#home },
      signal,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    child.on('error', () => {})
    return createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  }
}

/** Stands in for the nodes: a pod that has one runs and gets addresses, a terminating one ends. */
function runPods(server: ApiServer): void {
  let next = 1
  const pods = server.store.collection(RESOURCES.pod)
  const step = (object: ApiObject): void => {
    const spec = dictOf(object['spec'])
    if (object.metadata.deletionTimestamp !== undefined) server.store.deleteRaw([object])
    else if (spec['nodeName'] !== undefined && dictOf(object['status'])['podIP'] === undefined) {
      const ip = `10.1.0.${next++}`
      const pod = clone(object)
      pod['status'] = {
        phase: 'Running',
        podIP: ip,
        podIPs: [{ ip }, { ip: `fd00:1::${next}` }],
        conditions: [{ type: 'Ready', status: 'True' }],
        containerStatuses: [{ name: 'main', ready: true, restartCount: 0 }],
      }
      server.store.putRaw([pod])
    }
  }
  pods.listen(({ type, after }) => {
    if (type === 'DELETED') return
    setImmediate(() => {
      const current = pods.get(after.key)
      if (current !== undefined) step(current.object)
    })
  })
}

const NODES = ['n1', 'n2', 'n3'].map((name) => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name, labels: { 'topology.kubernetes.io/zone': `zone-${name}` } },
  status: {
    conditions: [{ type: 'Ready', status: 'True' }],
    addresses: [{ type: 'InternalIP', address: `192.0.2.${name.slice(1)}` }],
  },
}))

const MANIFEST = `
apiVersion: v1
kind: Service
metadata: { name: web, labels: { app: web } }
spec:
  type: NodePort
  ipFamilyPolicy: PreferDualStack
  selector: { app: web }
  ports:
    - { name: http, port: 80, targetPort: web, nodePort: 30080 }
---
apiVersion: v1
kind: Pod
metadata: { name: web-1, labels: { app: web } }
spec:
  containers:
    - { name: main, image: echo, ports: [{ name: web, containerPort: 8080 }] }
---
apiVersion: v1
kind: Pod
metadata: { name: web-2, labels: { app: web } }
spec:
  containers:
    - { name: main, image: echo, ports: [{ name: web, containerPort: 8080 }] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: elsewhere, labels: { kubernetes.io/service-name: elsewhere } }
addressType: IPv4
endpoints: [{ addresses: [192.0.2.99] }]
ports: [{ name: https, port: 443, protocol: TCP }]
`

describe.each(BINARIES)('%s', (binary) => {
  const home = mkdtempSync(join(tmpdir(), 'switchback-kubectl-'))
  const manifest = join(home, 'web.yaml')
  let server: ApiServer
  let kubectl: Kubectl

  beforeAll(async () => {
    server = await startApiServer({
      serviceCidrs: ['10.96.0.0/16', 'fd00:96::/112'] as Cidr[],
      endpointSliceController: true,
      deploymentController: true,
      scheduler: true,
    })
    runPods(server)
    server.store.putRaw(NODES)
    kubectl = new Kubectl(binary, server.url, home)
    writeFileSync(manifest, MANIFEST)
  })
  afterAll(async () => {
    await server.close()
    rmSync(home, { recursive: true })
  })

  test('finds its way around', async () => {
    expect(await kubectl.ok('api-resources -o name')).toContain('endpointslices.discovery.k8s.io')
    expect(await kubectl.ok('get --raw /readyz')).toBe('ok')
    expect(await kubectl.ok('get ns -o name')).toBe(
      ['default', 'kube-node-lease', 'kube-public', 'kube-system']
        .map((name) => `namespace/${name}`)
        .join('\n'),
    )
    expect(await kubectl.ok('get nodes -o wide')).toMatch(/n1 +Ready +<none> +\S+ +<unknown> +192\.0\.2\.1 /)
    expect(await kubectl.ok('explain service.spec.ports')).toContain('targetPort')
  })

  test('applies a manifest, and the same again changes nothing', async () => {
    expect((await kubectl.ok(`apply -f ${manifest}`)).split('\n')).toEqual([
      'service/web created',
      'pod/web-1 created',
      'pod/web-2 created',
      'endpointslice.discovery.k8s.io/elsewhere created',
    ])
    await kubectl.ok('wait --for=condition=Ready pod/web-1 pod/web-2 --timeout=20s')
    for (const line of (await kubectl.ok(`apply -f ${manifest}`)).split('\n'))
      expect(line).toMatch(/ unchanged$/)
  })

  test('shows tables as people know them', async () => {
    expect(await kubectl.ok('get svc web -o wide')).toMatch(
      /^NAME +TYPE +CLUSTER-IP +EXTERNAL-IP +PORT\(S\) +AGE +SELECTOR\nweb +NodePort +10\.96\.\d+\.\d+ +<none> +80:30080\/TCP +\S+ +app=web$/,
    )
    expect(await kubectl.ok('get pods -o wide')).toMatch(/web-1 +1\/1 +Running +0 +\S+ +10\.1\.0\.\d+ +n\d /)
    expect(await kubectl.ok('get endpointslices')).toMatch(
      /web-\S+ +IPv4 +8080 +10\.1\.0\.\d+,10\.1\.0\.\d+ /,
    )
    expect(await kubectl.ok('get svc,pods -A --show-labels')).toMatch(/service\/web .* app=web/)
    expect(await kubectl.ok('get svc --sort-by=.metadata.name -o name')).toBe(
      'service/kubernetes\nservice/web',
    )
    expect(await kubectl.ok('get svc web -o yaml')).toMatch(/ipFamilies:\n {2}- IPv4\n {2}- IPv6\n/)
    expect(await kubectl.ok('get pods -l app=web --field-selector status.phase=Running -o name')).toBe(
      'pod/web-1\npod/web-2',
    )
    const about = await kubectl.ok('describe service web')
    expect(about).toMatch(/NodePort: +http {2}30080\/TCP/)
    expect(about).toMatch(/IP Families: +IPv4,IPv6/)
  })

  test('patches in every way, labels and annotates, and a watch sees it', async () => {
    const stop = new AbortController()
    const watch = kubectl.lines(
      stop.signal,
      'get',
      'svc',
      'web',
      '--watch',
      '-o',
      'jsonpath={.metadata.labels.tier}/{.spec.sessionAffinity}/{.spec.ports[*].port}{"\\n"}',
    )
    const seen: string[] = []
    const follow = async (): Promise<void> => {
      for (let line = await watch.next(); line.done !== true; line = await watch.next()) seen.push(line.value)
    }
    const following = follow()
    const last = (): string | undefined => seen.at(-1)
    await expect.poll(last, { timeout: 10_000 }).toBe('/None/80')
    await kubectl.ok('label svc web tier=front')
    await expect.poll(last, { timeout: 10_000 }).toBe('front/None/80')
    await kubectl.run('patch', 'svc', 'web', '-p', '{"spec":{"ports":[{"name":"more","port":81}]}}')
    await expect.poll(last, { timeout: 10_000 }).toBe('front/None/81 80')
    await kubectl.run('patch', 'svc', 'web', '--type=merge', '-p', '{"spec":{"sessionAffinity":"ClientIP"}}')
    await expect.poll(last, { timeout: 10_000 }).toBe('front/ClientIP/81 80')
    await kubectl.run('patch', 'svc', 'web', '--type=json', '-p', '[{"op":"remove","path":"/spec/ports/0"}]')
    await expect.poll(last, { timeout: 10_000 }).toBe('front/ClientIP/80')
    stop.abort()
    await following
    await kubectl.ok('annotate svc web note=seen')
    expect(await kubectl.ok('get svc web -o jsonpath={.metadata.annotations.note}')).toBe('seen')
  })

  test('says what would change, rehearses and replaces', async () => {
    const changed = join(home, 'changed.yaml')
    writeFileSync(changed, MANIFEST.replace('targetPort: web', 'targetPort: 9000'))
    const diff = await kubectl.run('diff', '-f', changed)
    expect([diff.code, diff.out]).toEqual([
      1,
      expect.stringMatching(/-\s+targetPort: web\n\+\s+targetPort: 9000/),
    ])
    expect(await kubectl.ok(`apply --dry-run=server -f ${changed}`)).toContain(
      'service/web configured (server dry run)',
    )
    expect(await kubectl.ok('get svc web -o jsonpath={.spec.ports[0].targetPort}')).toBe('web')
    expect(await kubectl.ok(`apply -f ${changed}`)).toContain('service/web configured')
    expect(await kubectl.ok('get svc web -o jsonpath={.spec.ports[0].targetPort}')).toBe('9000')
    await expect
      .poll(() => kubectl.ok('get endpointslices -l kubernetes.io/service-name=web'), { timeout: 5000 })
      .toMatch(/IPv4 +9000 /)
    writeFileSync(changed, MANIFEST.split('---')[0]!)
    expect(await kubectl.ok(`replace -f ${changed}`)).toBe('service/web replaced')
    const pods = await kubectl.run('replace', '-f', manifest)
    expect(pods.err).toContain('pod updates may not change fields')
  })

  test('applies on the server side, and conflicts are told', async () => {
    const mine = join(home, 'mine.yaml')
    const map = (value: string): string =>
      `apiVersion: v1\nkind: ConfigMap\nmetadata: { name: shared }\ndata: { key: ${value} }\n`
    writeFileSync(mine, map('mine'))
    expect(await kubectl.ok(`apply --server-side -f ${mine}`)).toBe('configmap/shared serverside-applied')
    writeFileSync(mine, map('yours'))
    const refused = await kubectl.run('apply', '--server-side', '--field-manager=other', '-f', mine)
    expect([refused.code, refused.err]).toEqual([
      1,
      expect.stringMatching(/conflict with "kubectl".*: \.data\.key/),
    ])
    await kubectl.ok(`apply --server-side --field-manager=other --force-conflicts -f ${mine}`)
    expect(await kubectl.ok('get cm shared -o jsonpath={.data.key}')).toBe('yours')
  })

  test('creates without a manifest, exposes, scales and rolls', async () => {
    await kubectl.ok('create deployment app --image=echo:1 --port=8080')
    await kubectl.ok('scale deployment app --replicas=3')
    await kubectl.ok('rollout status deployment/app --timeout=20s')
    const nodes = await kubectl.ok('get pods -l app=app -o jsonpath={.items[*].spec.nodeName}')
    expect(nodes.split(' ').sort()).toEqual(['n1', 'n2', 'n3'])
    expect(await kubectl.ok('expose deployment app --port=80 --target-port=8080')).toContain(
      'service/app exposed',
    )
    await expect
      .poll(() =>
        kubectl.ok(
          'get endpointslices -l kubernetes.io/service-name=app -o jsonpath={.items[*].endpoints[*].nodeName}',
        ),
      )
      .toMatch(/^n\d n\d n\d$/)
    await kubectl.ok('set image deployment/app *=echo:2')
    await kubectl.ok('rollout status deployment/app --timeout=20s')
    await expect
      .poll(() => kubectl.ok('get pods -l app=app -o jsonpath={.items[*].spec.containers[*].image}'))
      .toBe('echo:2 echo:2 echo:2')
    expect(await kubectl.ok('describe deployment app')).toMatch(
      /3 desired \| 3 updated \| 3 total \| 3 available/,
    )
    await kubectl.ok('create service nodeport np --tcp=80:8080 --node-port=30090')
    expect(
      await kubectl.ok('get svc np -o jsonpath={.spec.ports[0].nodePort}/{.spec.ports[0].targetPort}'),
    ).toBe('30090/8080')
    await kubectl.ok('create configmap settings --from-literal=a=b')
    expect(await kubectl.ok('get cm settings -o jsonpath={.data}')).toBe('{"a":"b"}')
    await kubectl.ok('run lone --image=echo --port=90')
    await kubectl.ok('wait --for=condition=Ready pod/lone --timeout=20s')
    await kubectl.ok('cordon n1')
    expect(await kubectl.ok('get node n1')).toMatch(/Ready,SchedulingDisabled/)
  })

  test('is told plainly what is wrong', async () => {
    const bad = join(home, 'bad.yaml')
    writeFileSync(
      bad,
      'apiVersion: v1\nkind: Service\nmetadata: { name: bad }\nspec: { ports: [{ port: 80 }], type: Odd }\n',
    )
    const invalid = await kubectl.run('apply', '-f', bad)
    expect([invalid.code, invalid.err]).toEqual([
      1,
      expect.stringContaining('spec.type: Unsupported value: "Odd"'),
    ])
    writeFileSync(
      bad,
      'apiVersion: v1\nkind: Service\nmetadata: { name: bad }\nspec: { ports: [{ port: 80 }], foo: 1 }\n',
    )
    const unknown = await kubectl.run('apply', '-f', bad)
    expect([unknown.code, unknown.err]).toEqual([1, expect.stringContaining('unknown field "')])
    const missing = await kubectl.run('get', 'svc', 'nope')
    expect([missing.code, missing.err.trim()]).toEqual([
      1,
      'Error from server (NotFound): services "nope" not found',
    ])
  })

  test('deletes and waits until it is gone', async () => {
    expect(await kubectl.ok(`delete -f ${manifest}`)).toContain('pod "web-1" deleted')
    expect((await kubectl.run('get', 'pod', 'web-1')).code).toBe(1)
    await expect
      .poll(() => kubectl.ok('get endpointslices -l kubernetes.io/service-name=web -o name'))
      .toBe('')
    await kubectl.ok('create ns team')
    await kubectl.ok('run inside --image=echo -n team')
    expect(await kubectl.ok('delete ns team --timeout=20s')).toContain('namespace "team" deleted')
    await kubectl.ok('delete deployment app')
    await expect.poll(() => kubectl.ok('get pods -l app=app -o name')).toBe('')
  })
})
