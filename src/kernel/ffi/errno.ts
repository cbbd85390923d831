import { constants } from 'node:os'

/** Linux errnos that Node.js has no constant for (asm-generic/errno.h). */
const MORE: Readonly<Record<string, number>> = { ERESTART: 85, ESHUTDOWN: 108, ENOTUNIQ: 76, EUCLEAN: 117 }

/** Linux errno numbers by name. */
export const ERRNO: Readonly<Record<ErrnoName, number>> = { ...MORE, ...constants.errno } as Record<
  ErrnoName,
  number
>

export type ErrnoName = keyof typeof constants.errno | 'ERESTART' | 'ESHUTDOWN' | 'ENOTUNIQ' | 'EUCLEAN'

const NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(ERRNO).map(([name, number]) => [number, name] as const),
)

/** `ENOENT` for 2; `E999` for a number without a name. */
export function errnoName(errno: number): string {
  // Two names share a number; this is the one the kernel's own documentation uses.
  if (errno === ERRNO.EAGAIN) return 'EAGAIN'
  if (errno === ERRNO.EOPNOTSUPP) return 'EOPNOTSUPP'
  return NAMES.get(errno) ?? `E${errno}`
}
