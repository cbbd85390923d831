import type {
  NftBaseChain,
  NftChain,
  NftElement,
  NftFamily,
  NftRule,
  NftSet,
  NftStatement,
  NftTable,
  NftType,
} from '../../kernel/nft/ruleset.ts'
import type { NodeView } from '../../services/service-map.ts'
import { CHAIN, SET, TABLE, TABLE_COMMENT } from './names.ts'
import {
  fields,
  FRONTEND_KEY,
  is,
  isNot,
  jump,
  masqueradeMark,
  NEW_FLOW,
  NODE_PORT_KEY,
  rule,
} from './statements.ts'

/** The part of a table that depends on the node and not on any Service. */
export interface NftablesBase {
  readonly table: NftTable
  readonly chains: readonly NftChain[]
  readonly rules: readonly NftRule[]
  /** Fixed-size sets stand here without a size: see capacity.ts. */
  readonly sets: readonly NftSet[]
  readonly elements: readonly NftElement[]
}

/** The node-wide part: hooks, checks, dispatch and the empty sets; in the order of the packet's path. */
export function compileBase(node: NodeView): NftablesBase {
  const family: NftFamily = node.family === 'IPv4' ? 'ip' : 'ip6'
  return {
    table: { family, name: TABLE, comment: TABLE_COMMENT, dormant: false, owned: false },
    chains: [...HOOKS.map(([name, base]) => ({ name, comment: null, base })), ...FIXED_CHAINS],
    rules: [...hookRules(), ...checkRules(node), ...dispatchRules(node), ...masqueradeRules(node)],
    sets: baseSets(node),
    elements: node.nodePortAddresses === 'any-local' ? [] : node.nodePortIps.map(nodePortIp),
  }
}

const DSTNAT = -100
const SRCNAT = 100
const hook = (
  name: string,
  type: NftBaseChain['type'],
  at: NftBaseChain['hook'],
  priority: number,
): readonly [string, NftBaseChain] => [name, { type, hook: at, priority, policy: 'accept' }]

/** Where rule writers of a cluster may hook in before or after the proxy: kube-proxy's names and priorities. */
const HOOKS = [
  hook('filter-prerouting-pre-dnat', 'filter', 'prerouting', DSTNAT - 10),
  hook('nat-prerouting', 'nat', 'prerouting', DSTNAT),
  hook('filter-input', 'filter', 'input', 0),
  hook('filter-forward', 'filter', 'forward', 0),
  hook('filter-output-pre-dnat', 'filter', 'output', DSTNAT - 10),
  hook('nat-output', 'nat', 'output', DSTNAT),
  hook('filter-output', 'filter', 'output', 0),
  hook('nat-postrouting', 'nat', 'postrouting', SRCNAT),
]

const FIXED_CHAINS: readonly NftChain[] = Object.values(CHAIN).map((name) => ({
  name,
  comment: null,
  base: null,
}))

function hookRules(): NftRule[] {
  return [
    rule('filter-prerouting-pre-dnat', NEW_FLOW, jump(CHAIN.firewallCheck)),
    rule('filter-output-pre-dnat', NEW_FLOW, jump(CHAIN.firewallCheck)),
    rule('nat-prerouting', jump(CHAIN.services)),
    rule('nat-output', jump(CHAIN.services)),
    rule('filter-input', NEW_FLOW, jump(CHAIN.nodePortEndpointsCheck)),
    rule('filter-input', NEW_FLOW, jump(CHAIN.serviceEndpointsCheck)),
    rule('filter-forward', NEW_FLOW, jump(CHAIN.serviceEndpointsCheck)),
    rule('filter-forward', NEW_FLOW, jump(CHAIN.clusterIpsCheck)),
    rule('filter-output', NEW_FLOW, jump(CHAIN.serviceEndpointsCheck)),
    rule('filter-output', NEW_FLOW, jump(CHAIN.clusterIpsCheck)),
    rule('nat-postrouting', jump(CHAIN.masquerading)),
  ]
}

function checkRules(node: NodeView): NftRule[] {
  const allowed = {
    key: [...FRONTEND_KEY, { field: 'saddr' }],
    op: 'not in',
    set: SET.firewallAllow,
  } as const
  const rules = [
    rule(CHAIN.firewallCheck, { vmap: { key: FRONTEND_KEY, map: SET.firewallIps } }),
    rule(CHAIN.firewallSources, { matchSet: allowed }, { verdict: 'drop' }),
    rule(CHAIN.serviceEndpointsCheck, { vmap: { key: FRONTEND_KEY, map: SET.noEndpointServices } }),
    rule(CHAIN.nodePortEndpointsCheck, ...toNodePortAddress(node), {
      vmap: { key: NODE_PORT_KEY, map: SET.noEndpointNodePorts },
    }),
    {
      ...rule(CHAIN.clusterIpsCheck, inSet(SET.clusterIps), { reject: 'port-unreachable' } as const),
      comment: 'a port that no Service has on a ClusterIP',
    },
    rule(CHAIN.reject, { reject: 'port-unreachable' }),
  ]
  if (node.serviceCidrs.length === 0) return rules
  return [
    ...rules,
    {
      ...rule(CHAIN.clusterIpsCheck, is('daddr', ...node.serviceCidrs), { verdict: 'drop' }),
      comment: 'an address that no Service has',
    },
  ]
}

function dispatchRules(node: NodeView): NftRule[] {
  return [
    rule(CHAIN.services, { vmap: { key: FRONTEND_KEY, map: SET.serviceIps } }),
    rule(CHAIN.services, ...toNodePortAddress(node), {
      vmap: { key: NODE_PORT_KEY, map: SET.serviceNodePorts },
    }),
  ]
}

function masqueradeRules(node: NodeView): NftRule[] {
  const mark = masqueradeMark(node.masqueradeBit)
  const masquerade: NftStatement = { masquerade: { fullyRandom: true } }
  const hairpin = fields('saddr', 'daddr', 'l4proto', 'dport')
  return [
    rule(
      CHAIN.masquerading,
      { matchMark: { mask: mark, op: '!=', value: 0 } },
      { setMark: { and: 0xffff_ffff, xor: mark } },
      masquerade,
    ),
    rule(
      CHAIN.masquerading,
      is('ct status', 'dnat'),
      { matchSet: { key: hairpin, op: 'in', set: SET.hairpin } },
      masquerade,
    ),
  ]
}

/** Matches what is sent to an address that serves node ports; never loopback. */
function toNodePortAddress(node: NodeView): NftStatement[] {
  if (node.nodePortAddresses !== 'any-local') return [inSet(SET.nodePortIps)]
  return [is('fib daddr type', 'local'), isNot('daddr', node.family === 'IPv4' ? '127.0.0.0/8' : '::1')]
}

function inSet(set: string): NftStatement {
  return { matchSet: { key: fields('daddr'), op: 'in', set } }
}

const nodePortIp = (ip: string): NftElement => ({
  set: SET.nodePortIps,
  key: [ip],
  data: null,
  verdict: null,
  timeoutMs: null,
  comment: null,
})

function baseSets(node: NodeView): NftSet[] {
  const ip: NftType = node.family === 'IPv4' ? 'ipv4_addr' : 'ipv6_addr'
  const frontend = [ip, 'inet_proto', 'inet_service'] as const
  const nodePort = ['inet_proto', 'inet_service'] as const
  const endpoint = [ip, 'inet_service'] as const
  return [
    set(SET.serviceIps, frontend, 'verdict', 'what to do with traffic to a Service address'),
    set(SET.serviceNodePorts, nodePort, 'verdict', 'the same for node ports'),
    set(SET.endpoints, [...frontend, 'mark'], endpoint, 'Service address and index to endpoint'),
    set(SET.endpointsLocal, [...frontend, 'mark'], endpoint, 'the endpoints of this node'),
    set(SET.nodePortEndpoints, [...nodePort, 'mark'], endpoint, 'node port and index to endpoint'),
    set(SET.nodePortEndpointsLocal, [...nodePort, 'mark'], endpoint, 'the endpoints of this node'),
    set(SET.noEndpointServices, frontend, 'verdict', 'Service addresses with nobody to answer'),
    set(SET.noEndpointNodePorts, nodePort, 'verdict', 'node ports with nobody to answer'),
    set(SET.firewallIps, frontend, 'verdict', 'Service addresses with source ranges'),
    { ...set(SET.firewallAllow, [...frontend, ip], null, 'who may reach them'), interval: true },
    set(SET.clusterIps, [ip], null, 'ClusterIPs in use'),
    set(
      SET.hairpin,
      [ip, ip, 'inet_proto', 'inet_service'],
      null,
      'endpoints of this node reaching themselves',
    ),
    ...(node.nodePortAddresses === 'any-local'
      ? []
      : [set(SET.nodePortIps, [ip], null, 'addresses that serve node ports')]),
  ]
}

function set(name: string, key: readonly NftType[], data: NftSet['data'], comment: string): NftSet {
  return {
    name,
    comment,
    key,
    data,
    interval: false,
    dynamic: false,
    timeout: false,
    timeoutSeconds: null,
    size: null,
  }
}
