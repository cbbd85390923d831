import type { Packet } from '../net/packet.ts'
import type { Addresses, Hop, Trace } from '../modes/trace.ts'
import { socketText } from './report.ts'

/** A trace for people: the outcome in one sentence, then step by step what happened and why, then the way back. */
export function explain(trace: Trace, packet: Packet): string {
  const from = socketText(packet.source, packet.sourcePort)
  const to = `${socketText(packet.destination, packet.port)}/${packet.protocol.toLowerCase()}`
  const sections = [
    `A new flow from ${from} to ${to}:`,
    `  ${outcomeSentence(trace)}`,
    ...destinationLines(trace),
    '',
    ...trace.hops.flatMap((hop, i) => hopLines(hop, i + 1)),
  ]
  if (trace.reply.length > 0) {
    sections.push(
      `The answer of ${answering(trace)}:`,
      '',
      ...trace.reply.flatMap((hop, i) => hopLines(hop, i + 1)),
    )
  }
  if (trace.notUnderstood.length > 0) {
    sections.push(
      'Not understood, so the outcome is a guess:',
      ...trace.notUnderstood.map((text) => `  - ${text}`),
      '',
    )
  }
  return sections.join('\n')
}

function answering({ reply }: Trace): string {
  const first = reply[0]
  return first === undefined ? 'the endpoint' : socketText(first.before.source.ip, first.before.source.port)
}

function outcomeSentence(trace: Trace): string {
  switch (trace.verdict) {
    case 'FORWARD': {
      const count = trace.destinations.length
      const choice = count === 1 ? 'to one endpoint' : `to one of ${count} endpoints${evenly(trace)}`
      return `FORWARD ${choice}${trace.sticky ? ', the same one for every flow of this client' : ''}.`
    }
    case 'REJECT':
      return 'REJECT: the client is told at once that nobody is there.'
    case 'DROP':
      return 'DROP: the client gets no answer at all.'
    case 'NONE':
      return 'NONE: the proxy leaves the packet alone.'
    case 'ACCEPT_LOCAL':
      return 'ACCEPT_LOCAL: the health check port of the proxy answers.'
  }
}

function evenly({ shares }: Trace): string {
  const even = shares.every((share) => Math.abs(share - 1 / shares.length) < 1e-9)
  return even ? ' with even shares' : ''
}

function destinationLines({ destinations, shares }: Trace): readonly string[] {
  const even = shares.every((share) => Math.abs(share - 1 / shares.length) < 1e-9)
  return destinations.map(({ endpoint, masquerade }, i) => {
    const share = even ? '' : `  ${((shares[i] ?? 0) * 100).toFixed(1)} %`
    const seen = masquerade ? 'sees an address of this node as client' : 'sees the client itself'
    return `    ${socketText(endpoint.ip, endpoint.port)}  ${seen}${share}`
  })
}

function hopLines(hop: Hop, number: number): readonly string[] {
  const label = `${String(number).padStart(2)}. `
  const lines = [`${label}${hop.where}: ${hop.object}`]
  if (hop.rule !== '') lines.push(`      rule  ${hop.rule}`)
  const [before, after] = [line(hop.before), line(hop.after)]
  lines.push(before === after ? `      now   ${before}` : `      was   ${before}`)
  if (before !== after) lines.push(`      now   ${after}`)
  return [...lines, `      why   ${hop.why}`, '']
}

function line({ source, destination }: Addresses): string {
  return `${socketText(source.ip, source.port)} → ${socketText(destination.ip, destination.port)}`
}
