import { KernelError } from '../../shared/errors.ts'
import { ERRNO } from '../ffi/errno.ts'
import { noNetAdmin } from '../netlink/errors.ts'
import { NETLINK_NETFILTER, NetlinkSocket } from '../netlink/socket.ts'
import { encodeBatch } from './batch.ts'
import { decodeTableEntry } from './decode-objects.ts'
import { probeFeatures } from './features.ts'
import { noNfTables, outcomeOf } from './outcome.ts'
import type { NftChange, NftFeatures, NftOperation, NftPort, NftTableEntry } from './port.ts'
import { readTable } from './read.ts'
import { dumpTables, findSet, readGeneration } from './requests.ts'
import type { NftFamily, NftSet, NftTableContents } from './ruleset.ts'
import { watchNft } from './watch.ts'

export interface NftOptions {
  /** Path of the network namespace to work in (such as /run/netns/x); default: the process's own. */
  readonly netns?: string | null
}

/** Batches up to this size are sent in the event loop's thread: they take less time than changing threads. */
const SYNCHRONOUS_BYTES = 128 << 10
/** The kernel copies a batch into the socket's send buffer whole. */
const SEND_BUFFER = (1 << 30) - 1
/** Room for the errors of a whole batch that went wrong. */
const RECEIVE_BUFFER = 64 << 20

/**
 * nf_tables of a network namespace over netlink. Rejects with UnsupportedError: NO_NET_ADMIN, NO_NF_TABLES. Tables that
 * the port owns are free again once it is disposed of (they stay, being persistent).
 */
export async function openNft(options: NftOptions = {}): Promise<NftPort> {
  const netns = options.netns ?? null
  const writer = NetlinkSocket.open({
    protocol: NETLINK_NETFILTER,
    netns,
    sendBuffer: SEND_BUFFER,
    receiveBuffer: RECEIVE_BUFFER,
  })
  try {
    const reader = NetlinkSocket.open({ protocol: NETLINK_NETFILTER, netns, receiveBuffer: 1 << 20 })
    const port = new LinuxNft(netns, writer, reader)
    await port.generation().catch((error: unknown) => {
      reader.close()
      throw unavailable(error)
    })
    return port
  } catch (error) {
    writer.close()
    throw error
  }
}

function unavailable(error: unknown): unknown {
  if (!(error instanceof KernelError)) return error
  if (error.errno === ERRNO.EPERM) return noNetAdmin('nf_tables', error)
  return error.errno === ERRNO.EINVAL || error.errno === ERRNO.EOPNOTSUPP ? noNfTables(error) : error
}

class LinuxNft implements NftPort {
  readonly #netns: string | null
  readonly #writer: NetlinkSocket
  readonly #reader: NetlinkSocket
  readonly #watches = new AbortController()
  #writes: Promise<unknown> = Promise.resolve()
  #reads: Promise<unknown> = Promise.resolve()
  #features: NftFeatures | null = null
  /** Shapes of sets by family, table and name, as of a generation: what else would tell the encoder the key's types? */
  #sets = new Map<string, NftSet>()
  #setsGeneration = -1

  constructor(netns: string | null, writer: NetlinkSocket, reader: NetlinkSocket) {
    this.#netns = netns
    this.#writer = writer
    this.#reader = reader
  }

  features(): Promise<NftFeatures> {
    return this.#queueWrite(async () => (this.#features ??= probeFeatures(this.#writer)))
  }

  transaction(
    family: NftFamily,
    table: string,
    operations: readonly NftOperation[],
    options: { readonly expectGeneration?: number } = {},
  ): Promise<void> {
    if (operations.length === 0) return Promise.resolve()
    return this.#queueWrite(() =>
      this.#transaction(family, table, operations, options.expectGeneration ?? null),
    )
  }

  read(family: NftFamily, table: string): Promise<NftTableContents | null> {
    return this.#queueRead(() => readTable(this.#reader, family, table))
  }

  tables(): Promise<readonly NftTableEntry[]> {
    return this.#queueRead(async () => {
      const messages = await dumpTables(this.#reader)
      return messages
        .map(({ body }) => decodeTableEntry(body, this.#writer.port))
        .filter((entry) => entry !== null)
    })
  }

  generation(): Promise<number> {
    return this.#queueRead(async () => readGeneration(this.#reader))
  }

  watch(signal: AbortSignal, onChange: (change: NftChange | 'resync') => void): void {
    watchNft(this.#netns, this.#writer.port, AbortSignal.any([signal, this.#watches.signal]), onChange)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#watches.abort()
    await Promise.all([this.#writes, this.#reads])
    this.#writer.close()
    this.#reader.close()
  }

  async #transaction(
    family: NftFamily,
    table: string,
    operations: readonly NftOperation[],
    expected: number | null,
  ): Promise<void> {
    const generation = expected ?? readGeneration(this.#writer)
    if (generation !== this.#setsGeneration) this.#sets.clear()
    const canOwn = operations.some(({ op }) => op === 'add table') && this.#canOwn()
    const sequence = this.#writer.sequence(operations.length * 4 + 2)
    const shapes = await this.#shapes(family, table, operations)
    const batch = encodeBatch({
      family,
      table,
      operations,
      canOwn,
      generation: expected,
      sequence,
      setOf: (name) => shapes.get(name) ?? null,
    })
    this.#writer.drain()
    if (batch.bytes.length <= SYNCHRONOUS_BYTES) this.#writer.send(batch.bytes)
    else await this.#writer.sendAsync(batch.bytes)
    const { datagrams, overrun } = this.#answers()
    const error = outcomeOf({ batch, sequence, family, table, operations }, datagrams, overrun)
    if (error !== null) {
      this.#setsGeneration = -1
      throw error
    }
    this.#remember(family, table, operations, shapes)
    this.#setsGeneration = nextGeneration(generation)
  }

  #canOwn(): boolean {
    this.#features ??= probeFeatures(this.#writer)
    return this.#features.ownedTables === true
  }

  #answers(): { readonly datagrams: readonly Buffer[]; readonly overrun: boolean } {
    const datagrams: Buffer[] = []
    let overrun = false
    for (;;) {
      const datagram = this.#writer.receive()
      if (datagram === null) return { datagrams, overrun }
      if (datagram === 'overrun') overrun = true
      else datagrams.push(datagram)
    }
  }

  /** The shapes of the sets that the operations use without making them. */
  async #shapes(
    family: NftFamily,
    table: string,
    operations: readonly NftOperation[],
  ): Promise<ReadonlyMap<string, NftSet>> {
    const shapes = new Map<string, NftSet>()
    for (const name of setsUsed(operations)) {
      const key = `${family} ${table} ${name}`
      let set = this.#sets.get(key)
      if (set === undefined) {
        const found = findSet(this.#writer, family, table, name)
        if (found === null) continue
        set = found
        this.#sets.set(key, set)
      }
      shapes.set(name, set)
    }
    return shapes
  }

  #remember(
    family: NftFamily,
    table: string,
    operations: readonly NftOperation[],
    shapes: ReadonlyMap<string, NftSet>,
  ): void {
    for (const [name, set] of shapes) this.#sets.set(`${family} ${table} ${name}`, set)
    for (const operation of operations) {
      if (operation.op === 'add set')
        this.#sets.set(`${family} ${table} ${operation.set.name}`, operation.set)
      else if (operation.op === 'delete set') this.#sets.delete(`${family} ${table} ${operation.set}`)
      else if (operation.op === 'delete table') {
        for (const key of this.#sets.keys()) if (key.startsWith(`${family} ${table} `)) this.#sets.delete(key)
      }
    }
  }

  #queueWrite<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#writes.then(work)
    this.#writes = result.catch(() => undefined)
    return result
  }

  #queueRead<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#reads.then(work)
    this.#reads = result.catch(() => undefined)
    return result
  }
}

/** The counter is 32 bits wide and never 0. */
const nextGeneration = (generation: number): number => (generation + 1) >>> 0 || 1

function setsUsed(operations: readonly NftOperation[]): ReadonlySet<string> {
  const made = new Set<string>()
  const used = new Set<string>()
  for (const operation of operations) {
    if (operation.op === 'add set') made.add(operation.set.name)
    else if (operation.op === 'add element' || operation.op === 'delete element') {
      if (!made.has(operation.element.set)) used.add(operation.element.set)
    } else if (operation.op === 'add rule') {
      for (const statement of operation.rule.statements) {
        if ('dnat' in statement && 'map' in statement.dnat && !made.has(statement.dnat.map)) {
          used.add(statement.dnat.map)
        }
      }
    }
  }
  return used
}
