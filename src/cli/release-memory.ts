import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/**
 * Keeps V8's space for young objects at the size it has: it would grow to three times 16 MiB while the lists of a large
 * cluster are read, and keep them. Measured at 10 000 Services: 20 MiB less at the peak, and less CPU time, not more.
 */
export function limitYoungSpace(): void {
  setFlagsFromString('--semi-space-growth-factor=1')
}

/**
 * Has V8 collect everything and give the pages back. The lists and the first sync of a large cluster leave garbage
 * for which an idle process keeps the pages for ever (10 000 Services: 60 MiB); a collection takes some 50 ms.
 */
export function releaseMemory(): void {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  setFlagsFromString('--no-expose-gc')
  collect()
}
