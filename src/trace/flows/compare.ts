import type { Outcome } from '../../services/decision.ts'
import type { FlowExpectation } from './flows-file.ts'
import { formatSocket } from './flows-file.ts'

/** How an outcome differs from what a case expects, one sentence each; empty = it does not. */
export function differences(expected: FlowExpectation, got: Outcome): readonly string[] {
  if (expected.verdict !== got.verdict) return [`expected ${expected.verdict}, got ${got.verdict}`]
  const found = new Map(got.destinations.map((to) => [formatSocket(to.endpoint), to.masquerade]))
  const messages: string[] = []
  for (const [address, { masquerade }] of expected.destinations) {
    const is = found.get(address)
    if (is === undefined) messages.push(`${address} is never chosen`)
    else if (is !== masquerade) {
      messages.push(
        `${address} sees ${is ? 'the node' : 'the client'}, not ${masquerade ? 'the node' : 'the client'}, as source`,
      )
    }
  }
  for (const address of found.keys()) {
    if (!expected.destinations.has(address)) messages.push(`${address} may be chosen but must not`)
  }
  if (found.size !== got.destinations.length)
    messages.push('a destination is listed twice, so shares are uneven')
  if (expected.sticky && !got.sticky) messages.push('flows of one client do not stick')
  // With one destination nobody can tell.
  if (!expected.sticky && got.sticky && expected.destinations.size > 1)
    messages.push('flows of one client stick')
  return messages
}
