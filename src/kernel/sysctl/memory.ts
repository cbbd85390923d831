import { ERRNO } from '../ffi/errno.ts'
import { kernelError } from '../netlink/errors.ts'
import { sysctlPath } from './name.ts'
import type { SysctlPort } from './port.ts'

/** Parameters that a fresh network namespace has, as far as proxies look at them. */
const FRESH: Readonly<Record<string, string>> = {
  'net/ipv4/ip_forward': '0',
  'net/ipv4/conf/all/route_localnet': '0',
  'net/ipv4/conf/all/arp_ignore': '0',
  'net/ipv4/conf/all/arp_announce': '0',
  'net/ipv4/conf/all/rp_filter': '0',
  'net/ipv6/conf/all/forwarding': '0',
  'net/ipv4/ip_local_port_range': '32768\t60999',
  'net/netfilter/nf_conntrack_max': '262144',
  'net/netfilter/nf_conntrack_count': '0',
  'net/netfilter/nf_conntrack_tcp_timeout_established': '432000',
  'net/netfilter/nf_conntrack_tcp_timeout_close_wait': '60',
  'net/netfilter/nf_conntrack_tcp_be_liberal': '0',
  'net/netfilter/nf_conntrack_udp_timeout': '30',
  'net/netfilter/nf_conntrack_udp_timeout_stream': '120',
}

/** Kernel parameters in memory: those of a fresh namespace, or the ones given. */
export function openMemorySysctl(initial: Readonly<Record<string, string>> = FRESH): SysctlPort {
  const values = new Map(Object.entries(initial).map(([name, value]) => [sysctlPath(name), value]))
  return {
    read: async (name) => values.get(sysctlPath(name)) ?? null,
    write: async (name, value) => {
      const path = sysctlPath(name)
      if (!values.has(path)) throw kernelError(`set sysctl ${name} to ${value}`, ERRNO.ENOENT)
      values.set(path, value)
    },
  }
}
