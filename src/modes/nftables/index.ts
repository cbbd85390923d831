import { viewOf } from '../../kernel/nft/rule-view.ts'
import type { ProxyMode } from '../mode.ts'
import { compile } from './compile.ts'
import { apply, cleanup, preflight, verify, watchDrift } from './kernel.ts'
import type { NftablesRules } from './rules.ts'
import { contents, print } from './rules.ts'
import { traceTables } from './trace.ts'

/** Services by nf_tables maps: see README.md beside this file. */
export const nftables: ProxyMode<NftablesRules, 'nft'> = {
  name: 'nftables',
  needs: ['nft'],
  traits: {
    keepsClientIp: true,
    sctp: true,
    loopbackNodePorts: false,
    unusedClusterIpPort: 'REJECT',
    unknownServiceIp: 'DROP',
    sourceRangesBeforeEndpoints: true,
    flowsSurviveAgent: true,
    virtualIpsBoundOnNode: false,
    affinityGranularity: 'service port',
  },
  compile,
  trace: (rules, packet, node, options) => traceTables([viewOf(contents(rules))], packet, node, options),
  print,
  preflight,
  apply,
  verify,
  watchDrift,
  cleanup,
}
