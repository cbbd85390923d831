import type { PortName } from '../kernel/kernel.ts'
import { UnsupportedError, UsageError } from '../shared/errors.ts'
import { didYouMean } from '../shared/suggest.ts'
import type { ModeName, ProxyMode } from './mode.ts'
import { nftables } from './nftables/index.ts'

/** A mode whose kind of rules is not known: hand its rules only to the mode they came from. */
export type AnyMode = ProxyMode<unknown, PortName>

/** Every mode that can run, by its name in the configuration. */
export const MODES = { nftables } as const satisfies Partial<Record<ModeName, AnyMode>>

/** Every name a mode may be asked for by. */
const NAMES: ReadonlyMap<string, ModeName> = new Map([
  ['userspace', 'userspace'],
  ['iptables', 'iptables'],
  ['ipvs', 'ipvs'],
  ['nftables', 'nftables'],
  ['ebpf', 'ebpf'],
  // Upstream's word for the one mode of Windows.
  ['kernelspace', 'ebpf'],
])

/**
 * The mode of a name. There is no fall-back to another mode: a node that runs a mode nobody asked for is worse than one
 * that says why it cannot start.
 *
 * @throws UsageError if there is no such mode.
 * @throws UnsupportedError MODE_NOT_BUILT if this version cannot run it yet.
 */
export function modeByName(name: string): AnyMode {
  const known = NAMES.get(name)
  if (known === undefined) {
    throw new UsageError(
      `"${name}" is no proxy mode; there are ${[...NAMES.keys()].join(', ')}${didYouMean(name, NAMES.keys())}`,
    )
  }
  const mode: AnyMode | undefined = (MODES as Partial<Record<ModeName, AnyMode>>)[known]
  if (mode !== undefined) return mode
  throw new UnsupportedError(
    'MODE_NOT_BUILT',
    `Proxy mode ${known}`,
    'a later version of Switchback',
    `Set mode to ${Object.keys(MODES).join(' or ')}.`,
  )
}
