import { closeSync, openSync } from 'node:fs'
import { KernelError, UnsupportedError } from '../../shared/errors.ts'
import { ERRNO, errnoName } from './errno.ts'
import { setNetworkNamespace } from './libc.ts'

/**
 * Runs one synchronous call with this thread in the network namespace at `path` (such as /run/netns/x), and comes back.
 * What the call opens (a socket) stays in that namespace. Null = the process's own: just calls.
 *
 * Nothing may happen in between: a thread started meanwhile would stay in the other namespace for good. So the call must be
 * a single quick one, and if there is no way back the process ends: working on in the wrong namespace would change
 * the rules of somebody else.
 */
export function inNamespace<T>(path: string | null, call: () => T): T {
  if (path === null) return call()
  const home = openSync('/proc/thread-self/ns/net', 'r')
  try {
    const target = openTarget(path)
    try {
      const entered = setNetworkNamespace(target)
      if (entered < 0) throw cannotEnter(path, -entered)
      try {
        return call()
      } finally {
        if (setNetworkNamespace(home) < 0) process.abort()
      }
    } finally {
      closeSync(target)
    }
  } finally {
    closeSync(home)
  }
}

function openTarget(path: string): number {
  try {
    return openSync(path, 'r')
  } catch (error) {
    const errno = error instanceof Error && 'errno' in error ? Math.abs(Number(error.errno)) : 0
    throw cannotEnter(path, errno)
  }
}

function cannotEnter(path: string, errno: number): Error {
  if (errno === ERRNO.EPERM) {
    return new UnsupportedError(
      'NO_SYS_ADMIN',
      `Entering the network namespace ${path}`,
      'CAP_SYS_ADMIN',
      'Run as root, or inside that namespace (ip netns exec).',
    )
  }
  const name = errnoName(errno)
  return new KernelError(`enter network namespace ${path}`, errno, name, `cannot enter ${path}: ${name}`)
}
