import { ERRNO } from '../ffi/errno.ts'
import { kernelError } from '../netlink/errors.ts'
import { MemoryTable, Refusal, refuse } from './memory-table.ts'
import { stepError } from './outcome.ts'
import type { NftChange, NftFeatures, NftOperation, NftPort, NftTableEntry } from './port.ts'
import type { NftFamily, NftTable, NftTableContents } from './ruleset.ts'

type Undo = () => void
type Watcher = (port: number, changes: readonly Omit<NftChange, 'own'>[]) => void

/**
 * nf_tables of one network namespace in memory: refuses what the kernel refuses, with the same errno, and applies a
 * transaction whole or not at all. It judges the rules' references, not whether a packet can pass through them.
 */
export class MemoryNftNamespace {
  readonly tables = new Map<string, MemoryTable>()
  readonly watchers = new Set<Watcher>()
  readonly now: () => number
  generation = 1
  #ports = 0

  /** `now` in milliseconds is what timeouts of elements go by. */
  constructor(now: () => number = () => performance.now()) {
    this.now = now
  }

  /** A port of its own, as if by another process. */
  open(): NftPort {
    return new MemoryNft(this, ++this.#ports)
  }
}

const keyOf = (family: string, name: string): string => `${family} ${name}`

class MemoryNft implements NftPort {
  readonly #namespace: MemoryNftNamespace
  readonly #port: number
  readonly #end = new AbortController()

  constructor(namespace: MemoryNftNamespace, port: number) {
    this.#namespace = namespace
    this.#port = port
  }

  async features(): Promise<NftFeatures> {
    return { ownedTables: true, fib: true }
  }

  async transaction(
    family: NftFamily,
    table: string,
    operations: readonly NftOperation[],
    options: { readonly expectGeneration?: number } = {},
  ): Promise<void> {
    const namespace = this.#namespace
    if (operations.length === 0) return
    if (options.expectGeneration !== undefined && options.expectGeneration !== namespace.generation) {
      throw kernelError(`change table ${family} ${table}`, ERRNO.ERESTART)
    }
    const undo: Undo[] = []
    for (const operation of operations) {
      try {
        this.#apply(family, table, operation, undo)
      } catch (error) {
        for (const step of undo.toReversed()) step()
        if (error instanceof Refusal) throw stepError(family, table, operation, error.errno, null)
        throw error
      }
    }
    namespace.generation = (namespace.generation + 1) >>> 0 || 1
    const changes = operations.map((operation) => changeOf(family, table, operation, this.#port))
    for (const watcher of namespace.watchers) watcher(this.#port, changes)
  }

  async read(family: NftFamily, table: string): Promise<NftTableContents | null> {
    const found = this.#namespace.tables.get(keyOf(family, table))
    if (found === undefined) return null
    const elements = [...found.sets.keys()].map((name) => [name, found.elementsOf(name)] as const)
    return {
      table: found.table,
      chains: new Map(found.chains),
      rules: new Map([...found.rules].filter(([, rules]) => rules.length > 0).map(([k, v]) => [k, [...v]])),
      sets: new Map(found.sets),
      elements: new Map(elements.filter(([, list]) => list.length > 0)),
    }
  }

  async tables(): Promise<readonly NftTableEntry[]> {
    return [...this.#namespace.tables.values()].map(({ table, owner }) => ({
      family: table.family,
      name: table.name,
      dormant: table.dormant,
      persistent: table.owned,
      owner: owner === null ? 'nobody' : owner === this.#port ? 'this port' : 'another',
    }))
  }

  async generation(): Promise<number> {
    return this.#namespace.generation
  }

  watch(signal: AbortSignal, onChange: (change: NftChange | 'resync') => void): void {
    const until = AbortSignal.any([signal, this.#end.signal])
    if (until.aborted) return
    const { watchers } = this.#namespace
    const watcher: Watcher = (port, changes) => {
      if (port === this.#port) return
      // As from the kernel: later, and not within the writer's own call.
      setImmediate(() => {
        for (const change of changes) if (!until.aborted) onChange(change)
      })
    }
    watchers.add(watcher)
    until.addEventListener('abort', () => watchers.delete(watcher), { once: true })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#end.abort()
    for (const table of this.#namespace.tables.values()) if (table.owner === this.#port) table.owner = null
  }

  #apply(family: NftFamily, name: string, operation: NftOperation, undo: Undo[]): void {
    const { tables } = this.#namespace
    const key = keyOf(family, name)
    const found = tables.get(key)
    if (found !== undefined && found.owner !== null && found.owner !== this.#port) refuse(ERRNO.EPERM)
    if (operation.op === 'add table') {
      if (found !== undefined) return this.#updateTable(found, operation.table, undo)
      const made = new MemoryTable({ ...operation.table, family, name }, this.#namespace.now)
      if (operation.table.owned && !operation.table.dormant) made.owner = this.#port
      tables.set(key, made)
      undo.push(() => tables.delete(key))
      return
    }
    if (found === undefined) refuse(ERRNO.ENOENT)
    if (operation.op === 'delete table') {
      tables.delete(key)
      undo.push(() => tables.set(key, found))
      return
    }
    applyWithin(found, operation, undo)
  }

  /**
   * Ownership cannot be taken of a table made without it, nor given up; an orphan can be adopted. A table that has an
   * owner cannot be put to sleep.
   */
  #updateTable(found: MemoryTable, wanted: NftTable, undo: Undo[]): void {
    if (found.table.owned !== wanted.owned) refuse(ERRNO.EOPNOTSUPP)
    if (found.owner !== null && found.table.dormant !== wanted.dormant) refuse(ERRNO.EOPNOTSUPP)
    const before = { table: found.table, owner: found.owner }
    undo.push(() => Object.assign(found, before))
    found.table = { ...found.table, dormant: wanted.dormant }
    if (wanted.owned && !wanted.dormant) found.owner = this.#port
  }
}

type Within = Exclude<NftOperation, { readonly op: 'add table' | 'delete table' }>

function applyWithin(table: MemoryTable, operation: Within, undo: Undo[]): void {
  switch (operation.op) {
    case 'add chain':
      return table.addChain(operation.chain, undo)
    case 'flush chain':
      return table.flushChain(operation.chain, undo)
    case 'delete chain':
      return table.deleteChain(operation.chain, undo)
    case 'add rule':
      return table.addRule(operation.rule, undo)
    case 'add set':
      return table.addSet(operation.set, undo)
    case 'flush set':
      return table.flushSet(operation.set, undo)
    case 'delete set':
      return table.deleteSet(operation.set, undo)
    case 'add element':
      return table.addElement(operation.element, undo)
    case 'delete element':
      return table.deleteElement(operation.element, undo)
  }
}

const KIND_OF: Readonly<Record<NftOperation['op'], readonly [NftChange['what'], NftChange['how']]>> = {
  'add table': ['table', 'new'],
  'delete table': ['table', 'deleted'],
  'add chain': ['chain', 'new'],
  'flush chain': ['rule', 'deleted'],
  'delete chain': ['chain', 'deleted'],
  'add rule': ['rule', 'new'],
  'add set': ['set', 'new'],
  'flush set': ['element', 'deleted'],
  'delete set': ['set', 'deleted'],
  'add element': ['element', 'new'],
  'delete element': ['element', 'deleted'],
}

function changeOf(
  family: NftFamily,
  table: string,
  operation: NftOperation,
  writer: number,
): Omit<NftChange, 'own'> {
  const [what, how] = KIND_OF[operation.op]
  return { family, table, what, how, writer }
}
