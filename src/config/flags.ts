import { UsageError } from '../shared/errors.ts'
import type { Field, FieldKind } from './fields.ts'
import { FIELDS } from './fields.ts'
import { didYouMean } from '../shared/suggest.ts'
import type { FieldValue, Given, Values } from './values.ts'
import { fromFlag } from './values.ts'

/** Flags that stand for no field of the file; all but the deprecated ports are obeyed beside `--config`. */
const OTHER_FLAGS = {
  config: 'string',
  'write-config-to': 'string',
  cleanup: 'bool',
  'init-only': 'bool',
  master: 'string',
  kernel: 'string',
  version: 'string',
  help: 'bool',
  'healthz-port': 'int',
  'metrics-port': 'int',
} as const satisfies Record<string, FieldKind>

/** Logging flags of kube-proxy that are accepted and do nothing here. */
const IDLE_FLAGS: Readonly<Record<string, FieldKind>> = {
  'log-text-split-stream': 'bool',
  'log-text-info-buffer-size': 'string',
  'log-json-split-stream': 'bool',
  'log-json-info-buffer-size': 'string',
}

export type OtherFlag = keyof typeof OTHER_FLAGS

/** What the command line says. */
export interface CommandLine {
  /** Values of the fields that flags set. */
  readonly values: Values
  /** Flags that were given and are ignored when there is a `--config`. */
  readonly configBacked: readonly string[]
  readonly other: Readonly<Partial<Record<OtherFlag, FieldValue>>>
  /** Given, accepted, without effect. */
  readonly idle: readonly string[]
}

interface Flag {
  readonly name: string
  readonly kind: FieldKind
  readonly fields: readonly Field[]
}

function knownFlags(): ReadonlyMap<string, Flag> {
  const flags = new Map<string, Flag>()
  for (const field of FIELDS) {
    if (field.flag === null) continue
    const before = flags.get(field.flag)?.fields ?? []
    flags.set(field.flag, { name: field.flag, kind: field.kind, fields: [...before, field] })
  }
  for (const [name, kind] of Object.entries({ ...OTHER_FLAGS, ...IDLE_FLAGS }))
    flags.set(name, { name, kind, fields: [] })
  return flags
}

/**
 * Reads kube-proxy's flags: `--flag value`, `--flag=value`, `--flag` for true, `_` for `-`, `-v 2`. Lists may be given
 * more than once. Throws a UsageError that names everything that is wrong.
 */
export function parseFlags(argv: readonly string[]): CommandLine {
  const flags = knownFlags()
  const values = new Map<string, Given>()
  const other: Partial<Record<OtherFlag, FieldValue>> = {}
  const configBacked = new Set<string>()
  const idle = new Set<string>()
  const problems: string[] = []

  for (const { flag, text, problem } of words(argv, flags)) {
    if (flag === null) {
      problems.push(problem)
      continue
    }
    const converted = flag.name === 'version' ? { ok: true as const, value: text } : fromFlag(flag.kind, text)
    if (!converted.ok) {
      problems.push(`--${flag.name}: ${converted.why}`)
      continue
    }
    if (Object.hasOwn(IDLE_FLAGS, flag.name)) idle.add(flag.name)
    else if (flag.fields.length === 0) other[flag.name as OtherFlag] = converted.value
    for (const field of flag.fields) {
      setValue(values, field, flag.name, converted.value)
      if (!field.flagSurvivesConfig) configBacked.add(flag.name)
    }
  }
  if (problems.length > 0)
    throw new UsageError(`${problems.join('\n')}\nRun "switchback run --help" for the flags.`)
  return { values, configBacked: [...configBacked], other, idle: [...idle] }
}

/** Every flag with its default, one a line. */
export function flagHelp(): string {
  const lines = [...knownFlags().values()]
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .map(({ name, kind, fields }) => {
      const standing = fields[0]?.standing ?? 'used'
      const paths = fields.map(({ path }) => path).join(', ')
      const note = standing === 'used' ? '' : ' (accepted, without effect)'
      return `  ${`${name === 'v' ? '-v' : `--${name}`} ${kind === 'bool' ? '' : kind}`.padEnd(44)} ${paths}${note}`.trimEnd()
    })
  return `usage: switchback run [flags | --config FILE] [--kernel=linux|memory]\n\n${lines.join('\n')}\n`
}

function setValue(values: Map<string, Given>, field: Field, flag: string, value: FieldValue): void {
  const before = values.get(field.path)?.value
  const joined =
    Array.isArray(before) && Array.isArray(value) ? [...(before as string[]), ...(value as string[])] : value
  const origin = { file: flag === 'v' ? '-v' : `--${flag}`, line: null, column: null }
  values.set(field.path, { value: joined, origin })
}

type Word =
  | { readonly flag: Flag; readonly text: string; readonly problem: '' }
  | { readonly flag: null; readonly text: ''; readonly problem: string }

/** Cuts the arguments into flags with their text. */
function* words(argv: readonly string[], flags: ReadonlyMap<string, Flag>): Generator<Word> {
  const bad = (problem: string): Word => ({ flag: null, text: '', problem })
  for (let i = 0; i < argv.length; i++) {
    const word = argv[i]!
    const match = /^(--?)([^=]+)(?:=([\s\S]*))?$/.exec(word)
    if (match === null || word === '--') {
      yield bad(`unexpected argument "${word}"`)
      continue
    }
    const name = flagName(match[1]!, match[2]!)
    const flag = flags.get(name.name)
    const inline = match[3] ?? name.rest
    if (flag === undefined) {
      yield bad(`unknown flag "${word.split('=')[0]}"${didYouMean(name.name, flags.keys())}`)
    } else if (inline !== undefined) {
      yield { flag, text: inline, problem: '' }
    } else if (flag.kind === 'bool' || flag.name === 'version') {
      yield { flag, text: 'true', problem: '' }
    } else if (i + 1 < argv.length) {
      yield { flag, text: argv[++i]!, problem: '' }
    } else {
      yield bad(`--${flag.name} needs a value`)
    }
  }
}

/** `-v4` and `-h` are the only short forms; underscores may stand for dashes, as in every Kubernetes program. */
function flagName(dashes: string, text: string): { readonly name: string; readonly rest?: string } {
  if (dashes === '-' && /^v\d+$/.test(text)) return { name: 'v', rest: text.slice(1) }
  if (dashes === '-' && text === 'h') return { name: 'help' }
  if (dashes === '-' && text !== 'v') return { name: `-${text}` }
  return { name: text.replaceAll('_', '-') }
}
