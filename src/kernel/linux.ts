import { openConntrack } from './conntrack/linux.ts'
import type { Kernel } from './kernel.ts'
import { openLink } from './link/linux.ts'
import { openNft } from './nft/linux.ts'
import { openSysctl } from './sysctl/linux.ts'

export interface LinuxKernelOptions {
  /** Path of the network namespace to work in (such as /run/netns/x); default: the process's own. */
  readonly netns?: string | null
}

/**
 * The real kernel. Rejects with UnsupportedError where it cannot be used: NO_NET_ADMIN, NO_NF_TABLES, NO_NETLINK. Dispose
 * of it to close its sockets; what was written stays in the kernel.
 */
export async function openLinuxKernel(options: LinuxKernelOptions = {}): Promise<Kernel & AsyncDisposable> {
  const opened: AsyncDisposable[] = []
  const dispose = async (): Promise<void> => {
    for (const port of opened.toReversed()) await port[Symbol.asyncDispose]()
  }
  const keep = <T extends AsyncDisposable>(port: T): T => {
    opened.push(port)
    return port
  }
  try {
    return {
      nft: keep(await openNft(options)),
      conntrack: keep(await openConntrack(options)),
      link: keep(await openLink(options)),
      sysctl: openSysctl(options),
      [Symbol.asyncDispose]: dispose,
    }
  } catch (error) {
    await dispose()
    throw error
  }
}
