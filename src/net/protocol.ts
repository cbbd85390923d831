/** The transport protocols a Service port can have (`v1.Protocol`). */
export type Protocol = 'TCP' | 'UDP' | 'SCTP'

/** IANA protocol numbers, as they stand in the IP header. */
export const PROTOCOL_NUMBER: Readonly<Record<Protocol, number>> = { TCP: 6, UDP: 17, SCTP: 132 }

/** Reads a protocol name in any case; an empty or absent one means TCP, as in the Service API. Null if unknown. */
export function parseProtocol(text: string | null | undefined): Protocol | null {
  if (text === null || text === undefined || text === '') return 'TCP'
  const upper = text.toUpperCase()
  return upper === 'TCP' || upper === 'UDP' || upper === 'SCTP' ? upper : null
}
