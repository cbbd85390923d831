import { networkInterfaces } from 'node:os'
import { readNftJson } from '../kernel/nft/json.ts'
import { viewOf } from '../kernel/nft/rule-view.ts'
import { run as runProgram } from '../kernel/shell.ts'
import { modeByName } from '../modes/registry.ts'
import { traceTables } from '../modes/nftables/trace.ts'
import type { Trace } from '../modes/trace.ts'
import { familyOf, parseIp } from '../net/ip.ts'
import type { Ip } from '../net/ip.ts'
import type { Packet } from '../net/packet.ts'
import { ProxyError, UnsupportedError, UsageError } from '../shared/errors.ts'
import { explain } from '../trace/explain.ts'
import { withHealthPorts } from '../trace/health.ts'
import { serviceNames } from '../trace/names.ts'
import { packetFrom, parseDestination } from '../trace/packet.ts'
import { traceReport } from '../trace/report.ts'
import { serviceMaps } from '../trace/service-maps.ts'
import { commandParser, isJson, parseArguments } from './arguments.ts'
import type { ClusterSource } from './cluster-source.ts'
import { clusterOfFiles, clusterOfServer, readConfiguration } from './cluster-source.ts'
import type { Io } from './io.ts'

interface Options {
  readonly to?: string
  readonly from: string
  readonly objects?: readonly string[]
  readonly cluster?: boolean
  readonly kernel?: boolean
  readonly kubeconfig?: string
  readonly node?: string
  readonly mode?: string
  readonly config?: string
  readonly output: string
}

interface Traced {
  readonly trace: Trace
  readonly packet: Packet
}

/** `switchback trace`: the way of one packet through the proxy's rules, step by step. */
export async function run(argv: readonly string[], io: Io): Promise<number> {
  const parser = commandParser('trace', 'Explain what happens to one packet, and why.', io)
    .option('--to <addr:port[/udp|/sctp]>', 'where the packet goes')
    .option('--from <source>', 'pod:NAMESPACE/NAME, host, or an address', 'host')
    .option('--objects <path...>', 'from YAML or JSON files alone')
    .option('--cluster', 'from the API server')
    .option('--kernel', "from this machine's live kernel rules, whoever wrote them")
    .option('--kubeconfig <file>', 'for --cluster (default: $KUBECONFIG)')
    .option('--node <name>', 'the node that the packet reaches')
    .option('--mode <mode>', 'proxy mode (default: that of --config)')
    .option('--config <file>', 'KubeProxyConfiguration file')
    .option('-o, --output <form>', 'text or json', 'text')
  const parsed = parseArguments<Options>(parser, argv)
  if (parsed === null) return 0
  const { options } = parsed
  const json = isJson(options.output)
  const traced = await traceWith(options, io)
  if (json) io.stdout.write(`${JSON.stringify(traceReport(traced.trace), null, 2)}\n`)
  else io.stdout.write(`${explain(traced.trace, traced.packet)}\n`)
  return 0
}

async function traceWith(options: Options, io: Io): Promise<Traced> {
  if (options.to === undefined) throw new UsageError('--to ADDR:PORT is needed: where the packet goes.')
  const sources = [options.objects !== undefined, options.cluster === true, options.kernel === true]
  if (sources.filter(Boolean).length !== 1) {
    throw new UsageError('Say once where the rules come from: --objects PATH, --cluster or --kernel.')
  }
  if (options.kernel === true) return traceKernel(options, options.to)
  const source =
    options.objects === undefined
      ? await clusterOfServer(options.kubeconfig, options.node, io)
      : await clusterOfFiles(options.objects, options.node, io)
  return traceCluster(options, options.to, source, io)
}

async function traceCluster(options: Options, to: string, source: ClusterSource, io: Io): Promise<Traced> {
  const config = await readConfiguration(options.config, io)
  const mode = modeByName(options.mode ?? config.mode)
  const destination = parseDestination(to)
  const { state, objects, nodeName } = source
  const maps = serviceMaps({ state, nodeName, mode: mode.name, config, addresses: null, serviceCidrs: [] })
  const map = maps[familyOf(destination.ip)]
  const context = { nodeName, localIps: map.node.localIps, state, objects, config }
  const packet = packetFrom(options.from, destination, context)
  const names = serviceNames([maps.IPv4, maps.IPv6])
  const trace = mode.trace(mode.compile(map), packet, map.node, { names })
  return { trace: withHealthPorts(trace, packet, map), packet }
}

/** The rules that this network namespace has now. Only what they themselves say about Services is known. */
async function traceKernel(options: Options, to: string): Promise<Traced> {
  const destination = parseDestination(to)
  const localIps = ownAddresses()
  const context = { nodeName: 'this machine', localIps, state: null, objects: [], config: null }
  const packet = packetFrom(options.from, destination, context)
  const views = readNftJson(await listRuleset()).map(viewOf)
  return { trace: traceTables(views, packet, { family: familyOf(destination.ip), localIps }), packet }
}

function ownAddresses(): readonly Ip[] {
  return Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .flatMap(({ address }) => parseIp(address) ?? [])
}

async function listRuleset(): Promise<string> {
  try {
    // nft lies where ordinary users' PATH often does not lead.
    const env = { PATH: `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin` }
    return (await runProgram(['nft', '-j', 'list', 'ruleset'], { env })).stdout
  } catch (cause) {
    if (!(cause instanceof ProxyError)) throw cause
    const fix = 'Install nftables and run the command as root, in the network namespace of the node.'
    throw new UnsupportedError(
      'KERNEL_RULES_UNREADABLE',
      'Reading the rules of the kernel',
      `nft: ${cause.message}`,
      fix,
      {
        cause,
      },
    )
  }
}
