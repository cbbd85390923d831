import { UnsupportedError } from '../../shared/errors.ts'
import { ERRNO } from '../ffi/errno.ts'
import { attributesIn, parseMessages } from '../netlink/reader.ts'
import { NLMSG_ERROR, parseAck } from '../netlink/request.ts'
import { kernelError, noNetAdmin } from '../netlink/errors.ts'
import type { Batch } from './batch.ts'
import { printOperation } from './print.ts'
import type { NftOperation } from './port.ts'
import type { NftFamily } from './ruleset.ts'
import { ELEM_LIST } from './wire.ts'

/** What is needed to name the step that failed. */
export interface SentBatch {
  readonly batch: Batch
  readonly sequence: number
  readonly family: NftFamily
  readonly table: string
  readonly operations: readonly NftOperation[]
}

/** One answer of the kernel to a batch. */
interface Answer {
  readonly at: number
  readonly errno: number
  readonly message: string | null
  readonly offset: number | null
}

/** The error for a step: its `operation` is the step as a command of `nft`. */
export function stepError(
  family: NftFamily,
  table: string,
  operation: NftOperation,
  errno: number,
  extack: string | null,
): Error {
  return kernelError(printOperation(family, table, operation), errno, { extack })
}

/**
 * Reads the kernel's answers. Returns null if the batch was applied, else the error of its first failing step; further
 * failures are counted in the kernel's words.
 */
export function outcomeOf(sent: SentBatch, datagrams: readonly Buffer[], overrun: boolean): Error | null {
  const answers: Answer[] = []
  for (const datagram of datagrams) {
    for (const message of parseMessages(datagram)) {
      const at = message.sequence - sent.sequence
      if (message.type !== NLMSG_ERROR || at < 0 || at >= sent.batch.messages.length) continue
      answers.push({ at, ...parseAck(message) })
    }
  }
  const failures = answers.filter(({ errno }) => errno !== 0)
  const [first] = failures
  if (first === undefined) {
    if (answers.length > 0) return null
    // Every batch asks for one answer. Without it, nobody knows what happened.
    return kernelError(`change table ${sent.family} ${sent.table}`, overrun ? ERRNO.ENOBUFS : ERRNO.EPROTO)
  }
  return failureOf(sent, first, failures.length - 1)
}

function failureOf(sent: SentBatch, { at, errno, message, offset }: Answer, more: number): Error {
  const target = sent.batch.messages[at]
  const words = [message, more > 0 ? `${more} more steps failed` : null].filter((text) => text !== null)
  const extack = words.length === 0 ? null : words.join('; ')
  if (target === null || target === undefined) {
    // An answer to the frame: the whole batch was refused before its steps were looked at, or could not be committed.
    const operation = `change table ${sent.family} ${sent.table}`
    const cause = kernelError(operation, errno, { extack })
    if (errno === ERRNO.EPERM) return noNetAdmin('Changing nf_tables', cause)
    return errno === ERRNO.EOPNOTSUPP ? noNfTables(cause) : cause
  }
  const index = target.members === null ? target.operation : memberAt(sent, at, offset, target.members)
  return stepError(sent.family, sent.table, sent.operations[index]!, errno, extack)
}

/** Which element of the message the kernel's offset lies in. */
function memberAt(sent: SentBatch, at: number, offset: number | null, members: readonly number[]): number {
  const body = offset === null ? null : messageBytes(sent.batch, at)
  if (body !== null && offset !== null) {
    let position = 20
    for (const [type, value] of attributesIn(body.subarray(20))) {
      if (type === ELEM_LIST.ELEMENTS) {
        let member = position + 4
        let index = 0
        for (const [, element] of attributesIn(value)) {
          if (offset < member + 4 + element.length) break
          member += 4 + ((element.length + 3) & ~3)
          index++
        }
        return members[index] ?? members[0]!
      }
      position += 4 + ((value.length + 3) & ~3)
    }
  }
  return members[0]!
}

function messageBytes({ bytes }: Batch, index: number): Buffer | null {
  let at = 0
  for (let i = 0; at + 16 <= bytes.length; i++) {
    const length = bytes.readUInt32LE(at)
    if (i === index) return bytes.subarray(at, at + length)
    at += (length + 3) & ~3
  }
  return null
}

export function noNfTables(cause: unknown): UnsupportedError {
  return new UnsupportedError(
    'NO_NF_TABLES',
    'nf_tables',
    'a kernel with CONFIG_NF_TABLES',
    'Load the module (modprobe nf_tables) or use another proxy mode.',
    { cause },
  )
}
