import type { Cidr } from '../../net/cidr.ts'
import { cidrContains, splitCidr } from '../../net/cidr.ts'
import type { IpFamily } from '../../net/family.ts'
import type { Ip } from '../../net/ip.ts'
import { familyOf, ipFromBytes, ipToBytes } from '../../net/ip.ts'

const MAX_CONSIDERED_BITS = 16

/**
 * Hands out addresses of a prefix. The lower part is left for people who choose addresses themselves, as upstream
 * does (KEP-3070), so that a chosen address is seldom already given away.
 */
export class IpRange {
  readonly cidr: Cidr
  readonly family: IpFamily
  readonly #base: bigint
  readonly #size: number
  readonly #reserved: number
  #next: number

  constructor(cidr: Cidr) {
    const { address, bits } = splitCidr(cidr)
    const width = familyOf(address) === 'IPv4' ? 32 : 128
    this.cidr = cidr
    this.family = familyOf(address)
    this.#base = toNumber(ipToBytes(address))
    this.#size = 2 ** Math.min(MAX_CONSIDERED_BITS, width - bits)
    this.#reserved = this.#size <= 16 ? 1 : Math.min(256, Math.max(16, this.#size >> 4))
    this.#next = this.#reserved
  }

  contains(ip: Ip): boolean {
    return cidrContains(this.cidr, ip)
  }

  /** The first address that a Service can have: default/kubernetes gets it. */
  first(): Ip {
    return this.#at(1)
  }

  /** The next address that `isTaken` does not know; the lower part only when the rest is used up. Null when full. */
  pick(isTaken: (ip: Ip) => boolean): Ip | null {
    const upper = this.#size - (this.family === 'IPv4' ? 1 : 0)
    for (let i = 0; i < upper - this.#reserved; i++) {
      const offset = this.#reserved + ((this.#next - this.#reserved + i) % (upper - this.#reserved))
      const ip = this.#at(offset)
      if (!isTaken(ip)) {
        this.#next = offset + 1
        return ip
      }
    }
    for (let offset = 1; offset < this.#reserved; offset++)
      if (!isTaken(this.#at(offset))) return this.#at(offset)
    return null
  }

  #at(offset: number): Ip {
    return ipFromBytes(toBytes(this.#base + BigInt(offset), this.family === 'IPv4' ? 4 : 16))
  }
}

function toNumber(bytes: Uint8Array): bigint {
  return bytes.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n)
}

function toBytes(value: bigint, length: number): Uint8Array {
  const bytes = new Uint8Array(length)
  let rest = value
  for (let i = length - 1; i >= 0; i--) {
    bytes[i] = Number(rest & 0xffn)
    rest >>= 8n
  }
  return bytes
}
