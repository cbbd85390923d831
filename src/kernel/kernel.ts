import type { ConntrackPort } from './conntrack/port.ts'
import type { LinkPort } from './link/port.ts'
import type { NftPort } from './nft/port.ts'
import type { SysctlPort } from './sysctl/port.ts'

/** Every port to the kernel of one network namespace, by name. Modes say which they need. */
export interface Kernel {
  readonly nft: NftPort
  readonly conntrack: ConntrackPort
  readonly sysctl: SysctlPort
  readonly link: LinkPort
}

export type PortName = keyof Kernel
