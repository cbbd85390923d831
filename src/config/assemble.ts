import type { ModeName } from '../modes/mode.ts'
import { parseCidr } from '../net/cidr.ts'
import { familyOf, parseIp } from '../net/ip.ts'
import type { ConfigProblem } from '../shared/errors.ts'
import { MODE_NAMES, splitHostPort } from './checks.ts'
import type { DetectLocalMode, ModeSection, ProxyConfiguration } from './configuration.ts'
import { FIELDS } from './fields.ts'
import type { FieldValue, Values } from './values.ts'
import { checkValues } from './values.ts'

/** What runs when `mode` is empty. kube-proxy's default, iptables, takes this place when the mode exists here. */
export const DEFAULT_MODE: ModeName = 'nftables'

const HEALTHZ_PORT = 10_256
const METRICS_PORT = 10_249

const FALLBACKS: ReadonlyMap<string, FieldValue> = new Map(
  FIELDS.map(({ path, fallback }) => [path, fallback]),
)

/** The value of a field: given, or upstream's default. */
export function valueOf<T extends FieldValue>(values: Values, path: string): T {
  const given = values.get(path)
  return (given === undefined ? FALLBACKS.get(path) : given.value) as T
}

/** What is wrong with the values, alone and together. Empty = {@link assemble} may be called. */
export function validate(values: Values): ConfigProblem[] {
  const problems = checkValues(FIELDS, values)
  if (problems.length > 0) return problems
  for (const section of ['iptables', 'nftables'] as const) {
    if (
      valueOf<number>(values, `${section}.minSyncPeriod`) > valueOf<number>(values, `${section}.syncPeriod`)
    ) {
      problems.push(
        problemAt(
          values,
          [`${section}.minSyncPeriod`, `${section}.syncPeriod`],
          'must not be longer than syncPeriod',
        ),
      )
    }
  }
  const needs: Readonly<Record<string, string>> = {
    BridgeInterface: 'detectLocal.bridgeInterface',
    InterfaceNamePrefix: 'detectLocal.interfaceNamePrefix',
  }
  const mode = valueOf<string>(values, 'detectLocalMode')
  const needed = needs[mode]
  if (needed !== undefined && valueOf<string>(values, needed) === '') {
    problems.push(problemAt(values, [needed, 'detectLocalMode'], `must be set for detectLocalMode ${mode}`))
  }
  return problems
}

/** A problem of the first of these fields, at the place of the first that was given. */
function problemAt(values: Values, paths: readonly string[], message: string): ConfigProblem {
  const given = paths.map((path) => values.get(path)).find((value) => value !== undefined)
  return { file: '', line: null, column: null, ...given?.origin, path: paths[0]!, message }
}

/** Makes the configuration of valid values. */
export function assemble(values: Values): ProxyConfiguration {
  const value = <T extends FieldValue>(path: string): T => valueOf<T>(values, path)
  const section = (name: string): ModeSection => ({
    masqueradeBit: value(`${name}.masqueradeBit`),
    masqueradeAll: value(`${name}.masqueradeAll`),
    syncPeriodMs: value(`${name}.syncPeriod`),
    minSyncPeriodMs: value(`${name}.minSyncPeriod`),
  })
  const bindAddress = value<string>('bindAddress')
  const v6 = familyOf(parseIp(bindAddress)!) === 'IPv6'
  const nodePortAddresses = value<readonly string[]>('nodePortAddresses')
  return deepFreeze({
    mode: MODE_NAMES[value<string>('mode')] ?? DEFAULT_MODE,
    hostnameOverride: value('hostnameOverride'),
    clientConnection: {
      kubeconfig: value('clientConnection.kubeconfig'),
      qps: value('clientConnection.qps'),
      burst: value('clientConnection.burst'),
    },
    logging: { format: value('logging.format'), verbosity: value('logging.verbosity') },
    bindAddress,
    healthzBindAddress: address(values, 'healthzBindAddress', v6 ? '::' : '0.0.0.0', HEALTHZ_PORT),
    metricsBindAddress: address(values, 'metricsBindAddress', v6 ? '::1' : '127.0.0.1', METRICS_PORT),
    bindAddressHardFail: value('bindAddressHardFail'),
    iptables: { ...section('iptables'), localhostNodePorts: value('iptables.localhostNodePorts') },
    nftables: section('nftables'),
    detectLocalMode: (value<string>('detectLocalMode') || 'ClusterCIDR') as DetectLocalMode,
    detectLocal: {
      bridgeInterface: value('detectLocal.bridgeInterface'),
      interfaceNamePrefix: value('detectLocal.interfaceNamePrefix'),
    },
    clusterCidrs: value<string>('clusterCIDR')
      .split(',')
      .filter((text) => text !== '')
      .map((text) => parseCidr(text.trim())!),
    nodePortAddresses: nodePortAddresses.includes('primary')
      ? 'primary'
      : nodePortAddresses.map((text) => parseCidr(text)!),
    configSyncPeriodMs: value('configSyncPeriod'),
  })
}

/** The address with its port. In a file an empty value means the default; an empty flag turns the server off. */
function address(values: Values, path: string, host: string, port: number): string {
  const given = values.get(path)
  if (given?.value === '' && given.origin.line === null) return ''
  const text = given?.value
  if (typeof text !== 'string' || text === '') return joinHostPort(host, port)
  const parts = splitHostPort(text)!
  return joinHostPort(parts.host, parts.port ?? port)
}

/** `host:port`, with brackets around an IPv6 address. */
export function joinHostPort(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null) {
    for (const inner of Object.values(value)) deepFreeze(inner)
    Object.freeze(value)
  }
  return value
}
