import type { ChildProcess } from 'node:child_process'
import { spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { expect, vi } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { readNftJson } from '../../src/kernel/nft/json.ts'
import { viewOf } from '../../src/kernel/nft/rule-view.ts'
import type { TestNamespace } from '../../src/kernel/test-namespace.ts'
import { traceTables } from '../../src/modes/nftables/trace.ts'
import { familyOf, parseIp } from '../../src/net/ip.ts'
import { CLIENT_PORT, parseDestination } from '../../src/trace/packet.ts'
import type { Answer, Inside, Running } from './inside.ts'
import { goInside, spawnInside } from './inside.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const INPUTS = join(ROOT, 'test/cases/inputs')
const API = 'http://127.0.0.1:18080'
const ADDRESSES = ['192.0.2.10', '198.51.100.10', '2001:db8:10::a', '2001:db8:20::a']
const LOCAL_IPS = [...ADDRESSES, '127.0.0.1', '::1'].map((text) => parseIp(text)!)

/** The lab's API server; a line in stores or removes objects as they are, without validation. */
const SERVER = `
import { createInterface } from 'node:readline'
import { startApiServer } from ${JSON.stringify(join(ROOT, 'dist/lab/apiserver/server.js'))}
const { store } = await startApiServer({ host: '127.0.0.1', port: 18080, serviceCidrs: ['10.111.0.0/16', 'fd11:111::/112'] })
console.log('ready')
for await (const line of createInterface({ input: process.stdin })) {
  const { put = [], remove = [] } = JSON.parse(line)
  store.putRaw(put)
  store.deleteRaw(remove)
  console.log('done')
}`

export interface BugObject {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly namespace?: string; readonly name: string }
  readonly [field: string]: unknown
}

/** What the kernel holds at one moment. */
export interface LiveRules {
  readonly text: string
  /** As `BugCase.outcome`: `DROP`, or `10.64.0.1:80 10.64.1.1:80 (node)` with who is seen as source. */
  outcome(from: string, to: string, inputInterface?: string): string
  isSticky(from: string, to: string): boolean
}

/** Node `worker-a` of test/cases/bugs.md: a namespace with its addresses, an API server, and the real agent. */
export class LiveNode implements AsyncDisposable {
  readonly #namespace: TestNamespace
  readonly #directory: string
  readonly #server: ChildProcess
  readonly #answers: AsyncIterator<string>
  readonly #objects = new Map<string, BugObject>()
  readonly inside: Inside
  #agent: Running | null = null
  #markers = 0

  private constructor(namespace: TestNamespace, directory: string) {
    this.#namespace = namespace
    this.#directory = directory
    for (const address of ADDRESSES) {
      const length = address.includes(':') ? 128 : 32
      namespace.run(['ip', 'address', 'add', `${address}/${length}`, 'dev', 'lo'])
    }
    this.inside = goInside(namespace)
    const argv = ['netns', 'exec', namespace.name, process.execPath, '--input-type=module', '-e', SERVER]
    this.#server = spawn('ip', argv, { stdio: ['pipe', 'pipe', 'inherit'] })
    this.#answers = createInterface({ input: this.#server.stdout! })[Symbol.asyncIterator]()
  }

  static async start(namespace: TestNamespace, directory: string): Promise<LiveNode> {
    const node = new LiveNode(namespace, directory)
    await node.#answers.next()
    await node.#tell({ put: documents(join(INPUTS, 'common/nodes.yaml')) })
    return node
  }

  /** (Re)starts the agent with the configuration of a case, and waits for its first rules. */
  async startAgent(id: string, change: object = {}): Promise<void> {
    await this.#agent?.stop()
    const config = parse(readFileSync(join(INPUTS, id, 'config.yaml'), 'utf8')) as Record<string, object>
    const file = join(this.#directory, 'config.json')
    const nftables = { ...config['nftables'], minSyncPeriod: '20ms' }
    writeFileSync(file, JSON.stringify({ ...config, mode: 'nftables', nftables, ...change }))
    const argv = [
      process.execPath,
      join(ROOT, 'bin/switchback'),
      'run',
      `--config=${file}`,
      `--master=${API}`,
    ]
    this.#agent = spawnInside(this.#namespace, argv)
    await this.settle()
  }

  log(): string {
    return this.#agent?.output() ?? ''
  }

  objects(id: string, step: number): readonly BugObject[] {
    return documents(join(INPUTS, id, `step0${step}.yaml`))
  }

  async apply(id: string, step: number): Promise<LiveRules> {
    return this.put(this.objects(id, step))
  }

  async put(objects: readonly BugObject[]): Promise<LiveRules> {
    for (const object of objects) this.#objects.set(keyOf(object), object)
    await this.#tell({ put: objects })
    return this.settle()
  }

  /** Removes objects by `Kind/namespace/name`. */
  async remove(...keys: readonly string[]): Promise<LiveRules> {
    await this.#tell({ remove: keys.map((key) => this.#objects.get(key)!) })
    for (const key of keys) this.#objects.delete(key)
    return this.settle()
  }

  async clear(): Promise<void> {
    await this.remove(...this.#objects.keys())
  }

  request(url: string): Promise<Answer | null> {
    return this.inside.request(url)
  }

  /** The value of a metric's one sample with these labels, or null. */
  async metric(name: string, ...labels: readonly string[]): Promise<number | null> {
    const text = await this.inside.get('http://127.0.0.1:10249/metrics')
    const line = text
      .split('\n')
      .find((each) => each.startsWith(`${name}{`) && labels.every((label) => each.includes(label)))
    return line === undefined ? null : Number(line.split(' ').at(-1))
  }

  /** Waits until a change made after all others is in the kernel: the others must be by then. */
  async settle(): Promise<LiveRules> {
    const port = 1000 + ++this.#markers
    await this.#tell({ put: marker(port) })
    return vi.waitFor(
      async () => {
        expect(this.#agent!.process.exitCode, this.log()).toBeNull()
        const rules = await this.rules()
        expect(rules.outcome('10.64.0.20', `10.111.250.1:${port}`)).toContain(`10.64.9.9:${port} `)
        return rules
      },
      { timeout: 20_000, interval: 30 },
    )
  }

  async rules(): Promise<LiveRules> {
    const text = await this.inside.run(['nft', '-j', 'list', 'ruleset'])
    const views = readNftJson(text).map(viewOf)
    const trace = (from: string, to: string, inputInterface: string) => {
      const destination = parseDestination(to)
      const source = parseIp(from)!
      const isLocal = LOCAL_IPS.includes(source)
      const packet = {
        source,
        sourcePort: CLIENT_PORT,
        destination: destination.ip,
        port: destination.port,
        protocol: destination.protocol,
        origin: isLocal ? ('local' as const) : ('received' as const),
        inputInterface: isLocal ? null : inputInterface,
      }
      const found = traceTables(views, packet, { family: familyOf(destination.ip), localIps: LOCAL_IPS })
      expect(found.notUnderstood).toEqual([])
      return found
    }
    return {
      text,
      outcome: (from, to, inputInterface = 'eth0') => {
        const { verdict, destinations } = trace(from, to, inputInterface)
        if (verdict !== 'FORWARD') return verdict
        const seen = new Set(destinations.map(({ masquerade }) => (masquerade ? 'node' : 'client')))
        const sockets = destinations.map(({ endpoint: { ip, port } }) =>
          ip.includes(':') ? `[${ip}]:${port}` : `${ip}:${port}`,
        )
        return `${sockets.toSorted().join(' ')} (${[...seen].join(', ')})`
      },
      isSticky: (from, to) => trace(from, to, 'eth0').sticky,
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#agent?.stop('SIGKILL')
    this.inside[Symbol.dispose]()
    this.#server.kill('SIGKILL')
    this.#namespace.close()
  }

  async #tell(message: object): Promise<void> {
    this.#server.stdin!.write(`${JSON.stringify(message)}\n`)
    expect(await this.#answers.next()).toMatchObject({ value: 'done' })
  }
}

/** A Service and its slice that only serve to see that everything before them has arrived. */
function marker(port: number): readonly object[] {
  const ports = [{ name: 'm', port, protocol: 'TCP' }]
  return [
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { namespace: 'marker', name: 'm' },
      spec: { type: 'ClusterIP', clusterIP: '10.111.250.1', ports },
    },
    {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { namespace: 'marker', name: 'm-1', labels: { 'kubernetes.io/service-name': 'm' } },
      addressType: 'IPv4',
      ports,
      endpoints: [{ addresses: ['10.64.9.9'], conditions: { ready: true } }],
    },
  ]
}

function keyOf({ kind, metadata: { namespace, name } }: BugObject): string {
  return `${kind}/${namespace}/${name}`
}

function documents(path: string): readonly BugObject[] {
  return parseAllDocuments(readFileSync(path, 'utf8'))
    .map((document) => document.toJS() as BugObject)
    .filter((object) => object !== null)
}
