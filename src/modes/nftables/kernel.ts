import type { NftOperation, NftPort, NftTableEntry } from '../../kernel/nft/port.ts'
import type { NftSet, NftTableContents } from '../../kernel/nft/ruleset.ts'
import type { IpFamily } from '../../net/family.ts'
import { KernelError, UnsupportedError } from '../../shared/errors.ts'
import type { ApplyReport, Drift, Entry, Finding } from '../mode.ts'
import { createTable, differenceOf } from './change.ts'
import { driftOf } from './drift.ts'
import { TABLE } from './names.ts'
import type { NftablesRules } from './rules.ts'
import { contents, diff } from './rules.ts'

interface NftKernel {
  readonly nft: NftPort
}

const tableFamily = (family: IpFamily): 'ip' | 'ip6' => (family === 'IPv4' ? 'ip' : 'ip6')

/** What stands in the way of this mode, by trying it: rights, kernel parts, another owner of the table. */
export async function preflight({ nft }: NftKernel, family: IpFamily): Promise<readonly Finding[]> {
  try {
    const { fib, ownedTables } = await nft.features()
    const findings: Finding[] = []
    if (fib === false) findings.push(NO_FIB)
    const table = await findTable(nft, tableFamily(family))
    if (table?.owner === 'another') {
      const { message, fix } = ownedElsewhere(table)
      findings.push({ severity: 'blocker', what: message, fix })
    }
    if (ownedTables === false) findings.push(NOT_OWNED)
    return findings
  } catch (error) {
    if (error instanceof KernelError) return [blockerOf(error)]
    throw error
  }
}

const NO_FIB: Finding = {
  severity: 'blocker',
  what: 'This kernel has no nftables expression "fib", which tells the addresses of this node from others.',
  fix: 'Load the module nft_fib_inet, or use a kernel with CONFIG_NFT_FIB_INET.',
}

const NOT_OWNED: Finding = {
  severity: 'info',
  what: 'This kernel cannot protect the table from other programs: `nft flush ruleset` would remove it.',
  fix: 'Nothing has to be done: a change by somebody else is seen and mended at once. Linux 6.9 and later protect it.',
}

function blockerOf(error: KernelError): Finding {
  const noRights = error.errnoName === 'EPERM'
  return {
    severity: 'blocker',
    what: noRights ? 'This process may not change the packet filter.' : error.message,
    fix: noRights
      ? 'Run it as root, or give it CAP_NET_ADMIN.'
      : 'Load the module nf_tables, or use a kernel with CONFIG_NF_TABLES.',
  }
}

/**
 * Makes the kernel hold `to`. Knowing what is installed, only the difference is written; not knowing it, the table is
 * read and adopted, whoever wrote it: nothing is flushed, and clients with session affinity stay where they are. When
 * somebody else changed the table or the rule set meanwhile, it is read again and the rest written.
 *
 * @throws UnsupportedError NFT_TABLE_OWNED if another process owns the table.
 * @throws KernelError when the kernel refuses; then nothing has changed.
 */
export async function apply(
  { nft }: NftKernel,
  change: { from: NftablesRules | null; to: NftablesRules; entry: Entry },
): Promise<ApplyReport> {
  const start = performance.now()
  const { from, to, entry } = change
  const operations = await (from === null
    ? adopt(nft, to, entry)
    : advance(nft, from, to, entry).catch((error: unknown) => {
        if (isStale(error)) return null
        throw error
      }))
  const written = operations ?? (await adopt(nft, to, entry))
  return {
    full: from === null || operations === null,
    operations: written,
    durationMs: performance.now() - start,
  }
}

/** Writes the difference to what was installed before; null if the table is gone. */
async function advance(
  nft: NftPort,
  from: NftablesRules,
  to: NftablesRules,
  entry: Entry,
): Promise<number | null> {
  const table = await findTable(nft, to.family)
  if (table === null) return null
  refuseOwned(table)
  const operations = diff(from, to)
  return write(nft, to, table, await keepClients(nft, to, operations), entry)
}

/** How often a write is tried while others keep changing the rule set. */
const ATTEMPTS = 5

/** Reads what is there and writes the difference. */
async function adopt(nft: NftPort, to: NftablesRules, entry: Entry): Promise<number> {
  for (let attempt = 1; ; attempt++) {
    const expectGeneration = await nft.generation()
    const table = await findTable(nft, to.family)
    if (table !== null) refuseOwned(table)
    const present = table === null ? null : await nft.read(to.family, TABLE)
    try {
      if (table === null || present === null) return await create(nft, to, entry, expectGeneration)
      const operations = withClients(diff(present, to), present)
      return await write(nft, to, table, operations, entry, expectGeneration)
    } catch (error) {
      if (!isStale(error) || attempt >= ATTEMPTS) throw error
    }
  }
}

async function create(
  nft: NftPort,
  to: NftablesRules,
  entry: Entry,
  expectGeneration: number,
): Promise<number> {
  const operations = await creation(nft, to, entry)
  await nft.transaction(to.family, TABLE, operations, { expectGeneration })
  return operations.length
}

async function creation(nft: NftPort, to: NftablesRules, entry: Entry): Promise<readonly NftOperation[]> {
  const { ownedTables } = await nft.features()
  const wanted = contents(to)
  const table = { ...wanted.table, dormant: entry === 'standby', owned: ownedTables === true }
  return createTable({ ...wanted, table })
}

/**
 * Writes to a table that is there; the number of operations. Its flags change in a transaction of their own, because
 * the kernel refuses to hook chains and to change `dormant` at once: on the way to standby before the rest, else after.
 */
async function write(
  nft: NftPort,
  to: NftablesRules,
  table: NftTableEntry,
  operations: readonly NftOperation[],
  entry: Entry,
  expectGeneration?: number,
): Promise<number> {
  const dormant = entry === 'standby'
  // The kernel changes no flag of a table that has an owner: it can only be made anew.
  if (dormant && !table.dormant && table.owner === 'this port') return remake(nft, to, entry)
  // Only a table that was made to be owned can be owned again when its owner has gone.
  const own = table.persistent && table.owner === 'nobody' && !dormant
  const flags: readonly NftOperation[] =
    table.dormant === dormant && !own
      ? []
      : [{ op: 'add table', table: { ...to.base.table, dormant, owned: table.persistent } }]
  const steps = dormant ? [flags, operations] : [operations, flags]
  let guard = expectGeneration === undefined ? {} : { expectGeneration }
  for (const step of steps.filter(({ length }) => length > 0)) {
    await commit(nft, to, step, guard)
    guard = {}
  }
  return flags.length + operations.length
}

/** Puts a table in the place of the one that is there, in one transaction, with the clients that stick to endpoints. */
async function remake(nft: NftPort, to: NftablesRules, entry: Entry): Promise<number> {
  const present = await nft.read(to.family, TABLE)
  const creating = await creation(nft, to, entry)
  const operations = [
    { op: 'delete table' } as const,
    ...creating,
    ...(present === null ? [] : clientsFor(dynamicSets(creating), present)),
  ]
  await nft.transaction(to.family, TABLE, operations)
  return operations.length
}

/**
 * One transaction. Linux before 6.2 holds on to a chain until a transaction that removed the last element pointing to it
 * is over (EBUSY); there, chains and sets that nothing uses any more go in a second one.
 */
async function commit(
  nft: NftPort,
  to: NftablesRules,
  operations: readonly NftOperation[],
  guard: { readonly expectGeneration?: number },
): Promise<void> {
  const isRemoval = ({ op }: NftOperation): boolean => op === 'delete chain'
  try {
    await nft.transaction(to.family, TABLE, operations, guard)
  } catch (error) {
    if (!isErrno(error, 'EBUSY') || !operations.some(isRemoval)) throw error
    await nft.transaction(
      to.family,
      TABLE,
      operations.filter((operation) => !isRemoval(operation)),
      guard,
    )
    await nft.transaction(to.family, TABLE, operations.filter(isRemoval))
  }
}

/** Errors that mean: the table is not what it was taken for. */
function isStale(error: unknown): boolean {
  return isErrno(error, 'ERESTART', 'EEXIST', 'ENOENT', 'ENFILE', 'EBUSY')
}

function isErrno(error: unknown, ...names: readonly string[]): boolean {
  return error instanceof KernelError && names.includes(error.errnoName)
}

/** Reads the table only if a set of clients is made anew, which a changed affinity time-out does. */
async function keepClients(
  nft: NftPort,
  to: NftablesRules,
  operations: readonly NftOperation[],
): Promise<readonly NftOperation[]> {
  if (remadeClientSets(operations).length === 0) return operations
  const present = await nft.read(to.family, TABLE)
  return present === null ? operations : withClients(operations, present)
}

/** Puts the clients of sets that are made anew into the new ones. */
function withClients(
  operations: readonly NftOperation[],
  present: NftTableContents,
): readonly NftOperation[] {
  const remade = remadeClientSets(operations)
  return remade.length === 0 ? operations : [...operations, ...clientsFor(remade, present)]
}

function remadeClientSets(operations: readonly NftOperation[]): readonly NftSet[] {
  const going = operations.flatMap((operation) => (operation.op === 'delete set' ? [operation.set] : []))
  const deleted = new Set(going)
  return dynamicSets(operations).filter(({ name }) => deleted.has(name))
}

function dynamicSets(operations: readonly NftOperation[]): readonly NftSet[] {
  return operations.flatMap((operation) =>
    operation.op === 'add set' && operation.set.dynamic ? [operation.set] : [],
  )
}

/** The clients that are in sets now, for no longer than the sets' time-out will be. */
function clientsFor(sets: readonly NftSet[], present: NftTableContents): readonly NftOperation[] {
  return sets.flatMap((set) =>
    (present.elements.get(set.name) ?? []).map((client) => {
      const remaining = client.timeoutMs ?? Number.POSITIVE_INFINITY
      const element = { ...client, timeoutMs: Math.min(remaining, (set.timeoutSeconds ?? 0) * 1000) }
      return { op: 'add element', element } as const
    }),
  )
}

/** Reads the table back and lists what is not as wanted; clients with affinity are none of it. */
export async function verify({ nft }: NftKernel, want: NftablesRules): Promise<readonly Drift[]> {
  const present = await nft.read(want.family, TABLE)
  if (present === null) {
    const object = `table ${want.family} ${TABLE}`
    return [{ object, kind: 'missing', detail: 'Somebody removed it, or it was never written.' }]
  }
  return driftOf(differenceOf(present, contents(want)), want.family)
}

/** Calls back when somebody else changed this mode's table, or may have while events were lost. */
export function watchDrift(
  { nft }: NftKernel,
  family: IpFamily,
  signal: AbortSignal,
  onDrift: () => void,
): void {
  const ours = tableFamily(family)
  nft.watch(signal, (change) => {
    if (change === 'resync') onDrift()
    else if (change.family === ours && change.table === TABLE) onDrift()
  })
}

/** Removes the table of one family, if there is one. */
export async function cleanup({ nft }: NftKernel, family: IpFamily): Promise<void> {
  const table = await findTable(nft, tableFamily(family))
  if (table === null) return
  refuseOwned(table)
  try {
    await nft.transaction(tableFamily(family), TABLE, [{ op: 'delete table' }])
  } catch (error) {
    if (!isErrno(error, 'ENOENT')) throw error
  }
}

async function findTable(nft: NftPort, family: string): Promise<NftTableEntry | null> {
  const tables = await nft.tables()
  return tables.find((table) => table.family === family && table.name === TABLE) ?? null
}

function refuseOwned(table: NftTableEntry): void {
  if (table.owner === 'another') throw ownedElsewhere(table)
}

function ownedElsewhere(table: NftTableEntry): UnsupportedError {
  return new UnsupportedError(
    'NFT_TABLE_OWNED',
    `Changing the table ${table.family} ${table.name}`,
    'a table that no other running process owns',
    'Stop the other proxy on this node first; `nft list tables` and `ss -f netlink` help to find it.',
  )
}
