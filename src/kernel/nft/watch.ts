import { subscribe } from '../netlink/events.ts'
import type { NetlinkMessage } from '../netlink/reader.ts'
import { NETLINK_NETFILTER } from '../netlink/socket.ts'
import { openBody } from './decode-objects.ts'
import type { NftChange } from './port.ts'
import type { NftFamily } from './ruleset.ts'
import { MSG, NFNLGRP_NFTABLES } from './wire.ts'

const KINDS: ReadonlyMap<number, readonly [NftChange['what'], NftChange['how']]> = new Map([
  [MSG.NEWTABLE, ['table', 'new']],
  [MSG.DELTABLE, ['table', 'deleted']],
  [MSG.NEWCHAIN, ['chain', 'new']],
  [MSG.DELCHAIN, ['chain', 'deleted']],
  [MSG.NEWRULE, ['rule', 'new']],
  [MSG.DELRULE, ['rule', 'deleted']],
  [MSG.NEWSET, ['set', 'new']],
  [MSG.DELSET, ['set', 'deleted']],
  [MSG.NEWSETELEM, ['element', 'new']],
  [MSG.DELSETELEM, ['element', 'deleted']],
])

/** Every table, chain, rule, set and element message has the table's name as its first attribute. */
const TABLE_NAME = 1

/**
 * Calls back for every change in the namespace that did not come from the netlink address `ownPort`. The kernel itself
 * leaves those out: a full write of a large cluster is told in tens of thousands of messages.
 */
export function watchNft(
  netns: string | null,
  ownPort: number,
  signal: AbortSignal,
  onChange: (change: NftChange | 'resync') => void,
): void {
  subscribe(
    { protocol: NETLINK_NETFILTER, netns, groups: [NFNLGRP_NFTABLES], ignoreWriter: ownPort },
    signal,
    (event) => {
      const change = event === 'resync' ? event : decodeChange(event)
      if (change !== null) onChange(change)
    },
  )
}

/** Null for messages about other things (the end of a commit, stateful objects, flow tables). */
export function decodeChange(message: NetlinkMessage): NftChange | null {
  const kind = KINDS.get(message.type)
  const opened = openBody(message.body)
  const table = opened?.attributes.text(TABLE_NAME)
  if (kind === undefined || !opened || !table) return null
  return {
    family: opened.family as NftFamily,
    table,
    what: kind[0],
    how: kind[1],
    writer: message.port,
  }
}
