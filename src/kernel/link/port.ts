import type { Ip } from '../../net/ip.ts'

export interface Link {
  readonly index: number
  readonly name: string
  readonly up: boolean
}

export interface LinkAddress {
  readonly link: string
  readonly ip: Ip
  readonly prefixBits: number
  /** The kernel's scope: `host` for loopback addresses. */
  readonly scope: 'global' | 'site' | 'link' | 'host' | 'nowhere'
}

/** Interfaces and addresses of one network namespace (rtnetlink). */
export interface LinkPort extends AsyncDisposable {
  links(): Promise<readonly Link[]>
  addresses(): Promise<readonly LinkAddress[]>
  /** Calls back (debounced by nobody) when an interface or address comes or goes, until the signal aborts. */
  watch(signal: AbortSignal, onChange: () => void): void
}
