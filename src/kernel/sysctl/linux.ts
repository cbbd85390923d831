import { readFileSync, writeFileSync } from 'node:fs'
import { KernelError } from '../../shared/errors.ts'

import { inNamespace } from '../ffi/namespace.ts'
import { kernelError } from '../netlink/errors.ts'
import { sysctlPath } from './name.ts'
import type { SysctlPort } from './port.ts'

/**
 * Kernel parameters through /proc/sys. Those below `net` are of the network namespace of whoever opens them, so that
 * `netns` (a path such as /run/netns/x) is entered for the moment of reading or writing.
 */
export function openSysctl(options: { readonly netns?: string | null } = {}): SysctlPort {
  const netns = options.netns ?? null
  return {
    async read(name) {
      try {
        const text = inNamespace(netns, () => readFileSync(`/proc/sys/${sysctlPath(name)}`, 'utf8'))
        return text.replace(/\n$/, '')
      } catch (error) {
        const refusal = asRefusal(`read sysctl ${name}`, error)
        if (refusal instanceof KernelError && refusal.errnoName === 'ENOENT') return null
        throw refusal
      }
    },
    async write(name, value) {
      try {
        inNamespace(netns, () => writeFileSync(`/proc/sys/${sysctlPath(name)}`, value, { flag: 'r+' }))
      } catch (error) {
        throw asRefusal(`set sysctl ${name} to ${value}`, error)
      }
    },
  }
}

function asRefusal(operation: string, error: unknown): unknown {
  if (!(error instanceof Error) || !('errno' in error) || typeof error.errno !== 'number') return error
  if (error instanceof KernelError) return error
  const errno = Math.abs(error.errno)
  return kernelError(operation, errno, { cause: error })
}
