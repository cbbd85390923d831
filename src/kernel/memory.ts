import type { MemoryConntrack } from './conntrack/memory.ts'
import { openMemoryConntrack } from './conntrack/memory.ts'
import type { Kernel } from './kernel.ts'
import type { MemoryLink } from './link/memory.ts'
import { openMemoryLink } from './link/memory.ts'
import { MemoryNftNamespace } from './nft/memory.ts'
import { openMemorySysctl } from './sysctl/memory.ts'

/** A kernel in memory, with what tests and demonstrations need beside the ports. */
export interface MemoryKernel extends Kernel, AsyncDisposable {
  readonly conntrack: MemoryConntrack
  readonly link: MemoryLink
  /** Open more ports of it to act as other processes. */
  readonly nftNamespace: MemoryNftNamespace
}

/** A fresh network namespace in memory: needs no privileges, runs on any system, forwards no packets. */
export function openMemoryKernel(): MemoryKernel {
  const nftNamespace = new MemoryNftNamespace()
  const [nft, conntrack, link] = [nftNamespace.open(), openMemoryConntrack(), openMemoryLink()]
  return {
    nft,
    nftNamespace,
    conntrack,
    link,
    sysctl: openMemorySysctl(),
    async [Symbol.asyncDispose]() {
      for (const port of [nft, conntrack, link]) await port[Symbol.asyncDispose]()
    },
  }
}
