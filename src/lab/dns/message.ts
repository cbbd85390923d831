import dnsPacket from 'dns-packet'
import type { Answer, Packet } from 'dns-packet'
import { resolve, TTL_SECONDS } from './zone.ts'
import type { ZoneAnswer, ZoneView } from './zone.ts'

const RCODES = { NOERROR: 0, FORMERR: 1, NXDOMAIN: 3, NOTIMP: 4, REFUSED: 5 } as const
/** Answers over UDP are kept below this whatever the client offers, so that they never fragment (DNS flag day 2020). */
const MAX_UDP_BYTES = 1232
const MIN_UDP_BYTES = 512

/** Answers a DNS message. Over UDP an answer that is too long is cut and marked, so that the client asks over TCP. Null: not to be answered. */
export function answerMessage(view: ZoneView, message: Buffer, transport: 'udp' | 'tcp'): Buffer | null {
  let query: Packet
  try {
    query = dnsPacket.decode(message)
  } catch {
    return message.length < 12 ? null : refusal(message.readUInt16BE(0), RCODES.FORMERR)
  }
  if (query.type !== 'query') return null
  const question = query.questions?.[0]
  if (question === undefined || query.questions?.length !== 1) return refusal(query.id ?? 0, RCODES.FORMERR)
  if ((query.flags ?? 0) & 0x7800) return refusal(query.id ?? 0, RCODES.NOTIMP)
  const result = resolve(view, question.name, question.type)
  const full = encode(view, query, result, false)
  if (transport === 'tcp' || full.length <= udpLimit(query)) return full
  return encode(view, query, { ...result, answers: [], additionals: [] }, true)
}

function encode(view: ZoneView, query: Packet, result: ZoneAnswer, truncated: boolean): Buffer {
  const negative = result.answers.length === 0 && result.rcode !== 'REFUSED' && !truncated
  return dnsPacket.encode({
    type: 'response',
    id: query.id ?? 0,
    flags: flagsOf(query, result, truncated),
    questions: query.questions ?? [],
    answers: [...result.answers],
    authorities: negative ? [startOfAuthority(view.domain)] : [],
    additionals: [...result.additionals, ...(hasEdns(query) ? [ednsRecord()] : [])],
  })
}

function flagsOf(query: Packet, result: ZoneAnswer, truncated: boolean): number {
  const authoritative = result.rcode === 'REFUSED' ? 0 : dnsPacket.AUTHORITATIVE_ANSWER
  const desired = (query.flags ?? 0) & dnsPacket.RECURSION_DESIRED
  return authoritative | desired | (truncated ? dnsPacket.TRUNCATED_RESPONSE : 0) | RCODES[result.rcode]
}

function startOfAuthority(domain: string): Answer {
  return {
    name: domain,
    type: 'SOA',
    ttl: TTL_SECONDS,
    data: {
      mname: `ns.dns.${domain}`,
      rname: `hostmaster.${domain}`,
      serial: 1,
      refresh: 7200,
      retry: 1800,
      expire: 86_400,
      minimum: TTL_SECONDS,
    },
  }
}

function refusal(id: number, rcode: number): Buffer {
  return dnsPacket.encode({ type: 'response', id, flags: rcode, questions: [] })
}

function hasEdns(query: Packet): boolean {
  return (query.additionals ?? []).some(({ type }) => type === 'OPT')
}

function ednsRecord(): Answer {
  return {
    name: '.',
    type: 'OPT',
    udpPayloadSize: MAX_UDP_BYTES,
    extendedRcode: 0,
    ednsVersion: 0,
    flags: 0,
    flag_do: false,
    options: [],
  }
}

function udpLimit(query: Packet): number {
  const option = (query.additionals ?? []).find(({ type }) => type === 'OPT')
  const offered = option?.type === 'OPT' ? option.udpPayloadSize : MIN_UDP_BYTES
  return Math.min(MAX_UDP_BYTES, Math.max(MIN_UDP_BYTES, offered))
}
