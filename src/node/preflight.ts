import type { Kernel } from '../kernel/kernel.ts'
import type { Finding, ProxyMode } from '../modes/mode.ts'
import type { IpFamily } from '../net/family.ts'
import { IP_FAMILIES } from '../net/family.ts'
import { UnsupportedError } from '../shared/errors.ts'
import type { Logger } from '../shared/logger.ts'

/**
 * The IP families that the mode can serve on this kernel, by trying. One is enough (it is said which is missing and why);
 * with none this throws an UnsupportedError MODE_UNUSABLE that names what is missing. Never falls back to another mode.
 */
export async function usableFamilies<Rules>(
  mode: ProxyMode<Rules>,
  kernel: Kernel,
  log: Logger,
): Promise<readonly IpFamily[]> {
  const usable: IpFamily[] = []
  const blockers: Finding[] = []
  for (const family of IP_FAMILIES) {
    const findings = await mode.preflight(kernel, family)
    const blocking = findings.filter(({ severity }) => severity === 'blocker')
    for (const { severity, what, fix } of findings) {
      if (severity === 'warning') log.warning(what, { ipFamily: family, fix })
      else if (severity === 'info') log.v(1)?.info(what, { ipFamily: family, fix })
    }
    if (blocking.length === 0) usable.push(family)
    blockers.push(...blocking)
    if (blocking.length > 0)
      log
        .v(1)
        ?.info('This IP family cannot be served', { ipFamily: family, why: blocking.map(({ what }) => what) })
  }
  if (usable.length > 0) {
    for (const { what, fix } of usable.length < IP_FAMILIES.length ? blockers : []) {
      log.warning('Serving one IP family only', { ipFamily: usable[0], why: what, fix })
    }
    return usable
  }
  const whats = [...new Set(blockers.map(({ what }) => what))]
  const fixes = [...new Set(blockers.map(({ fix }) => fix))]
  throw new UnsupportedError(
    'MODE_UNUSABLE',
    `Proxy mode ${mode.name}`,
    whats.join('; '),
    `${fixes.join(' ')} Nothing was changed.`,
  )
}
