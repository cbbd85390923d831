import type { DataType } from './datatypes.ts'
import { lengthOf, padded, typeOfField } from './datatypes.ts'
import type { NftExpression } from './expressions.ts'
import { BASE, CT, FIB, META, NG_RANDOM } from './expressions.ts'
import type { NftFamily, NftField, NftKey, NftKeyPart } from './ruleset.ts'

/** Where `nft` puts the operands of a hash: past the longest key of IPv4. */
const HASH_WORD = 8
const WORDS = 16

/** Loads one field into a register. */
export function loadField(family: NftFamily, field: NftField, to: number): NftExpression {
  switch (field) {
    case 'saddr':
    case 'daddr': {
      const length = padded(typeOfField(field, family))
      const offset = (length === 16 ? 8 : 12) + (field === 'daddr' ? length : 0)
      return { is: 'payload', to, base: BASE.NETWORK, offset, length }
    }
    case 'sport':
    case 'dport':
      return { is: 'payload', to, base: BASE.TRANSPORT, offset: field === 'sport' ? 0 : 2, length: 2 }
    case 'l4proto':
      return { is: 'meta', to, key: META.L4PROTO }
    case 'mark':
      return { is: 'meta', to, key: META.MARK }
    case 'iifname':
      return { is: 'meta', to, key: META.IIFNAME }
    case 'oifname':
      return { is: 'meta', to, key: META.OIFNAME }
    case 'ct state':
      return { is: 'ct', to, key: CT.STATE }
    case 'ct status':
      return { is: 'ct', to, key: CT.STATUS }
    case 'fib saddr type':
      return { is: 'fib', to, result: FIB.ADDRTYPE, flags: FIB.SADDR }
    case 'fib daddr type':
      return { is: 'fib', to, result: FIB.ADDRTYPE, flags: FIB.DADDR }
  }
}

/** What a part of a key is. Numbers the kernel computes are in the order of the machine. */
export function typeOfPart(part: NftKeyPart, family: NftFamily): DataType {
  return 'field' in part ? typeOfField(part.field, family) : 'integer'
}

/** Loads a key into the registers from word 0 on, each part on words of its own. */
export function loadKey(family: NftFamily, key: NftKey): NftExpression[] {
  const words = key.reduce((sum, part) => sum + padded(typeOfPart(part, family)) / 4, 0)
  const expressions: NftExpression[] = []
  let word = 0
  for (const part of key) {
    if ('field' in part) expressions.push(loadField(family, part.field, word))
    else if ('random' in part) {
      expressions.push({ is: 'numgen', to: word, mod: part.random.mod, type: NG_RANDOM, offset: 0 })
    } else expressions.push(...loadHash(family, part.hash, word, words))
    word += padded(typeOfPart(part, family)) / 4
  }
  if (word > WORDS) throw new RangeError(`a key of ${word * 4} bytes is too long: at most ${WORDS * 4}`)
  return expressions
}

type Hash = Extract<NftKeyPart, { readonly hash: unknown }>['hash']

function loadHash(family: NftFamily, hash: Hash, to: number, keyWords: number): NftExpression[] {
  const types = hash.of.map((field) => typeOfField(field, family))
  const words = types.reduce((sum, type) => sum + padded(type) / 4, 0)
  const from = Math.max(HASH_WORD, keyWords)
  if (from + words > WORDS) throw new RangeError('the key and what is hashed do not fit into the registers')
  let word = from
  const loads = hash.of.map((field, i) => {
    const load = loadField(family, field, word)
    word += padded(types[i]!) / 4
    return load
  })
  const length = types.length === 1 ? lengthOf(types) : words * 4
  return [...loads, { is: 'hash', from, to, length, mod: hash.mod, seed: hash.seed }]
}
