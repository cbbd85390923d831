import { MODES } from '../modes/registry.ts'
import type { AnyMode } from '../modes/registry.ts'
import { IP_FAMILIES } from '../net/family.ts'
import { UsageError } from '../shared/errors.ts'
import type { Io } from './io.ts'
import { openKernel } from './open-kernel.ts'

/**
 * `switchback cleanup`: removes what the proxy modes own in this network namespace, ours and upstream's, and nothing else.
 * Traffic to Services ends with it; refused while an agent owns the rules. Doing it twice is no error.
 */
export async function run(argv: readonly string[], io: Io): Promise<number> {
  if (argv.length > 0) throw new UsageError(`cleanup takes no arguments, but was given "${argv.join(' ')}"`)
  await using kernel = await openKernel('linux')
  for (const mode of Object.values(MODES) as AnyMode[]) {
    for (const family of IP_FAMILIES) await mode.cleanup(kernel, family)
    io.stderr.write(`Nothing of ${mode.name} mode is left here.\n`)
  }
  return 0
}
