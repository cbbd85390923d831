import type { Cidr } from '../../net/cidr.ts'
import { parseCidr } from '../../net/cidr.ts'
import type { Ip } from '../../net/ip.ts'
import { parseIp } from '../../net/ip.ts'
import type { Port } from '../../net/port.ts'
import { toPort } from '../../net/port.ts'
import type { Protocol } from '../../net/protocol.ts'
import { parseProtocol } from '../../net/protocol.ts'
import type { Verdict } from '../../services/decision.ts'
import type { ConfigProblem } from '../../shared/errors.ts'
import { ConfigError } from '../../shared/errors.ts'
import { located, placeOfJsonError } from './locate.ts'

/** `192.0.2.1:80` or `[2001:db8::1]:80`. */
export function formatSocket({ ip, port }: { readonly ip: Ip; readonly port: Port }): string {
  return ip.includes(':') ? `[${ip}]:${port}` : `${ip}:${port}`
}

/** Any JSON object. */
export type Json = Readonly<Record<string, unknown>>

/** A file of packet-flow cases, schema kube-proxy-flows/1 (test/cases/flows.md). */
export interface FlowsFile {
  readonly nodeUnderTest: string
  /** Addresses of the node's interfaces, loopback included. */
  readonly localAddresses: readonly Ip[]
  /** KubeProxyConfiguration v1alpha1 as it stands in the file. */
  readonly baseConfig: Json
  readonly serviceCidrs: readonly Cidr[]
  readonly fixtures: ReadonlyMap<string, FlowFixture>
  readonly cases: readonly FlowCase[]
}

/** A cluster that several cases share. */
export interface FlowFixture {
  readonly name: string
  readonly description: string
  readonly configOverrides: Json
  /** Complete API objects: Nodes, Services, EndpointSlices. */
  readonly objects: readonly unknown[]
}

export interface FlowCase {
  readonly id: string
  readonly title: string
  readonly features: readonly string[]
  readonly core: boolean
  readonly fixture: FlowFixture
  readonly configOverrides: Json
  readonly packet: FlowPacket
  readonly expect: FlowExpectation
  /** For modes with overrides. */
  readonly expectByMode: ReadonlyMap<string, FlowExpectation>
  /** Empty if there is none. */
  readonly note: string
}

/** Who sends the packet, in the words of the file. */
export type FlowClient = (typeof CLIENTS)[number]

export interface FlowPacket {
  readonly client: FlowClient
  readonly source: Ip
  readonly destination: Ip
  readonly port: Port
  readonly protocol: Protocol
}

export interface FlowExpectation {
  readonly verdict: Verdict
  /** For FORWARD: `ip:port` or `[ip]:port` of everything that may be chosen, and whether the source is masqueraded. */
  readonly destinations: ReadonlyMap<string, { readonly masquerade: boolean }>
  readonly sticky: boolean
}

/**
 * Reads a file of packet-flow cases.
 * @throws ConfigError with everything that is wrong in it
 */
export function parseFlows(text: string, file: string): FlowsFile {
  const problems: ConfigProblem[] = []
  const json = parseJson(text, file)
  const read = new Reader(file, problems)
  if (json['schema'] !== 'kube-proxy-flows/1') read.wrong('schema', 'is not "kube-proxy-flows/1"')
  const fixtures = new Map(
    Object.entries(read.object(json, 'fixtures', '')).map(([name, fixture]) => [
      name,
      readFixture(read, name, fixture),
    ]),
  )
  const cases = read.list(json, 'cases', '').map((entry, i) => readCase(read, entry, `cases[${i}]`, fixtures))
  const flows: FlowsFile = {
    nodeUnderTest: read.text(json, 'node_under_test', ''),
    localAddresses: read
      .list(json, 'local_addresses_of_node_under_test', '')
      .map((ip, i) => read.parsed(ip, `local_addresses_of_node_under_test[${i}]`, parseIp, 'an IP address')),
    baseConfig: read.object(json, 'base_config', ''),
    serviceCidrs: read
      .list(json, 'service_cidrs', '')
      .map((cidr, i) => read.parsed(cidr, `service_cidrs[${i}]`, parseCidr, 'a CIDR')),
    fixtures,
    cases: cases.filter((flow) => flow !== null),
  }
  if (problems.length > 0) throw new ConfigError('FLOWS_INVALID', located(problems, text))
  return flows
}

/** What a case expects of a mode: its expectation with the mode's overrides put over it. */
export function expectationFor(flow: FlowCase, mode: string): FlowExpectation {
  return flow.expectByMode.get(mode) ?? flow.expect
}

function readFixture(read: Reader, name: string, value: unknown): FlowFixture {
  const path = `fixtures.${name}`
  const fixture = isJson(value) ? value : {}
  if (!isJson(value)) read.wrong(path, 'is not an object')
  return {
    name,
    description: String(fixture['description'] ?? ''),
    configOverrides: read.object(fixture, 'config_overrides', path),
    objects: ['nodes', 'services', 'endpointSlices'].flatMap((key) => read.list(fixture, key, path)),
  }
}

function readCase(
  read: Reader,
  value: unknown,
  path: string,
  fixtures: ReadonlyMap<string, FlowFixture>,
): FlowCase | null {
  if (!isJson(value)) return read.wrong(path, 'is not an object')
  const fixture = fixtures.get(read.text(value, 'fixture', path))
  if (fixture === undefined) return read.wrong(`${path}.fixture`, 'names no fixture of the file')
  const packet = read.object(value, 'packet', path)
  const expect = read.object(value, 'expect', path)
  const overrides = read.object(value, 'mode_overrides', path)
  const at = `${path}.packet`
  return {
    id: read.text(value, 'id', path),
    title: String(value['title'] ?? ''),
    features: read.list(value, 'feature', path).map(String),
    core: value['core'] === true,
    fixture,
    configOverrides: read.object(value, 'config_overrides', path),
    packet: {
      client: read.parsed(packet['client'], `${at}.client`, toClient, `one of ${CLIENTS.join(', ')}`),
      source: read.parsed(packet['src'], `${at}.src`, parseIp, 'an IP address'),
      destination: read.parsed(packet['dst'], `${at}.dst`, parseIp, 'an IP address'),
      port: read.parsed(String(packet['port']), `${at}.port`, (port) => toPort(Number(port)), 'a port'),
      protocol: read.parsed(packet['protocol'], `${at}.protocol`, parseProtocol, 'TCP, UDP or SCTP'),
    },
    expect: readExpectation(read, expect, `${path}.expect`),
    expectByMode: new Map(
      Object.keys(overrides).map((mode) => [
        mode,
        readExpectation(
          read,
          { ...expect, ...read.object(overrides, mode, `${path}.mode_overrides`) },
          `${path}.mode_overrides.${mode}`,
        ),
      ]),
    ),
    note: String(value['note'] ?? ''),
  }
}

function readExpectation(read: Reader, expect: Json, path: string): FlowExpectation {
  const verdict = read.parsed(
    expect['verdict'],
    `${path}.verdict`,
    toVerdict,
    `one of ${VERDICTS.join(', ')}`,
  )
  const perDestination = read.object(expect, 'masquerade_per_destination', path)
  const masquerade = (address: string): boolean =>
    expect['masquerade'] === 'per-destination'
      ? perDestination[address] === true
      : expect['masquerade'] === true
  const addresses = verdict === 'FORWARD' ? read.list(expect, 'destinations', path).map(String) : []
  return {
    verdict,
    destinations: new Map(
      addresses.map((address) => [
        read.parsed(address, `${path}.destinations`, canonicalSocket, 'an address with a port'),
        { masquerade: masquerade(address) },
      ]),
    ),
    sticky: verdict === 'FORWARD' && Boolean(expect['sticky']),
  }
}

function parseJson(text: string, file: string): Json {
  try {
    const json: unknown = JSON.parse(text)
    if (isJson(json)) return json
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    const message = `is not JSON: ${reason.replace(/ (in JSON )?at position \d+.*$/, '')}`
    const place = placeOfJsonError(text, reason)
    throw new ConfigError('FLOWS_INVALID', [{ file, ...place, path: '', message }], { cause })
  }
  const message = 'is not a JSON object'
  throw new ConfigError('FLOWS_INVALID', [{ file, line: null, column: null, path: '', message }])
}

/** Reads fields, notes what is wrong and goes on with a stand-in. */
class Reader {
  readonly #file: string
  readonly #problems: ConfigProblem[]

  constructor(file: string, problems: ConfigProblem[]) {
    this.#file = file
    this.#problems = problems
  }

  wrong(path: string, message: string): null {
    this.#problems.push({ file: this.#file, line: null, column: null, path, message })
    return null
  }

  text(from: Json, key: string, path: string): string {
    const value = from[key]
    if (typeof value === 'string') return value
    this.wrong(joined(path, key), 'is not text')
    return ''
  }

  /** Empty if absent. */
  object(from: Json, key: string, path: string): Json {
    const value = from[key] ?? {}
    if (isJson(value)) return value
    this.wrong(joined(path, key), 'is not an object')
    return {}
  }

  /** Empty if absent. */
  list(from: Json, key: string, path: string): readonly unknown[] {
    const value = from[key] ?? []
    if (Array.isArray(value)) return value
    this.wrong(joined(path, key), 'is not a list')
    return []
  }

  parsed<T>(value: unknown, path: string, parse: (text: string) => T | null, what: string): T {
    const parsed = typeof value === 'string' ? parse(value) : null
    if (parsed === null) this.wrong(path, `${JSON.stringify(value)} is not ${what}`)
    // After a problem the file is refused as a whole, so this value is never looked at.
    return parsed as T
  }
}

const VERDICTS: readonly Verdict[] = ['FORWARD', 'REJECT', 'DROP', 'NONE', 'ACCEPT_LOCAL']
const CLIENTS = [
  'local-pod',
  'local-pod6',
  'remote-pod',
  'endpoint-pod',
  'host',
  'loopback',
  'loopback6',
  'external',
  'external6',
  'lb-as-source',
] as const

function toVerdict(text: string): Verdict | null {
  return VERDICTS.find((verdict) => verdict === text) ?? null
}

function toClient(text: string): FlowClient | null {
  return CLIENTS.find((client) => client === text) ?? null
}

function canonicalSocket(text: string): string | null {
  const match = /^\[?([^\]]+)\]?:(\d+)$/.exec(text)
  const ip = parseIp(match?.[1] ?? '')
  const port = toPort(Number(match?.[2]))
  return ip === null || port === null ? null : formatSocket({ ip, port })
}

function joined(path: string, key: string): string {
  return path === '' ? key : `${path}.${key}`
}

function isJson(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
