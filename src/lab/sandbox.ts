import { readFileSync } from 'node:fs'
import { CommandError, UnsupportedError } from '../shared/errors.ts'
import { runCommand } from './command.ts'

/**
 * A sandbox is a process tree in mount, network and PID namespaces of its own (and a user namespace, for whoever is
 * not root). It sees the machine's files, but has a /run of its own: the names of network namespaces stay private,
 * and when its first process ends the kernel ends all others and takes every namespace down with them.
 */
export interface SandboxOptions {
  /** A directory that stays visible inside under the same path, also if it lies beneath /run. */
  readonly keep?: string
  /** Files bound over others inside: [file, over]. Both must exist. */
  readonly binds?: readonly (readonly [string, string])[]
  /** True: in a user namespace where the caller is root. */
  readonly userNamespace: boolean
}

const SET_UP = `set -e
if [ -n "$1" ]; then exec 9<"$1"; fi
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/netns /run/lock
if [ -n "$1" ]; then
  mkdir -p "$1"
  mount --no-canonicalize --bind /proc/self/fd/9 "$1"
  exec 9<&-
fi
shift
while [ "$1" != "--" ]; do mount --bind "$1" "$2"; shift 2; done
shift
exec "$@"`

/**
 * The command line that starts `argv` as the first process of a sandbox. The process it starts (`unshare`) stays
 * outside as the parent; when either of the two ends, the sandbox ends.
 */
export function sandboxArgv(argv: readonly string[], options: SandboxOptions): readonly string[] {
  return [
    'unshare',
    ...(options.userNamespace ? ['--user', '--map-root-user'] : []),
    '--mount',
    '--net',
    '--pid',
    '--fork',
    '--kill-child',
    '--mount-proc',
    'sh',
    '-c',
    SET_UP,
    'sandbox',
    options.keep ?? '',
    ...(options.binds ?? []).flat(),
    '--',
    ...argv,
  ]
}

/** Finds out by trying which kind of sandbox works here, or rejects with an UnsupportedError that says what forbids it. */
export async function probeSandbox(): Promise<{ readonly userNamespace: boolean }> {
  const isRoot = process.getuid?.() === 0
  let refusal = ''
  for (const userNamespace of isRoot ? [false, true] : [true]) {
    try {
      await runCommand(sandboxArgv(['ip', 'netns', 'add', 'probe'], { userNamespace }), { timeoutMs: 10_000 })
      return { userNamespace }
    } catch (error) {
      if (!(error instanceof CommandError)) throw error
      refusal = error.stderr.trim() || error.message
    }
  }
  throw explainRefusal(isRoot, refusal, readSysctl)
}

function readSysctl(name: string): string | null {
  try {
    return readFileSync(`/proc/sys/${name}`, 'utf8').trim()
  } catch {
    return null
  }
}

/** What forbids namespaces here, in words: the parameter to change where one is to blame, else the program's own words. */
export function explainRefusal(
  isRoot: boolean,
  refusal: string,
  sysctl: (name: string) => string | null,
): UnsupportedError {
  const refuse = (needs: string, fix: string): UnsupportedError =>
    new UnsupportedError('LAB_SANDBOX', 'the lab', needs, `${fix} The refusal was: ${refusal}`)
  if (/ENOENT|not found/.test(refusal)) {
    return refuse(
      'the programs unshare, mount and ip',
      'Install the Debian packages util-linux, mount and iproute2.',
    )
  }
  if (sysctl('user/max_user_namespaces') === '0') {
    return refuse(
      'user namespaces (user.max_user_namespaces is 0)',
      'Run as root "sysctl -w user.max_user_namespaces=10000", or run the lab as root.',
    )
  }
  if (!isRoot && sysctl('kernel/unprivileged_userns_clone') === '0') {
    return refuse(
      'user namespaces for ordinary users (kernel.unprivileged_userns_clone is 0)',
      'Run as root "sysctl -w kernel.unprivileged_userns_clone=1", or run the lab as root.',
    )
  }
  if (!isRoot && sysctl('kernel/apparmor_restrict_unprivileged_userns') === '1') {
    return refuse(
      'user namespaces with capabilities (kernel.apparmor_restrict_unprivileged_userns is 1)',
      'Run as root "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0", or run the lab as root.',
    )
  }
  return refuse(
    isRoot ? 'CAP_SYS_ADMIN, or user namespaces' : 'user namespaces with a fresh /proc',
    isRoot
      ? 'In a container, start it with "--privileged".'
      : 'Run the lab as root; in a container, start it with "--privileged".',
  )
}
