import type { ErrorDetails } from '../../shared/errors.ts'
import { KernelError, UnsupportedError } from '../../shared/errors.ts'
import { errnoName } from '../ffi/errno.ts'

/** The error for a refused operation, in the words of the product. */
export function kernelError(
  operation: string,
  errno: number,
  options: ErrorDetails & { readonly extack?: string | null } = {},
): KernelError {
  const name = errnoName(errno)
  const words = options.extack ? `${name} (${options.extack})` : name
  return new KernelError(operation, errno, name, `the kernel refused to ${operation}: ${words}`, options)
}

/** What to say when the kernel answers EPERM because the process may not administer the network. */
export function noNetAdmin(what: string, cause: unknown): UnsupportedError {
  return new UnsupportedError(
    'NO_NET_ADMIN',
    what,
    'CAP_NET_ADMIN in its network namespace',
    'Run as root or give the container the NET_ADMIN capability.',
    { cause },
  )
}
