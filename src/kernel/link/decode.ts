import { ipFromBytes } from '../../net/ip.ts'
import { Attributes } from '../netlink/reader.ts'
import type { Link, LinkAddress } from './port.ts'

const IFF_UP = 1
const IFLA_IFNAME = 3
const IFA_ADDRESS = 1
const IFA_LOCAL = 2
const LINK_HEADER = 16
const ADDRESS_HEADER = 8

/** The body of an RTM_NEWLINK (linux/rtnetlink.h: ifinfomsg and attributes); null if it is not one. */
export function decodeLink(body: Buffer): Link | null {
  if (body.length < LINK_HEADER) return null
  const name = new Attributes(body.subarray(LINK_HEADER)).text(IFLA_IFNAME)
  if (name === null) return null
  return { index: body.readInt32LE(4), name, up: (body.readUInt32LE(8) & IFF_UP) !== 0 }
}

/** The body of an RTM_NEWADDR (ifaddrmsg and attributes), with the index of its link; null if it is not one. */
export function decodeAddress(
  body: Buffer,
): { readonly index: number; readonly address: Omit<LinkAddress, 'link'> } | null {
  if (body.length < ADDRESS_HEADER) return null
  const attributes = new Attributes(body.subarray(ADDRESS_HEADER))
  // On point-to-point links ADDRESS is the other end's.
  const bytes = attributes.raw(IFA_LOCAL) ?? attributes.raw(IFA_ADDRESS)
  if (bytes === null || (bytes.length !== 4 && bytes.length !== 16)) return null
  return {
    index: body.readUInt32LE(4),
    address: { ip: ipFromBytes(bytes), prefixBits: body.readUInt8(1), scope: scopeOf(body.readUInt8(3)) },
  }
}

/** rtm_scope_t; scopes that an administrator made up count as global. */
function scopeOf(number: number): LinkAddress['scope'] {
  switch (number) {
    case 200:
      return 'site'
    case 253:
      return 'link'
    case 254:
      return 'host'
    case 255:
      return 'nowhere'
    default:
      return 'global'
  }
}
