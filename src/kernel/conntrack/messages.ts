import { ipFromBytes, ipToBytes } from '../../net/ip.ts'
import type { Ip } from '../../net/ip.ts'
import { PROTOCOL_NUMBER } from '../../net/protocol.ts'
import type { Protocol } from '../../net/protocol.ts'
import { Attributes } from '../netlink/reader.ts'
import type { NetlinkWriter } from '../netlink/writer.ts'
import type { Flow, FlowTuple } from './port.ts'

/** Message types: subsystem 1 (linux/netfilter/nfnetlink_conntrack.h). */
export const CT_GET = 0x101
export const CT_DELETE = 0x102

export const AF = { IPv4: 2, IPv6: 10 } as const

const CTA = { TUPLE_ORIG: 1, TUPLE_REPLY: 2, STATUS: 3, MARK: 8, ID: 12, ZONE: 18 } as const
const TUPLE = { IP: 1, PROTO: 2 } as const
const PROTO = { NUMBER: 1, SOURCE_PORT: 2, DESTINATION_PORT: 3 } as const

/** The header of every nfnetlink message. */
export function writeFamily(writer: NetlinkWriter, family: number): void {
  // Two statements: reserving may replace the buffer.
  const at = writer.reserve(4)
  writer.buffer.writeUInt8(family, at)
}

/** A flow of a dump; null if the message is not one (or is of another family than IP). */
export function decodeFlow(body: Buffer): Flow | null {
  if (body.length < 4) return null
  const number = body.readUInt8(0)
  const family = number === AF.IPv4 ? 'IPv4' : number === AF.IPv6 ? 'IPv6' : null
  const attributes = new Attributes(body.subarray(4))
  const original = decodeTuple(attributes.nested(CTA.TUPLE_ORIG))
  const reply = decodeTuple(attributes.nested(CTA.TUPLE_REPLY))
  if (family === null || original === null || reply === null) return null
  return {
    family,
    protocol: protocolOf(original.protocol),
    original: original.tuple,
    reply: reply.tuple,
    id: attributes.u32(CTA.ID) ?? 0,
    status: attributes.u32(CTA.STATUS) ?? 0,
    mark: attributes.u32(CTA.MARK) ?? 0,
    zone: attributes.u16(CTA.ZONE) ?? 0,
  }
}

/** The protocol number of a flow of a dump without reading the rest; null if it has none. */
export function protocolIn(body: Buffer): number | null {
  if (body.length < 4) return null
  const tuple = new Attributes(body.subarray(4)).nested(CTA.TUPLE_ORIG)
  return tuple?.nested(TUPLE.PROTO)?.u8(PROTO.NUMBER) ?? null
}

function decodeTuple(
  attributes: Attributes | null,
): { readonly protocol: number; readonly tuple: FlowTuple } | null {
  const addresses = attributes?.nested(TUPLE.IP)
  const protocol = attributes?.nested(TUPLE.PROTO)
  // 1 and 2 for IPv4, 3 and 4 for IPv6.
  const source = addressOf(addresses?.raw(1) ?? addresses?.raw(3))
  const destination = addressOf(addresses?.raw(2) ?? addresses?.raw(4))
  if (!protocol || source === null || destination === null) return null
  return {
    protocol: protocol.u8(PROTO.NUMBER) ?? 0,
    tuple: {
      source,
      destination,
      sourcePort: protocol.u16(PROTO.SOURCE_PORT) ?? 0,
      destinationPort: protocol.u16(PROTO.DESTINATION_PORT) ?? 0,
    },
  }
}

function addressOf(bytes: Buffer | null | undefined): Ip | null {
  return bytes?.length === 4 || bytes?.length === 16 ? ipFromBytes(bytes) : null
}

const NAMES: ReadonlyMap<number, Protocol> = new Map(
  (Object.keys(PROTOCOL_NUMBER) as Protocol[]).map((name) => [PROTOCOL_NUMBER[name], name]),
)

const protocolOf = (number: number): Protocol | number => NAMES.get(number) ?? number

/**
 * The body of a CT_DELETE for exactly this entry. The tuple must be there: without one the kernel deletes everything.
 * The id keeps an entry safe that took the tuple over in the meantime.
 */
export function writeDeletion(writer: NetlinkWriter, flow: Flow): void {
  const isIpv4 = flow.family === 'IPv4'
  const number = typeof flow.protocol === 'number' ? flow.protocol : PROTOCOL_NUMBER[flow.protocol]
  const { source, destination, sourcePort, destinationPort } = flow.original
  writeFamily(writer, AF[flow.family])
  const tuple = writer.open(CTA.TUPLE_ORIG)
  const addresses = writer.open(TUPLE.IP)
  writer.data(isIpv4 ? 1 : 3, ipToBytes(source))
  writer.data(isIpv4 ? 2 : 4, ipToBytes(destination))
  writer.close(addresses)
  const protocol = writer.open(TUPLE.PROTO)
  writer.u8(PROTO.NUMBER, number)
  writer.u16(PROTO.SOURCE_PORT, sourcePort)
  writer.u16(PROTO.DESTINATION_PORT, destinationPort)
  writer.close(protocol)
  writer.close(tuple)
  if (flow.zone !== 0) writer.u16(CTA.ZONE, flow.zone)
  writer.u32(CTA.ID, flow.id)
}
