import { Attributes } from '../netlink/reader.ts'
import type { DataType } from './datatypes.ts'
import { typesInId } from './datatypes.ts'
import type { NftTableEntry } from './port.ts'
import type { NftBaseChain, NftChain, NftFamily, NftSet, NftTable, NftType } from './ruleset.ts'
import { commentIn } from './userdata.ts'
import {
  CHAIN,
  DATA_TYPE_VERDICT,
  FAMILY_NAMES,
  HOOK,
  HOOK_NUMBER,
  SET,
  SET_DESC,
  SET_FLAG,
  TABLE,
  TABLE_FLAG,
} from './wire.ts'

/** Family and attributes of an nf_tables message's body; null if it is too short to have them. */
export function openBody(body: Buffer): { readonly family: string; readonly attributes: Attributes } | null {
  if (body.length < 4) return null
  const number = body.readUInt8(0)
  return { family: FAMILY_NAMES[number] ?? String(number), attributes: new Attributes(body.subarray(4)) }
}

/** A table of a dump; null if the message is not one. `port` is the netlink address of the asking port's writer. */
export function decodeTableEntry(body: Buffer, port: number): NftTableEntry | null {
  const opened = openBody(body)
  const name = opened?.attributes.text(TABLE.NAME)
  if (!opened || !name) return null
  const flags = opened.attributes.u32(TABLE.FLAGS) ?? 0
  const owner = opened.attributes.u32(TABLE.OWNER)
  return {
    family: opened.family,
    name,
    dormant: (flags & TABLE_FLAG.DORMANT) !== 0,
    persistent: (flags & TABLE_FLAG.PERSIST) !== 0,
    owner: owner === null || owner === 0 ? 'nobody' : owner === port ? 'this port' : 'another',
  }
}

export function decodeTable(body: Buffer, family: NftFamily): NftTable | null {
  const attributes = openBody(body)?.attributes
  const name = attributes?.text(TABLE.NAME)
  if (!attributes || !name) return null
  const flags = attributes.u32(TABLE.FLAGS) ?? 0
  return {
    family,
    name,
    comment: commentIn('table', attributes.raw(TABLE.USERDATA)),
    dormant: (flags & TABLE_FLAG.DORMANT) !== 0,
    owned: (flags & TABLE_FLAG.OWNER) !== 0 || (flags & TABLE_FLAG.PERSIST) !== 0,
  }
}

/** A chain of a dump with the table it is in. */
export function decodeChain(body: Buffer): { readonly table: string; readonly chain: NftChain } | null {
  const attributes = openBody(body)?.attributes
  const name = attributes?.text(CHAIN.NAME)
  if (!attributes || !name) return null
  return {
    table: attributes.text(CHAIN.TABLE) ?? '',
    chain: {
      name,
      comment: commentIn('chain', attributes.raw(CHAIN.USERDATA)),
      base: decodeBase(attributes),
    },
  }
}

/** Null for a chain without hook, and for hooks and types that are not modelled. */
function decodeBase(attributes: Attributes): NftBaseChain | null {
  const hook = attributes.nested(CHAIN.HOOK)
  const number = hook?.u32(HOOK.NUMBER) ?? null
  if (!hook || number === null) return null
  const name = (Object.keys(HOOK_NUMBER) as (keyof typeof HOOK_NUMBER)[]).find(
    (key) => HOOK_NUMBER[key] === number,
  )
  if (name === undefined) return null
  return {
    type: attributes.text(CHAIN.TYPE) === 'nat' ? 'nat' : 'filter',
    hook: name,
    priority: (hook.u32(HOOK.PRIORITY) ?? 0) | 0,
    policy: attributes.u32(CHAIN.POLICY) === 0 ? 'drop' : 'accept',
  }
}

/** A set as the kernel describes it; more than {@link NftSet} says, and types that only rules use. */
export interface DecodedSet {
  readonly name: string
  readonly anonymous: boolean
  readonly key: readonly DataType[]
  readonly data: readonly DataType[] | 'verdict' | null
  readonly interval: boolean
  /** Bytes of a key and of a datum. */
  readonly keyBytes: number
  readonly dataBytes: number
  /** The set in the model; types that it does not have read as integer. */
  readonly set: NftSet
}

export function decodeSet(body: Buffer): DecodedSet | null {
  const attributes = openBody(body)?.attributes
  const name = attributes?.text(SET.NAME)
  if (!attributes || !name) return null
  const flags = attributes.u32(SET.FLAGS) ?? 0
  const has = (flag: number): boolean => (flags & flag) !== 0
  const key = typesInId(attributes.u32(SET.KEY_TYPE) ?? 0) ?? ['integer' as const]
  const data = has(SET_FLAG.MAP) ? dataTypes(attributes.u32(SET.DATA_TYPE) ?? 0) : null
  const timeout = attributes.u64(SET.TIMEOUT)
  return {
    name,
    anonymous: has(SET_FLAG.ANONYMOUS),
    key,
    data,
    interval: has(SET_FLAG.INTERVAL),
    keyBytes: attributes.u32(SET.KEY_LEN) ?? 0,
    dataBytes: attributes.u32(SET.DATA_LEN) ?? 0,
    set: {
      name,
      comment: commentIn('set', attributes.raw(SET.USERDATA)),
      key: key.map(modelled),
      data: data === null || data === 'verdict' ? data : data.map(modelled),
      interval: has(SET_FLAG.INTERVAL),
      dynamic: has(SET_FLAG.EVAL),
      timeout: has(SET_FLAG.TIMEOUT),
      timeoutSeconds: timeout === null || timeout === 0 ? null : timeout / 1000,
      size: attributes.nested(SET.DESC)?.u32(SET_DESC.SIZE) ?? null,
    },
  }
}

function dataTypes(id: number): readonly DataType[] | 'verdict' {
  if (id === DATA_TYPE_VERDICT) return 'verdict'
  return typesInId(id) ?? ['integer']
}

function modelled(type: DataType): NftType {
  return type === 'ct_state' || type === 'ct_status' || type === 'fib_addrtype' ? 'integer' : type
}
