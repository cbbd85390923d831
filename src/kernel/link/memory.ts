import type { Link, LinkAddress, LinkPort } from './port.ts'

/** Interfaces and addresses in memory. A fresh one has `lo` with 127.0.0.1 and ::1. */
export interface MemoryLink extends LinkPort {
  /** Replaces what is there and tells the watchers. */
  set(links: readonly Link[], addresses: readonly LinkAddress[]): void
}

const LOOPBACK = { index: 1, name: 'lo', up: true } as const

export function openMemoryLink(): MemoryLink {
  let links: readonly Link[] = [LOOPBACK]
  let addresses: readonly LinkAddress[] = [
    { link: 'lo', ip: '127.0.0.1' as LinkAddress['ip'], prefixBits: 8, scope: 'host' },
    { link: 'lo', ip: '::1' as LinkAddress['ip'], prefixBits: 128, scope: 'host' },
  ]
  const watchers = new Set<() => void>()
  return {
    links: async () => links,
    addresses: async () => addresses,
    watch(signal, onChange) {
      if (signal.aborted) return
      watchers.add(onChange)
      signal.addEventListener('abort', () => watchers.delete(onChange), { once: true })
    },
    set(newLinks, newAddresses) {
      links = newLinks
      addresses = newAddresses
      for (const watcher of watchers) setImmediate(() => watchers.has(watcher) && watcher())
    },
    [Symbol.asyncDispose]: async () => watchers.clear(),
  }
}
