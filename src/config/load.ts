import type { ConfigProblem } from '../shared/errors.ts'
import { ConfigError, UsageError, formatProblem } from '../shared/errors.ts'
import { DEFAULT_MODE, assemble, validate } from './assemble.ts'
import type { ProxyConfiguration } from './configuration.ts'
import { FIELDS } from './fields.ts'
import { parseConfigFile } from './file.ts'
import type { CommandLine } from './flags.ts'
import { parseFlags } from './flags.ts'
import type { Given, Values } from './values.ts'

/** Reads a file as text; rejects as node:fs does. Injected, so that this room touches no disk. */
export type ReadText = (path: string) => Promise<string>

/** A usable configuration and what to say about it: one warning a line, for the log. */
export interface LoadedConfiguration {
  readonly configuration: ProxyConfiguration
  readonly warnings: readonly string[]
  /** What was given, by field path: for writing it out again. */
  readonly values: Values
}

/** Everything `switchback run` was told. */
export interface RunOptions extends LoadedConfiguration {
  readonly kernel: 'linux' | 'memory'
  /** `--master`: address of the API server; overrides the kubeconfig's. Empty if not given. */
  readonly master: string
  /** `--config`; empty if not given. */
  readonly configFile: string
  readonly writeConfigTo: string
  readonly cleanup: boolean
  readonly initOnly: boolean
  /** `--version`, `--help`: say so and end. */
  readonly show: 'version' | 'help' | null
}

/** Reads the command line and, where `--config` is given, the file. Throws UsageError or ConfigError. */
export async function loadRunOptions(argv: readonly string[], readText: ReadText): Promise<RunOptions> {
  const line = parseFlags(argv)
  const { other } = line
  const kernel = other.kernel ?? 'linux'
  if (kernel !== 'linux' && kernel !== 'memory') {
    throw new UsageError(`--kernel: "${String(kernel)}" is not allowed; it must be linux or memory`)
  }
  const configFile = (other.config as string | undefined) ?? ''
  const show =
    other.help === true ? 'help' : other.version !== undefined && other.version !== 'false' ? 'version' : null
  const loaded =
    show === null && configFile !== '' ? await fromFile(configFile, line, readText) : fromLine(line)
  return {
    ...loaded,
    kernel,
    configFile,
    master: (other.master as string | undefined) ?? '',
    writeConfigTo: (other['write-config-to'] as string | undefined) ?? '',
    cleanup: other.cleanup === true,
    initOnly: other['init-only'] === true,
    show,
  }
}

/** Reads a KubeProxyConfiguration file alone, as `compile --config` does. */
export async function loadConfiguration(file: string, readText: ReadText): Promise<LoadedConfiguration> {
  return fromFile(file, parseFlags([]), readText)
}

/** Upstream's defaults. */
export function defaultConfiguration(): ProxyConfiguration {
  return assemble(new Map())
}

async function fromFile(file: string, line: CommandLine, readText: ReadText): Promise<LoadedConfiguration> {
  const parsed = await parseConfigFile(await read(file, readText), file)
  const values = new Map(parsed.values)
  for (const field of FIELDS) {
    const given = field.flagSurvivesConfig ? line.values.get(field.path) : undefined
    if (given !== undefined) values.set(field.path, given)
  }
  const loaded = finish(values, parsed.problems)
  const ignored = line.configBacked.map((name) => `--${name}`).join(', ')
  return {
    ...loaded,
    warnings: [
      ...parsed.warnings.map(formatProblem),
      ...(ignored === '' ? [] : [`--config is given, so these flags are ignored: ${ignored}`]),
      ...loaded.warnings,
      ...idleWarnings(line),
    ],
  }
}

function fromLine(line: CommandLine): LoadedConfiguration {
  const values = new Map(line.values)
  const warnings: string[] = []
  for (const [flag, path, host] of [
    ['healthz-port', 'healthzBindAddress', '0.0.0.0'],
    ['metrics-port', 'metricsBindAddress', '127.0.0.1'],
  ] as const) {
    const port = line.other[flag]
    if (typeof port !== 'number') continue
    const origin = { file: `--${flag}`, line: null, column: null }
    values.set(path, { value: port === 0 ? '' : `${host}:${port}`, origin })
    warnings.push(`--${flag} is deprecated; use --${flag.replace('-port', '-bind-address')}`)
  }
  const loaded = finish(values, [])
  return { ...loaded, warnings: [...warnings, ...loaded.warnings, ...idleWarnings(line)] }
}

function finish(values: ReadonlyMap<string, Given>, before: readonly ConfigProblem[]): LoadedConfiguration {
  const problems = [...before, ...validate(values)].toSorted((a, b) => (a.line ?? 0) - (b.line ?? 0))
  if (problems.length > 0) throw new ConfigError('CONFIG_INVALID', problems)
  const configuration = assemble(values)
  return { configuration, values, warnings: [...modeWarnings(values), ...fieldWarnings(values)] }
}

function modeWarnings(values: Values): string[] {
  const mode = values.get('mode')?.value ?? ''
  if (mode === '') {
    return [
      `no proxy mode is configured: using ${DEFAULT_MODE}. kube-proxy's own default is iptables; set mode to choose one`,
    ]
  }
  return mode === 'kernelspace'
    ? ['mode kernelspace means ebpf on Linux; kube-proxy knows it on Windows only']
    : []
}

/** Says of each field that has no effect here that it has none, unless it says what holds anyway. */
function fieldWarnings(values: Values): string[] {
  return FIELDS.flatMap((field) => {
    const given = values.get(field.path)
    if (given === undefined || field.standing === 'used') return []
    if (JSON.stringify(given.value) === JSON.stringify(field.fallback)) return []
    const why =
      field.standing === 'windows' ? 'is for Windows nodes' : 'is accepted, but has no effect in this version'
    return [formatProblem({ ...given.origin, path: field.path, message: why })]
  })
}

function idleWarnings(line: CommandLine): string[] {
  return line.idle.map((name) => `--${name} is accepted, but has no effect in this version`)
}

async function read(file: string, readText: ReadText): Promise<string> {
  try {
    return await readText(file)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    const message = `cannot read the configuration: ${why}. Check the path given to --config`
    throw new ConfigError('CONFIG_UNREADABLE', [{ file, line: null, column: null, path: '', message }], {
      cause: error,
    })
  }
}
