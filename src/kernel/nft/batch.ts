import { NLM_F_ACK, NLM_F_REQUEST } from '../netlink/request.ts'
import { NetlinkWriter } from '../netlink/writer.ts'
import type { AnonymousSet } from './compile-rule.ts'
import { compileRule } from './compile-rule.ts'
import type { ElementShape } from './encode-elements.ts'
import { writeAnyKey, writeElement } from './encode-elements.ts'
import { anonymousName, writeAnonymousSet, writeNamedSet } from './encode-set.ts'
import { writeExpressions } from './expressions.ts'
import type { NftOperation } from './port.ts'
import type { NftBaseChain, NftChain, NftElement, NftFamily, NftRule, NftSet, NftTable } from './ruleset.ts'
import { commentEntry, encodeUserData } from './userdata.ts'
import {
  CHAIN,
  ELEM_LIST,
  FAMILY_NUMBER,
  HOOK,
  HOOK_NUMBER,
  MSG,
  NFNL_BATCH_BEGIN,
  NFNL_BATCH_END,
  NFNL_BATCH_GENID,
  NFNL_SUBSYS_NFTABLES,
  NLM_F_APPEND,
  NLM_F_CREATE,
  RULE,
  SET,
  TABLE,
  TABLE_FLAG,
} from './wire.ts'

/** Elements go into messages of about this size: an attribute's length has 16 bits. */
const ELEMENTS_BYTES = 65_000

export interface BatchInput {
  readonly family: NftFamily
  readonly table: string
  readonly operations: readonly NftOperation[]
  /** Shapes of sets that the batch itself does not make; null if there is none: the kernel is left to say so. */
  setOf(name: string): NftSet | null
  /** The kernel has table ownership that outlives the owner's socket. */
  readonly canOwn: boolean
  /** The generation that the batch applies to; null = any. */
  readonly generation: number | null
  /** Sequence number of the first message. */
  readonly sequence: number
}

/** Which operation a message (by its distance from the first) carries out. */
export interface BatchMessage {
  readonly operation: number
  /** In messages of elements: the operation of each list member. */
  readonly members: readonly number[] | null
}

export interface Batch {
  readonly bytes: Buffer
  /** By sequence number minus the batch's first; null = begin or end. */
  readonly messages: readonly (BatchMessage | null)[]
}

/** Turns operations into one atomic batch. Pure; throws TypeError or RangeError on what cannot be expressed. */
export function encodeBatch(input: BatchInput): Batch {
  const encoder = new BatchEncoder(input)
  return encoder.encode()
}

class BatchEncoder {
  readonly #input: BatchInput
  readonly #writer: NetlinkWriter
  readonly #messages: (BatchMessage | null)[] = []
  readonly #made = new Map<string, NftSet>()
  #lastSetId = 0

  constructor(input: BatchInput) {
    this.#input = input
    this.#writer = new NetlinkWriter(input.operations.length > 1000 ? 1 << 20 : 1 << 14)
  }

  encode(): Batch {
    const { operations, generation } = this.#input
    this.#control(NFNL_BATCH_BEGIN, () => {
      if (generation !== null) this.#writer.u32(NFNL_BATCH_GENID, generation)
    })
    for (let i = 0; i < operations.length;) i = this.#operation(operations, i)
    this.#control(NFNL_BATCH_END, () => undefined)
    return { bytes: this.#writer.bytes(), messages: this.#messages }
  }

  /** Encodes the operation at `i` (and elements after it that fit into its message); returns the next index. */
  #operation(operations: readonly NftOperation[], i: number): number {
    const operation = operations[i]!
    const last = i === operations.length - 1
    switch (operation.op) {
      case 'add element':
      case 'delete element':
        return this.#elements(operations, i, operation.op)
      case 'add rule':
        this.#rule(operation.rule, i, last)
        return i + 1
      default: {
        const [type, flags] = MESSAGE_OF[operation.op]
        this.#message(type, flags, i, last, () => this.#body(operation))
        return i + 1
      }
    }
  }

  #body(operation: NftOperation): void {
    const { table } = this.#input
    switch (operation.op) {
      case 'add table':
        return this.#table(operation.table)
      case 'delete table':
        return this.#writer.text(TABLE.NAME, table)
      case 'add chain':
        return this.#chain(operation.chain)
      case 'delete chain':
        this.#writer.text(CHAIN.TABLE, table)
        return this.#writer.text(CHAIN.NAME, operation.chain)
      case 'flush chain':
        this.#writer.text(RULE.TABLE, table)
        return this.#writer.text(RULE.CHAIN, operation.chain)
      case 'add set':
        this.#made.set(operation.set.name, operation.set)
        this.#writer.text(SET.TABLE, table)
        return writeNamedSet(this.#writer, operation.set, ++this.#lastSetId)
      case 'flush set':
        this.#writer.text(ELEM_LIST.TABLE, table)
        return this.#writer.text(ELEM_LIST.SET, operation.set)
      case 'delete set':
        this.#writer.text(SET.TABLE, table)
        return this.#writer.text(SET.NAME, operation.set)
      default:
        throw new TypeError(`unexpected ${operation.op}`)
    }
  }

  #table(table: NftTable): void {
    const owner = table.owned && this.#input.canOwn ? ownerFlags(table) : 0
    this.#writer.text(TABLE.NAME, this.#input.table)
    this.#writer.u32(TABLE.FLAGS, owner | (table.dormant ? TABLE_FLAG.DORMANT : 0))
    this.#comment(TABLE.USERDATA, 'table', table.comment)
  }

  #chain(chain: NftChain): void {
    const writer = this.#writer
    writer.text(CHAIN.TABLE, this.#input.table)
    writer.text(CHAIN.NAME, chain.name)
    if (chain.base !== null) writeBaseChain(writer, chain.base)
    this.#comment(CHAIN.USERDATA, 'chain', chain.comment)
  }

  #comment(attribute: number, kind: 'table' | 'chain' | 'rule', comment: string | null): void {
    if (comment !== null) this.#writer.data(attribute, encodeUserData([commentEntry(kind, comment)]))
  }

  #rule(rule: NftRule, index: number, last: boolean): void {
    const { family, table } = this.#input
    const context = {
      family,
      setOf: (name: string) => this.#setOf(name),
      nextSetId: () => ++this.#lastSetId,
    }
    const { expressions, sets } = compileRule(context, rule)
    for (const set of sets) this.#anonymousSet(set, index)
    this.#message(MSG.NEWRULE, NLM_F_CREATE | NLM_F_APPEND, index, last, () => {
      const writer = this.#writer
      writer.text(RULE.TABLE, table)
      writer.text(RULE.CHAIN, rule.chain)
      const list = writer.open(RULE.EXPRESSIONS)
      writeExpressions(writer, expressions)
      writer.close(list)
      this.#comment(RULE.USERDATA, 'rule', rule.comment)
    })
  }

  #anonymousSet(set: AnonymousSet, index: number): void {
    const { table } = this.#input
    const writer = this.#writer
    this.#message(MSG.NEWSET, NLM_F_CREATE, index, false, () => {
      writer.text(SET.TABLE, table)
      writeAnonymousSet(writer, set)
    })
    const shape: ElementShape = {
      name: anonymousName(set),
      key: set.keyTypes,
      data: set.dataTypes,
      interval: set.interval,
    }
    for (let i = 0; i < set.elements.length;) {
      this.#message(MSG.NEWSETELEM, NLM_F_CREATE, index, false, () => {
        writer.text(ELEM_LIST.TABLE, table)
        writer.text(ELEM_LIST.SET, shape.name)
        writer.u32(ELEM_LIST.SET_ID, set.id)
        const list = writer.open(ELEM_LIST.ELEMENTS)
        for (; i < set.elements.length && writer.length - list < ELEMENTS_BYTES; i++) {
          writeElement(writer, shape, set.elements[i]!, false)
        }
        writer.close(list)
      })
    }
  }

  /** One message for as many elements of the same set, in a row, as fit. */
  #elements(
    operations: readonly NftOperation[],
    first: number,
    op: 'add element' | 'delete element',
  ): number {
    const { table } = this.#input
    const set = elementAt(operations, first, op)!.set
    const shape = this.#setOf(set)
    const members: number[] = []
    const writer = this.#writer
    const deletes = op === 'delete element'
    const type = deletes ? MSG.DELSETELEM : MSG.NEWSETELEM
    let i = first
    this.#message(
      type,
      deletes ? 0 : NLM_F_CREATE,
      first,
      false,
      () => {
        writer.text(ELEM_LIST.TABLE, table)
        writer.text(ELEM_LIST.SET, set)
        const list = writer.open(ELEM_LIST.ELEMENTS)
        for (; writer.length - list < ELEMENTS_BYTES; i++) {
          const element = elementAt(operations, i, op)
          if (element?.set !== set) break
          const count = shape === null ? writeAnyKey(writer) : writeElement(writer, shape, element, deletes)
          for (let n = 0; n < count; n++) members.push(i)
        }
        writer.close(list)
        if (i === operations.length) this.#acknowledge()
      },
      members,
    )
    return i
  }

  #setOf(name: string): NftSet | null {
    return this.#made.get(name) ?? this.#input.setOf(name)
  }

  #message(
    type: number,
    flags: number,
    operation: number,
    acknowledge: boolean,
    body: () => void,
    members: readonly number[] | null = null,
  ): void {
    const writer = this.#writer
    this.#begin(type, flags | (acknowledge ? NLM_F_ACK : 0))
    this.#messages.push({ operation, members })
    const at = writer.reserve(4)
    writer.buffer.writeUInt8(FAMILY_NUMBER[this.#input.family], at)
    body()
    writer.end()
  }

  #control(type: number, body: () => void): void {
    const writer = this.#writer
    this.#begin(type, 0)
    this.#messages.push(null)
    const at = writer.reserve(4)
    writer.buffer.writeUInt16BE(NFNL_SUBSYS_NFTABLES, at + 2)
    body()
    writer.end()
  }

  #messageAt = 0

  #begin(type: number, flags: number): void {
    this.#messageAt = this.#writer.length
    this.#writer.begin(type, NLM_F_REQUEST | flags, this.#input.sequence + this.#messages.length)
  }

  /** Asks for a positive answer to the message being written. */
  #acknowledge(): void {
    const at = this.#messageAt + 6
    this.#writer.buffer.writeUInt16LE(this.#writer.buffer.readUInt16LE(at) | NLM_F_ACK, at)
  }
}

type PlainOperation = Exclude<NftOperation['op'], 'add element' | 'delete element' | 'add rule'>

const MESSAGE_OF: Readonly<Record<PlainOperation, readonly [type: number, flags: number]>> = {
  'add table': [MSG.NEWTABLE, NLM_F_CREATE],
  'delete table': [MSG.DELTABLE, 0],
  'add chain': [MSG.NEWCHAIN, NLM_F_CREATE],
  'flush chain': [MSG.DELRULE, 0],
  'delete chain': [MSG.DELCHAIN, 0],
  'add set': [MSG.NEWSET, NLM_F_CREATE],
  'flush set': [MSG.DELSETELEM, 0],
  'delete set': [MSG.DELSET, 0],
}

function elementAt(
  operations: readonly NftOperation[],
  i: number,
  op: 'add element' | 'delete element',
): NftElement | null {
  const operation = operations[i]
  return operation !== undefined && operation.op === op ? operation.element : null
}

function writeBaseChain(writer: NetlinkWriter, base: NftBaseChain): void {
  writer.text(CHAIN.TYPE, base.type)
  const hook = writer.open(CHAIN.HOOK)
  writer.u32(HOOK.NUMBER, HOOK_NUMBER[base.hook])
  writer.u32(HOOK.PRIORITY, base.priority)
  writer.close(hook)
  writer.u32(CHAIN.POLICY, base.policy === 'accept' ? 1 : 0)
}

/**
 * The kernel changes no flag of a table that has an owner, so one that is to be woken later is made persistent only:
 * then the same step wakes it and makes it ours.
 */
function ownerFlags(table: NftTable): number {
  return table.dormant ? TABLE_FLAG.PERSIST : TABLE_FLAG.OWNER | TABLE_FLAG.PERSIST
}
