import type { ChildProcess, StdioOptions } from 'node:child_process'
import { existsSync } from 'node:fs'
import { runCommand, startCommand } from './command.ts'
import type { CommandOptions, CommandResult } from './command.ts'

/**
 * Network namespaces with names (`ip netns`): made, joined by veth pairs, addressed and deleted with as few processes
 * as `ip -batch` allows. Everything here works on the namespace names of the mount namespace it runs in: inside the
 * lab's sandbox that is a private directory, so nothing shows outside.
 */

/** One end of a veth pair. */
export interface VethEnd {
  readonly namespace: string
  /** At most 15 characters. */
  readonly name: string
}

/** How one namespace is to look inside; see {@link configureNamespace}. */
export interface NamespaceConfig {
  /**
   * `net/ipv4/ip_forward` → `1`; slashes, as in /proc/sys; `*` stands for every interface, `all` and `default`.
   * A parameter this kernel does not have is an error.
   */
  readonly sysctls?: Readonly<Record<string, string>>
  /** Like `sysctls`, but passed over where the kernel has no such parameter. */
  readonly optionalSysctls?: Readonly<Record<string, string>>
  /** Arguments of `ip`, one command a line, run in order: `addr add 10.0.0.1/24 dev eth0`. */
  readonly ip?: readonly string[]
}

/** Makes empty namespaces (loopback still down). If one cannot be made, those made before it are deleted again. */
export async function createNamespaces(names: readonly string[]): Promise<void> {
  const before = names.filter(namespaceExists)
  try {
    await ipBatch(names.map((name) => `netns add ${name}`))
  } catch (error) {
    await deleteNamespaces(names.filter((name) => !before.includes(name)))
    throw error
  }
}

/** Deletes namespaces; one that is not there is no error. Processes that still run inside keep it alive, without a name. */
export async function deleteNamespaces(names: readonly string[]): Promise<void> {
  const present = names.filter(namespaceExists)
  if (present.length === 0) return
  const input = present.map((name) => `netns del ${name}\n`).join('')
  try {
    await runCommand(['ip', '-force', '-batch', '-'], { input })
  } catch (error) {
    if (present.some(namespaceExists)) throw error // not when somebody else deleted one of them first
  }
}

export function namespaceExists(name: string): boolean {
  return existsSync(namespacePath(name))
}

/** The file that holds a namespace of this name open. */
export function namespacePath(name: string): string {
  return `/run/netns/${name}`
}

/** The `ip` command that makes a veth pair whose ends lie in two namespaces; for {@link ipBatch}. */
export function vethCommand(a: VethEnd, b: VethEnd): string {
  return `link add ${a.name} netns ${a.namespace} type veth peer name ${b.name} netns ${b.namespace}`
}

/** Runs `ip` commands, one a line, in order, in one process; stops at the first that fails. */
export async function ipBatch(
  lines: readonly string[],
  options: { readonly namespace?: string } = {},
): Promise<void> {
  if (lines.length === 0) return
  const where = options.namespace === undefined ? [] : ['-n', options.namespace]
  await runCommand(['ip', ...where, '-batch', '-'], { input: lines.map((line) => `${line}\n`).join('') })
}

/** Sets kernel parameters, then runs `ip` commands inside the namespace; one process tree, one fork each. */
export async function configureNamespace(name: string, config: NamespaceConfig): Promise<void> {
  const required = Object.entries(config.sysctls ?? {})
  const optional = Object.entries(config.optionalSysctls ?? {})
  if (required.length + optional.length === 0) {
    await ipBatch(config.ip ?? [], { namespace: name })
    return
  }
  const script = [
    'set -e',
    ...required.map(([key, value]) => `for f in /proc/sys/${key}; do echo '${value}' > "$f"; done`),
    ...optional.map(
      ([key, value]) => `for f in /proc/sys/${key}; do [ ! -w "$f" ] || echo '${value}' > "$f"; done`,
    ),
    "exec ip -batch - <<'END'",
    ...(config.ip ?? []),
    'END',
    '',
  ]
  await runIn(name, ['sh', '-s'], { input: script.join('\n') })
}

/** The command line that runs `argv` inside a namespace (with its own /sys, and /etc/netns/NAME bound over /etc). */
export function inNamespace(name: string, argv: readonly string[]): readonly string[] {
  return ['ip', 'netns', 'exec', name, ...argv]
}

/** Runs a program inside a namespace to its end. */
export function runIn(
  name: string,
  argv: readonly string[],
  options: CommandOptions = {},
): Promise<CommandResult> {
  return runCommand(inNamespace(name, argv), options)
}

/** Starts a program inside a namespace. `ip netns exec` replaces itself by it, so its pid is the program's own. */
export function spawnIn(
  name: string,
  argv: readonly string[],
  options: { readonly stdio: StdioOptions; readonly env?: NodeJS.ProcessEnv },
): ChildProcess {
  return startCommand(inNamespace(name, argv), options)
}

/** Parameters every namespace of a test network gets: addresses are usable at once (no duplicate detection, no autoconfiguration). */
export const QUIET_IPV6: Readonly<Record<string, string>> = {
  'net/ipv6/conf/*/accept_dad': '0',
  'net/ipv6/conf/*/accept_ra': '0',
  'net/ipv6/conf/*/router_solicitations': '0',
}

/** Parameters of a namespace that forwards like a Kubernetes node. Source checks are loose: replies of Services take other ways. */
export const FORWARDING: Readonly<Record<string, string>> = {
  'net/ipv4/ip_forward': '1',
  'net/ipv6/conf/*/forwarding': '1',
  'net/ipv4/conf/*/rp_filter': '2',
}
