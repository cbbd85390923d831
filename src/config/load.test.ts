import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { expect, test } from 'vitest'
import { ConfigError, UsageError } from '../shared/errors.ts'
import { defaultConfiguration, loadConfiguration, loadRunOptions } from './load.ts'
import { writeConfig } from './write.ts'

const INPUTS = resolve(import.meta.dirname, '../../test/cases/inputs')
const readText = (path: string): Promise<string> => readFile(path, 'utf8')
const HEADER = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n'
const fromText = (text: string) => loadConfiguration('kp.yaml', () => Promise.resolve(HEADER + text))
const fromFlags = (...argv: string[]) => loadRunOptions(argv, readText)

async function failure(promise: Promise<unknown>): Promise<Error> {
  const error = await promise.then(
    () => null,
    (reason: unknown) => reason,
  )
  if (!(error instanceof Error)) throw new Error('nothing failed')
  return error
}

async function problems(promise: Promise<unknown>): Promise<string[]> {
  const error = await failure(promise)
  expect(error).toBeInstanceOf(ConfigError)
  return error.message.split('\n')
}

test('without flags and file the defaults are upstream defaults', async () => {
  const { configuration, kernel } = await fromFlags()
  expect(kernel).toBe('linux')
  expect(configuration).toEqual(defaultConfiguration())
  expect(configuration).toMatchObject({
    healthzBindAddress: '0.0.0.0:10256',
    metricsBindAddress: '127.0.0.1:10249',
    detectLocalMode: 'ClusterCIDR',
    nodePortAddresses: [],
    configSyncPeriodMs: 900_000,
    nftables: { masqueradeBit: 14, masqueradeAll: false, syncPeriodMs: 30_000, minSyncPeriodMs: 1000 },
    clientConnection: { qps: 5, burst: 10, kubeconfig: '' },
  })
})

test('an empty mode runs nftables and says so; null and an empty flag mean the same', async () => {
  for (const loaded of [
    fromFlags(),
    fromFlags('--proxy-mode='),
    fromText('mode: null\n'),
    fromText('mode: ""\n'),
  ]) {
    const { configuration, warnings } = await loaded
    expect(configuration.mode).toBe('nftables')
    expect(warnings.join('\n')).toMatch(/no proxy mode is configured: using nftables/)
  }
})

test('every mode is taken by its exact name, in the file and as a flag, without any warning', async () => {
  for (const mode of ['userspace', 'iptables', 'ipvs', 'nftables', 'ebpf']) {
    expect((await fromFlags('--proxy-mode', mode)).configuration.mode).toBe(mode)
    const file = await fromText(`mode: ${mode}\n`)
    expect(file.configuration.mode).toBe(mode)
    expect(file.warnings).toEqual([])
  }
  expect((await fromText('mode: kernelspace\n')).configuration.mode).toBe('ebpf')
})

test('a mode that is almost right is refused with the value in quotes and the allowed names', async () => {
  for (const mode of [' ipvs', 'IPVS', 'iptables,ipvs', 'nft']) {
    const [file] = await problems(fromText(`mode: ${JSON.stringify(mode)}\n`))
    expect(file).toContain(
      `kp.yaml:3:7: mode: "${mode}" is no proxy mode; allowed are userspace, iptables, ipvs`,
    )
    const [flag] = await problems(fromFlags(`--proxy-mode=${mode}`))
    expect(flag).toContain(`--proxy-mode: mode: "${mode}" is no proxy mode`)
  }
  expect((await problems(fromText('mode: IPVS\n')))[0]).toContain('did you mean "ipvs"?')
})

test('unknown fields are warned about with their place and the field that was probably meant', async () => {
  const file = `${INPUTS}/B31/config-unknown.yaml`
  const { configuration, warnings } = await loadConfiguration(file, readText)
  expect(configuration.mode).toBe('nftables')
  expect(configuration.clusterCidrs).toEqual(['10.64.0.0/16'])
  const text = warnings.join('\n')
  for (const name of [
    '3:1: metadata',
    '6:1: resourceContainer',
    '7:1: udpIdleTimeout',
    '8:13: conntrack.max',
  ]) {
    expect(text).toContain(`config-unknown.yaml:${name}: is no field`)
  }
  expect((await fromText('nftables: {minSyncPriod: 2s}\n')).warnings.join()).toContain(
    'kp.yaml:3:12: nftables.minSyncPriod: is no field of KubeProxyConfiguration and is passed over (did you mean "minSyncPeriod"?)',
  )
})

test('a field given twice is warned about and its last value counts', async () => {
  const { configuration, warnings } = await loadConfiguration(`${INPUTS}/B31/config-dup.yaml`, readText)
  expect(configuration.mode).toBe('iptables')
  expect(warnings).toEqual([expect.stringContaining('config-dup.yaml:5:1: mode: is given more than once')])
})

test('a value of the wrong type, an unknown version and text that is no YAML are refused', async () => {
  const load = (name: string) => loadConfiguration(`${INPUTS}/B31/${name}`, readText)
  expect(await problems(load('config-badtype.yaml'))).toEqual([
    expect.stringMatching(
      /config-badtype\.yaml:4:20: nodePortAddresses: "127\.0\.0\.0\/8" is not a list of texts/,
    ),
  ])
  expect(await problems(load('config-badapi.yaml'))).toEqual([
    expect.stringMatching(
      /badapi\.yaml:1:13: apiVersion: "kubeproxy\.config\.k8s\.io\/v1beta9" is not known; it must be/,
    ),
  ])
  expect((await problems(load('config-tabs.yaml')))[0]).toMatch(/config-tabs\.yaml:3:1: not YAML: /)
  expect(await problems(loadConfiguration('e.yaml', () => Promise.resolve('# nothing\n')))).toEqual([
    expect.stringContaining('the file is empty'),
  ])
  expect((await problems(loadConfiguration('l.yaml', () => Promise.resolve('- a\n'))))[0]).toContain(
    'no mapping',
  )
})

test('everything that is wrong is reported at once', async () => {
  const found = await problems(
    fromText(
      [
        'mode: nftable',
        'clusterCIDR: 10.0.0.0/8,10.1.0.0/16',
        'nodePortAddresses: [primary, 10.0.0.0/8]',
        'nftables: {masqueradeBit: 32, syncPeriod: 5, minSyncPeriod: -1s}',
        'healthzBindAddress: localhost:1',
        'bindAddress: nowhere',
        'detectLocalMode: clustercidr',
        '',
      ].join('\n'),
    ),
  )
  expect(found).toHaveLength(9)
  expect(found.join('\n')).toMatch(/kp\.yaml:6:43: nftables\.syncPeriod: 5 is not a duration such as 30s/)
  expect(found.join('\n')).toMatch(/kp\.yaml:3:7: mode: "nftable" .*did you mean "nftables"/)
})

test('values that exclude each other are refused', async () => {
  expect(await problems(fromText('nftables: {syncPeriod: 1s, minSyncPeriod: 2s}\n'))).toEqual([
    'kp.yaml:3:43: nftables.minSyncPeriod: must not be longer than syncPeriod',
  ])
  expect(await problems(fromFlags('--detect-local-mode=BridgeInterface'))).toEqual([
    '--detect-local-mode: detectLocal.bridgeInterface: must be set for detectLocalMode BridgeInterface',
  ])
})

test('a file that cannot be read says which and why', async () => {
  expect((await failure(fromFlags('--config=/nonexistent/kp.yaml'))).message).toMatch(
    /^\/nonexistent\/kp\.yaml: cannot read the configuration: ENOENT/,
  )
})

test('flags reach their fields, also those that set more than one', async () => {
  const { configuration, kernel, master } = await fromFlags(
    '--proxy-mode=nftables',
    '--masquerade-all',
    '--iptables-sync-period=5s',
    '--iptables_min_sync_period',
    '500ms',
    '--iptables-masquerade-bit=20',
    '--cluster-cidr=10.128.0.0/9,fd00:10:128::/48',
    '--nodeport-addresses=10.0.0.0/8,192.168.0.0/16',
    '--nodeport-addresses=fd00::/8',
    '--detect-local-mode=InterfaceNamePrefix',
    '--pod-interface-name-prefix=veth',
    '--healthz-bind-address=[::]:1234',
    '--metrics-bind-address=',
    '--kubeconfig=/k',
    '--master=http://127.0.0.1:1',
    '--kernel=memory',
    '-v=4',
    '--logging-format=json',
  )
  expect([kernel, master]).toEqual(['memory', 'http://127.0.0.1:1'])
  expect(configuration).toMatchObject({
    nftables: { masqueradeAll: true, syncPeriodMs: 5000, minSyncPeriodMs: 500, masqueradeBit: 14 },
    iptables: { masqueradeAll: true, syncPeriodMs: 5000, masqueradeBit: 20 },
    clusterCidrs: ['10.128.0.0/9', 'fd00:10:128::/48'],
    nodePortAddresses: ['10.0.0.0/8', '192.168.0.0/16', 'fd00::/8'],
    detectLocalMode: 'InterfaceNamePrefix',
    detectLocal: { interfaceNamePrefix: 'veth' },
    healthzBindAddress: '[::]:1234',
    metricsBindAddress: '',
    clientConnection: { kubeconfig: '/k' },
    logging: { format: 'json', verbosity: 4 },
  })
})

test('wrong flags are a usage error that names all of them and what was probably meant', async () => {
  const error = await failure(
    fromFlags('--proxy-mod=nftables', '-x', 'word', '--masquerade-all=perhaps', '--master'),
  )
  expect(error).toBeInstanceOf(UsageError)
  expect(error.message.split('\n').slice(0, 5)).toEqual([
    'unknown flag "--proxy-mod" (did you mean "proxy-mode"?)',
    'unknown flag "-x"',
    'unexpected argument "word"',
    '--masquerade-all: "perhaps" is not true or false',
    '--master needs a value',
  ])
  expect(await failure(fromFlags('--kernel=windows'))).toBeInstanceOf(UsageError)
})

test('with --config the other flags are ignored and named, but for those that upstream obeys', async () => {
  const { configuration, warnings } = await loadRunOptions(
    [
      '--config=kp.yaml',
      '--proxy-mode=ipvs',
      '--cluster-cidr=10.0.0.0/8',
      '--hostname-override=n1',
      '-v',
      '3',
    ],
    () => Promise.resolve(`${HEADER}mode: nftables\nhostnameOverride: other\n`),
  )
  expect(configuration).toMatchObject({
    mode: 'nftables',
    clusterCidrs: [],
    hostnameOverride: 'n1',
    logging: { verbosity: 3 },
  })
  expect(warnings).toEqual(['--config is given, so these flags are ignored: --proxy-mode, --cluster-cidr'])
})

test('what is accepted without effect is said, unless it is the default', async () => {
  const { warnings } = await fromFlags(
    '--proxy-mode=nftables',
    '--conntrack-min=131072',
    '--oom-score-adj=0',
    '--log-json-split-stream',
  )
  expect(warnings).toEqual([
    '--oom-score-adj: oomScoreAdj: is accepted, but has no effect in this version',
    '--log-json-split-stream is accepted, but has no effect in this version',
  ])
})

test('the deprecated port flags still set and switch off the servers', async () => {
  const { configuration } = await fromFlags('--healthz-port=0', '--metrics-port=9')
  expect([configuration.healthzBindAddress, configuration.metricsBindAddress]).toEqual(['', '127.0.0.1:9'])
})

test('an IPv6 bind address moves the default servers to IPv6; a bare address gets the default port', async () => {
  expect((await fromText('bindAddress: "::"\n')).configuration).toMatchObject({
    healthzBindAddress: '[::]:10256',
    metricsBindAddress: '[::1]:10249',
  })
  const bare = await fromText('metricsBindAddress: 0.0.0.0\nhealthzBindAddress: ""\n')
  expect(bare.configuration).toMatchObject({
    metricsBindAddress: '0.0.0.0:10249',
    healthzBindAddress: '0.0.0.0:10256',
  })
})

test('a configuration that is written out loads again with the same effect', async () => {
  const first = await fromText(
    'mode: nftables\nclusterCIDR: 10.0.0.0/8\nnftables: {minSyncPeriod: 1h0m1.5s, syncPeriod: 2h}\n',
  )
  const text = await writeConfig(first)
  const second = await loadConfiguration('again.yaml', () => Promise.resolve(text))
  expect(second.configuration).toEqual(first.configuration)
  expect(second.warnings).toEqual([])
  expect(text).toContain('minSyncPeriod: 1h0m1.5s')
})

test('version and help do not ask for a valid configuration', async () => {
  expect((await fromFlags('--version', '--config=/nonexistent')).show).toBe('version')
  expect((await fromFlags('-h')).show).toBe('help')
})
