import { familyOf } from '../../net/ip.ts'
import type { NftKey, NftRule, NftStatement } from '../../kernel/nft/ruleset.ts'
import type { PacketState, Step } from '../../kernel/nft/walk-state.ts'
import type { ServiceNames } from '../trace.ts'

/** What a rule means for Services: one sentence for a person who does not know nftables. */
export function whyOf(step: Step, names: ServiceNames | null): string {
  const frontend = frontendLabel(step, names)
  switch (step.deed.kind) {
    case 'jump':
    case 'goto':
      return step.hit === null ? whyPlainJump(step, frontend) : whyLookup(step, frontend)
    case 'mark':
      return whyMark(step)
    case 'dnat':
      return whyDnat(step)
    case 'masquerade':
      return whyMasquerade(step)
    case 'update':
      return whyUpdate(step)
    case 'accept':
      return `The rule lets the packet pass${inTable(step)}.`
    case 'policy drop':
      return `Nothing in the chain let the packet pass, and its policy is to drop${inTable(step)}.`
    case 'drop':
      return whyDrop(step, frontend)
    case 'reject':
      return whyReject(step, frontend)
  }
}

/** `ClusterIP 10.96.0.10:53/UDP of default/dns:dns`, as far as it is known. */
function frontendLabel(step: Step, names: ServiceNames | null): string {
  const { destination, port, protocol } = step.before
  const address = `${addressText(destination, port)}/${protocol}`
  const known = names?.frontend(destination, protocol, port) ?? null
  if (known !== null) return `${known.kind} ${address} of ${known.service}`
  const named = step.hit?.element?.comment ?? serviceOfChain(targetChain(step)) ?? serviceOfChain(step.chain)
  return named === null ? address : `${address} of ${named}`
}

function targetChain(step: Step): string {
  return 'chain' in step.deed ? step.deed.chain : ''
}

/** kube-proxy's per-port chains carry the Service's name: `service-HASH-namespace/name/protocol/port`. */
function serviceOfChain(chain: string): string | null {
  const match =
    /^(?:service|external|local|firewall|endpoint)-[A-Z2-7]{8}-([^/]+)\/([^/]+)\/[a-z]+\/([^_]*)/.exec(chain)
  if (match === null) return null
  const [, namespace, name, port] = match
  return port === '' ? `${namespace}/${name}` : `${namespace}/${name}:${port}`
}

function whyLookup(step: Step, frontend: string): string {
  const choice = randomChoices(lookupKey(step.rule))
  if (choice !== null) return chosen(choice)
  const map = step.hit?.map ?? ''
  if (map.startsWith('no-endpoint')) return `${frontend} has no endpoint that may be used here.`
  if (map.startsWith('firewall')) {
    return `${frontend} is open to some sources only (loadBalancerSourceRanges): the source is checked.`
  }
  return `${frontend} is a Service address on this node.`
}

function whyPlainJump(step: Step, frontend: string): string {
  if (matches(step.rule, (s) => 'matchSet' in s && step.view.set(s.matchSet.set)?.dynamic === true)) {
    return 'This client has been here before: it keeps its endpoint (session affinity).'
  }
  if (fieldMatched(step.rule, 'fib saddr type')) {
    return 'The packet was made on this node, so the traffic policy Local does not apply to it: any endpoint may serve it.'
  }
  if (fieldMatched(step.rule, 'saddr') || fieldMatched(step.rule, 'iifname')) {
    return 'The client is a pod of this node, so the traffic policy Local does not apply to it: any endpoint may serve it.'
  }
  const comment = step.rule?.comment
  if (comment) return `${sentence(comment)}`
  return `The rules of chain ${targetChain(step)} apply to ${frontend}.`
}

function sentence(text: string): string {
  const first = text.charAt(0).toUpperCase() + text.slice(1)
  return /[.!?]$/.test(first) ? first : `${first}.`
}

const SO_THAT = 'the source will become an address of this node, so that the answers come back through it'

function whyMark(step: Step): string {
  if ((step.after.mark & ~step.before.mark) === 0) return 'The mark has done its work and is taken off again.'
  if (fieldMatched(step.rule, 'fib saddr type'))
    return `Marked, because the packet was made on this node: ${SO_THAT}.`
  if (matches(step.rule, (s) => 'match' in s && s.match.op === '!=' && isSourceField(s.match.left))) {
    return `Marked, because the client is not a pod that reaches endpoints directly: ${SO_THAT}.`
  }
  return `Marked for masquerading: ${SO_THAT}.`
}

function isSourceField(field: string): boolean {
  return field === 'saddr' || field === 'iifname'
}

function whyDnat(step: Step): string {
  const from = addressText(step.before.destination, step.before.port)
  const to = addressText(step.after.destination, step.after.port)
  const choice = randomChoices(lookupKey(step.rule))
  const how = choice === null ? 'The endpoint is settled' : chosen(choice).replace(/\.$/, '')
  return `${how}: the destination changes from ${from} to ${to}.`
}

function chosen(count: number): string {
  return count === 1 ? 'There is one endpoint.' : `One of ${count} endpoints is chosen at random.`
}

function whyMasquerade(step: Step): string {
  const becomes = `the source ${step.before.source} becomes an address of this node`
  if (matches(step.rule, (s) => 'matchMark' in s))
    return `The packet was marked for masquerading: ${becomes}.`
  if (matches(step.rule, (s) => 'matchSet' in s && s.matchSet.set.startsWith('hairpin'))) {
    return `The chosen endpoint is the client itself (hairpin): ${becomes}, or it would answer itself past this node.`
  }
  return `${sentence(becomes)}`
}

function whyUpdate(step: Step): string {
  const set = 'set' in step.deed ? step.view.set(step.deed.set) : null
  const statement = step.rule?.statements.find((s) => 'updateSet' in s)
  const own = statement !== undefined && 'updateSet' in statement ? statement.updateSet.timeoutSeconds : null
  const seconds = own ?? set?.timeoutSeconds ?? null
  const life = seconds === null ? '' : ` for ${seconds} s`
  return `The client ${step.before.source} is remembered${life}, so that its later flows reach the same endpoint.`
}

function whyDrop(step: Step, frontend: string): string {
  const map = step.hit?.map ?? ''
  if (map.startsWith('no-endpoint')) {
    return `${frontend} has endpoints, but the traffic policy Local leaves none on this node: dropped without an answer.`
  }
  if (step.chain.startsWith('firewall') || map.startsWith('firewall')) {
    return `${step.before.source} is not among the loadBalancerSourceRanges of ${frontend}: dropped without an answer.`
  }
  if (step.chain === 'cluster-ips-check') {
    return `${step.before.destination} belongs to a Service range, but no Service has it: dropped without an answer.`
  }
  return `The rule drops the packet without an answer${inTable(step)}.`
}

function whyReject(step: Step, frontend: string): string {
  if (step.chain === 'cluster-ips-check') {
    return `${step.before.destination} is a ClusterIP, but no Service offers ${step.before.port}/${step.before.protocol} there: refused.`
  }
  if (step.view.table === 'kube-proxy') return `${frontend} cannot be served: the client is refused at once.`
  return `The rule refuses the packet${inTable(step)}.`
}

function inTable(step: Step): string {
  return step.view.table === 'kube-proxy'
    ? ''
    : ` (table ${step.view.family} ${step.view.table}, not a proxy's)`
}

function lookupKey(rule: NftRule | null): NftKey {
  for (const statement of rule?.statements ?? []) {
    if ('dnat' in statement && 'key' in statement.dnat) return statement.dnat.key
    if ('vmap' in statement) return statement.vmap.key
    if ('anonymousVmap' in statement) return statement.anonymousVmap.key
  }
  return []
}

function randomChoices(key: NftKey): number | null {
  for (const part of key) {
    if ('random' in part) return part.random.mod
    if ('hash' in part) return part.hash.mod
  }
  return null
}

function matches(rule: NftRule | null, holds: (statement: NftStatement) => boolean): boolean {
  return rule !== null && rule.statements.some(holds)
}

function fieldMatched(rule: NftRule | null, field: string): boolean {
  return matches(rule, (s) => 'match' in s && s.match.op === '==' && s.match.left === field)
}

/** `10.0.0.1:80`, `[fd00::1]:80`. */
export function addressText(ip: PacketState['source'], port: number): string {
  return familyOf(ip) === 'IPv6' ? `[${ip}]:${port}` : `${ip}:${port}`
}
