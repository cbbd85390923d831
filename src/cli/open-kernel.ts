import type { Kernel } from '../kernel/kernel.ts'

/** Opens every port to the kernel of this network namespace, or to one in memory that no packet passes. */
export async function openKernel(kind: 'linux' | 'memory'): Promise<Kernel & AsyncDisposable> {
  if (kind === 'memory') return (await import('../kernel/memory.ts')).openMemoryKernel()
  return (await import('../kernel/linux.ts')).openLinuxKernel()
}
