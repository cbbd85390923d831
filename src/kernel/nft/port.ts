import type {
  NftChain,
  NftElement,
  NftFamily,
  NftRule,
  NftSet,
  NftTable,
  NftTableContents,
} from './ruleset.ts'

/** One step of a transaction on one table. The order matters and is kept. */
export type NftOperation =
  /** Creates the table, or with the same flags does nothing; sets its flags (dormant, owned) if it exists. */
  | { readonly op: 'add table'; readonly table: NftTable }
  | { readonly op: 'delete table' }
  | { readonly op: 'add chain'; readonly chain: NftChain }
  | { readonly op: 'flush chain'; readonly chain: string }
  /** The chain must be unreferenced; its rules go with it. */
  | { readonly op: 'delete chain'; readonly chain: string }
  /** Appends. */
  | { readonly op: 'add rule'; readonly rule: NftRule }
  | { readonly op: 'add set'; readonly set: NftSet }
  | { readonly op: 'flush set'; readonly set: string }
  /** The set must be unreferenced; its elements go with it. */
  | { readonly op: 'delete set'; readonly set: string }
  /** EEXIST if the key exists with other data: delete it first in the same transaction. */
  | { readonly op: 'add element'; readonly element: NftElement }
  /** ENOENT if the key is not there. */
  | { readonly op: 'delete element'; readonly element: NftElement }

/** A change of one table by somebody else. */
export interface NftChange {
  readonly family: NftFamily
  readonly table: string
  readonly what: 'table' | 'chain' | 'rule' | 'set' | 'element'
  readonly how: 'new' | 'deleted'
  /** Process id of the writer as the kernel tells it (netlink port id); 0 = the kernel itself. */
  readonly writer: number
}

/** What this kernel can do, probed functionally: yes, no, or could not tell. */
export interface NftFeatures {
  /** Table flags owner + persist: other writers get EPERM, `nft flush ruleset` passes over the table. */
  readonly ownedTables: boolean | null
  /** The `fib` expression. */
  readonly fib: boolean | null
}

/** A table as the kernel lists it. */
export interface NftTableEntry {
  readonly family: NftFamily | string
  readonly name: string
  readonly dormant: boolean
  /** Flag persist: only a table made with it can be owned again when its owner is gone. */
  readonly persistent: boolean
  /** Whose netlink socket alone may change it. */
  readonly owner: 'nobody' | 'this port' | 'another'
}

/**
 * nf_tables of one network namespace.
 *
 * - {@link transaction} is atomic: all operations apply at one instant for packets, or none does and it rejects with a
 *   KernelError whose `operation` names the failing step (`add element service-ips …`), errno and the kernel's words.
 * - Only one transaction is in flight at a time; later calls queue.
 * - The generation counts commits by anybody; a transaction given a stale `expectGeneration` is refused with ERESTART.
 */
export interface NftPort extends AsyncDisposable {
  features(): Promise<NftFeatures>
  transaction(
    family: NftFamily,
    table: string,
    operations: readonly NftOperation[],
    options?: { readonly expectGeneration?: number },
  ): Promise<void>
  /** Everything in the table, consistently (a change during the read repeats it); null if there is none. */
  read(family: NftFamily, table: string): Promise<NftTableContents | null>
  /** All tables with their flags, without what is in them: cheap enough to ask before each write. */
  tables(): Promise<readonly NftTableEntry[]>
  /** The ruleset generation now. */
  generation(): Promise<number>
  /**
   * Calls back for every change by anybody but this port, in order, until the signal aborts. `resync` means events were lost
   * (ENOBUFS): read again.
   */
  watch(signal: AbortSignal, onChange: (change: NftChange | 'resync') => void): void
}
