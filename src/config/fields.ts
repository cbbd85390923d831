import {
  checkBridgeName,
  checkCidrLists,
  checkHostPort,
  checkIp,
  checkMode,
  checkNodePortAddresses,
  intBetween,
  notNegative,
  oneOf,
  positive,
} from './checks.ts'
import type { FieldValue } from './values.ts'

export type FieldKind = 'string' | 'bool' | 'int' | 'number' | 'duration' | 'list' | 'any'

/**
 * What a value does here: `used`; `no effect` = accepted because kube-proxy has it, and said so when it is set to
 * something else than its default; `windows` = likewise, for Windows nodes.
 */
export type FieldStanding = 'used' | 'no effect' | 'windows'

/** One field of KubeProxyConfiguration: the only place that knows its name, type, default, flag and rules. */
export interface Field {
  /** Path in the file, e.g. `nftables.syncPeriod`. */
  readonly path: string
  readonly kind: FieldKind
  readonly fallback: FieldValue
  /** Name of the command-line flag (without dashes) that sets it; one flag may set several fields. */
  readonly flag: string | null
  /** The flag is obeyed even when `--config` is given. */
  readonly flagSurvivesConfig: boolean
  readonly standing: FieldStanding
  /** What is wrong with a value of the right type; null = nothing. */
  readonly check: (value: FieldValue) => string | null
}

type Extra = Partial<Pick<Field, 'flag' | 'flagSurvivesConfig' | 'standing'>> & {
  readonly check?: (value: never) => string | null
}

function field(path: string, kind: FieldKind, fallback: FieldValue, extra: Extra = {}): Field {
  return {
    path,
    kind,
    fallback,
    flag: extra.flag ?? null,
    flagSurvivesConfig: extra.flagSurvivesConfig ?? false,
    standing: extra.standing ?? 'used',
    check: (extra.check as Field['check'] | undefined) ?? (() => null),
  }
}

const SECOND = 1000
const HOUR = 3_600_000
const LATER = { standing: 'no effect' } as const
const WINDOWS = { standing: 'windows' } as const

/** Sync periods and masquerading of one mode. The iptables flags are older than the sections and set more than one. */
function modeSection(name: 'iptables' | 'nftables'): Field[] {
  const bitFlag = name === 'iptables' ? { flag: 'iptables-masquerade-bit' } : {}
  return [
    field(`${name}.masqueradeBit`, 'int', 14, { ...bitFlag, check: intBetween(0, 31) }),
    field(`${name}.masqueradeAll`, 'bool', false, { flag: 'masquerade-all' }),
    field(`${name}.syncPeriod`, 'duration', 30 * SECOND, { flag: 'iptables-sync-period', check: positive }),
    field(`${name}.minSyncPeriod`, 'duration', SECOND, {
      flag: 'iptables-min-sync-period',
      check: notNegative,
    }),
  ]
}

const CLIENT: readonly Field[] = [
  field('clientConnection.kubeconfig', 'string', '', { flag: 'kubeconfig' }),
  field('clientConnection.acceptContentTypes', 'string', '', LATER),
  field('clientConnection.contentType', 'string', 'application/vnd.kubernetes.protobuf', {
    flag: 'kube-api-content-type',
  }),
  field('clientConnection.qps', 'number', 5, { flag: 'kube-api-qps' }),
  field('clientConnection.burst', 'int', 10, { flag: 'kube-api-burst', check: notNegative }),
]

const LOGGING: readonly Field[] = [
  field('logging.format', 'string', 'text', {
    flag: 'logging-format',
    flagSurvivesConfig: true,
    check: oneOf('text', 'json'),
  }),
  field('logging.verbosity', 'int', 0, { flag: 'v', flagSurvivesConfig: true, check: notNegative }),
  field('logging.flushFrequency', 'any', null, {
    flag: 'log-flush-frequency',
    flagSurvivesConfig: true,
    ...LATER,
  }),
  field('logging.vmodule', 'any', null, { flag: 'vmodule', flagSurvivesConfig: true, ...LATER }),
  field('logging.options', 'any', null, LATER),
]

const NODE: readonly Field[] = [
  field('mode', 'string', '', { flag: 'proxy-mode', check: checkMode }),
  field('hostnameOverride', 'string', '', { flag: 'hostname-override', flagSurvivesConfig: true }),
  field('bindAddress', 'string', '0.0.0.0', { flag: 'bind-address', check: checkIp }),
  field('healthzBindAddress', 'string', null, { flag: 'healthz-bind-address', check: checkHostPort }),
  field('metricsBindAddress', 'string', null, { flag: 'metrics-bind-address', check: checkHostPort }),
  field('bindAddressHardFail', 'bool', false, { flag: 'bind-address-hard-fail' }),
  field('detectLocalMode', 'string', 'ClusterCIDR', {
    flag: 'detect-local-mode',
    check: oneOf('', 'ClusterCIDR', 'NodeCIDR', 'BridgeInterface', 'InterfaceNamePrefix'),
  }),
  field('detectLocal.bridgeInterface', 'string', '', {
    flag: 'pod-bridge-interface',
    check: checkBridgeName,
  }),
  field('detectLocal.interfaceNamePrefix', 'string', '', {
    flag: 'pod-interface-name-prefix',
    check: checkBridgeName,
  }),
  field('clusterCIDR', 'string', '', { flag: 'cluster-cidr', check: checkCidrLists }),
  field('nodePortAddresses', 'list', [], { flag: 'nodeport-addresses', check: checkNodePortAddresses }),
  field('configSyncPeriod', 'duration', 15 * 60 * SECOND, { flag: 'config-sync-period', check: positive }),
  field('featureGates', 'any', null, { flag: 'feature-gates', ...LATER }),
  field('enableProfiling', 'bool', false, { flag: 'profiling', ...LATER }),
  field('showHiddenMetricsForVersion', 'string', '', { flag: 'show-hidden-metrics-for-version', ...LATER }),
  field('oomScoreAdj', 'int', -999, { flag: 'oom-score-adj', ...LATER, check: intBetween(-1000, 1000) }),
  field('portRange', 'string', '', { flag: 'proxy-port-range', ...LATER }),
  field('windowsRunAsService', 'bool', false, { flag: 'windows-service', ...WINDOWS }),
]

const IPVS: readonly Field[] = [
  field('ipvs.syncPeriod', 'duration', 30 * SECOND, { flag: 'ipvs-sync-period', ...LATER, check: positive }),
  field('ipvs.minSyncPeriod', 'duration', 0, {
    flag: 'ipvs-min-sync-period',
    ...LATER,
    check: notNegative,
  }),
  field('ipvs.scheduler', 'string', '', { flag: 'ipvs-scheduler', ...LATER }),
  field('ipvs.excludeCIDRs', 'list', [], { flag: 'ipvs-exclude-cidrs', ...LATER }),
  field('ipvs.strictARP', 'bool', false, { flag: 'ipvs-strict-arp', ...LATER }),
  field('ipvs.tcpTimeout', 'duration', 0, { flag: 'ipvs-tcp-timeout', ...LATER, check: notNegative }),
  field('ipvs.tcpFinTimeout', 'duration', 0, { flag: 'ipvs-tcpfin-timeout', ...LATER, check: notNegative }),
  field('ipvs.udpTimeout', 'duration', 0, { flag: 'ipvs-udp-timeout', ...LATER, check: notNegative }),
]

const CONNTRACK: readonly Field[] = [
  field('conntrack.maxPerCore', 'int', 32_768, {
    flag: 'conntrack-max-per-core',
    ...LATER,
    check: notNegative,
  }),
  field('conntrack.min', 'int', 131_072, { flag: 'conntrack-min', ...LATER, check: notNegative }),
  field('conntrack.tcpEstablishedTimeout', 'duration', 24 * HOUR, {
    flag: 'conntrack-tcp-timeout-established',
    ...LATER,
    check: notNegative,
  }),
  field('conntrack.tcpCloseWaitTimeout', 'duration', HOUR, {
    flag: 'conntrack-tcp-timeout-close-wait',
    ...LATER,
    check: notNegative,
  }),
  field('conntrack.tcpBeLiberal', 'bool', false, { flag: 'conntrack-tcp-be-liberal', ...LATER }),
  field('conntrack.udpTimeout', 'duration', 0, {
    flag: 'conntrack-udp-timeout',
    ...LATER,
    check: notNegative,
  }),
  field('conntrack.udpStreamTimeout', 'duration', 0, {
    flag: 'conntrack-udp-timeout-stream',
    ...LATER,
    check: notNegative,
  }),
]

const WINKERNEL: readonly Field[] = [
  field('winkernel.networkName', 'string', '', { flag: 'network-name', ...WINDOWS }),
  field('winkernel.sourceVip', 'string', '', { flag: 'source-vip', ...WINDOWS }),
  field('winkernel.enableDSR', 'bool', false, { flag: 'enable-dsr', ...WINDOWS }),
  field('winkernel.rootHnsEndpointName', 'string', '', { flag: 'root-hnsendpoint-name', ...WINDOWS }),
  field('winkernel.forwardHealthCheckVip', 'bool', false, { flag: 'forward-healthcheck-vip', ...WINDOWS }),
]

/** Every field of the file, with upstream's defaults (kubeproxy.config.k8s.io/v1alpha1, Kubernetes 1.36). */
export const FIELDS: readonly Field[] = [
  ...NODE,
  ...CLIENT,
  ...LOGGING,
  ...modeSection('iptables'),
  field('iptables.localhostNodePorts', 'bool', true, { flag: 'iptables-localhost-nodeports' }),
  ...modeSection('nftables'),
  ...IPVS,
  ...CONNTRACK,
  ...WINKERNEL,
]
