import { setTimeout as sleep } from 'node:timers/promises'
import { KernelError } from '../../shared/errors.ts'
import { ERRNO } from '../ffi/errno.ts'
import type { NetlinkMessage } from '../netlink/reader.ts'
import type { NetlinkSocket } from '../netlink/socket.ts'
import { kernelError } from '../netlink/errors.ts'
import { decodeElements } from './decode-elements.ts'
import { decodeExpressions } from './decode-expressions.ts'
import { decodeChain, decodeSet, decodeTable, openBody } from './decode-objects.ts'
import { decompileRule } from './decompile-rule.ts'
import type { ReferredSet } from './decompile-rule.ts'
import { dumpChains, dumpElements, dumpRules, dumpSets, findTable, readGeneration } from './requests.ts'
import type { NftChain, NftElement, NftFamily, NftRule, NftSet, NftTableContents } from './ruleset.ts'
import { commentIn } from './userdata.ts'
import { RULE } from './wire.ts'

const ATTEMPTS = 20
const PAUSE_MS = 5

/** Everything in a table, all of one generation; null if there is no such table. */
export async function readTable(
  socket: NetlinkSocket,
  family: NftFamily,
  table: string,
): Promise<NftTableContents | null> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const generation = readGeneration(socket)
    const contents = await readOnce(socket, family, table).catch((error: unknown) => {
      // Something vanished between two listings: the generation tells.
      if (error instanceof KernelError && error.errno === ERRNO.ENOENT) return error
      throw error
    })
    if (readGeneration(socket) === generation) {
      if (contents instanceof KernelError) throw contents
      return contents
    }
    await sleep(PAUSE_MS * attempt)
  }
  throw kernelError(`read table ${family} ${table}`, ERRNO.EINTR, {
    extack: `changed during each of ${ATTEMPTS} readings`,
  })
}

async function readOnce(
  socket: NetlinkSocket,
  family: NftFamily,
  table: string,
): Promise<NftTableContents | null> {
  const found = findTable(socket, family, table)
  const description = found === null ? null : decodeTable(found.body, family)
  if (description === null) return null
  const referred = await readSets(socket, family, table)
  const chains = decodeChains(await dumpChains(socket, family), table)
  const rules = decodeRules(await dumpRules(socket, family, table), family, referred)
  const sets = new Map<string, NftSet>()
  const elements = new Map<string, readonly NftElement[]>()
  for (const [name, set] of referred) {
    if (set.shape.anonymous) continue
    sets.set(name, set.shape.set)
    if (set.elements.length > 0) elements.set(name, set.elements)
  }
  return { table: description, chains, rules, sets, elements }
}

async function readSets(
  socket: NetlinkSocket,
  family: NftFamily,
  table: string,
): Promise<Map<string, ReferredSet>> {
  const sets = new Map<string, ReferredSet>()
  for (const { body } of await dumpSets(socket, family, table)) {
    const shape = decodeSet(body)
    if (shape === null) continue
    const messages = await dumpElements(socket, family, table, shape.name)
    sets.set(shape.name, { shape, elements: decodeElements(shape, messages.map(bodyOf)) })
  }
  return sets
}

const bodyOf = ({ body }: NetlinkMessage): Buffer => body

function decodeChains(messages: readonly NetlinkMessage[], table: string): Map<string, NftChain> {
  const chains = new Map<string, NftChain>()
  for (const { body } of messages) {
    const decoded = decodeChain(body)
    if (decoded !== null && decoded.table === table) chains.set(decoded.chain.name, decoded.chain)
  }
  return chains
}

function decodeRules(
  messages: readonly NetlinkMessage[],
  family: NftFamily,
  sets: ReadonlyMap<string, ReferredSet>,
): Map<string, NftRule[]> {
  const rules = new Map<string, NftRule[]>()
  for (const { body } of messages) {
    const rule = decodeRule(body, family, (name) => sets.get(name) ?? null)
    if (rule === null) continue
    const list = rules.get(rule.chain)
    if (list === undefined) rules.set(rule.chain, [rule])
    else list.push(rule)
  }
  return rules
}

/** A rule of a dump; null if the message is not one. */
export function decodeRule(
  body: Buffer,
  family: NftFamily,
  setOf: (name: string) => ReferredSet | null,
): NftRule | null {
  const attributes = openBody(body)?.attributes
  const chain = attributes?.text(RULE.CHAIN)
  if (!attributes || !chain) return null
  return {
    chain,
    statements: decompileRule(family, decodeExpressions(attributes.list(RULE.EXPRESSIONS)), setOf),
    comment: commentIn('rule', attributes.raw(RULE.USERDATA)),
  }
}
