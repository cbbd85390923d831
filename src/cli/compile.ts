import { IP_FAMILIES } from '../net/family.ts'
import { modeByName } from '../modes/registry.ts'
import { UsageError } from '../shared/errors.ts'
import { serviceMaps } from '../trace/service-maps.ts'
import { commandParser, isJson, parseArguments } from './arguments.ts'
import { clusterOfFiles, readConfiguration } from './cluster-source.ts'
import type { Io } from './io.ts'

interface Options {
  readonly objects?: readonly string[]
  readonly node?: string
  readonly mode?: string
  readonly config?: string
  readonly output: string
}

/** `switchback compile`: what a mode would install, in the tool's syntax; needs no root, no cluster, no kernel. */
export async function run(argv: readonly string[], io: Io): Promise<number> {
  const parser = commandParser('compile', "Print what a mode would install, in the kernel tool's syntax.", io)
    .option(
      '--objects <path...>',
      'files or directories with Services, EndpointSlices and Nodes (YAML or JSON)',
    )
    .option('--node <name>', 'the node to compile for; may be left out when the files hold one Node')
    .option('--mode <mode>', 'proxy mode (default: that of --config)')
    .option('--config <file>', 'KubeProxyConfiguration file')
    .option('-o, --output <form>', 'text or json', 'text')
  const parsed = parseArguments<Options>(parser, argv)
  if (parsed === null) return 0
  const { options } = parsed
  if (options.objects === undefined) {
    throw new UsageError('--objects PATH is needed: the files with the Services to compile.')
  }
  const json = isJson(options.output)
  const config = await readConfiguration(options.config, io)
  const mode = modeByName(options.mode ?? config.mode)
  const { state, nodeName } = await clusterOfFiles(options.objects, options.node, io)
  const maps = serviceMaps({ state, nodeName, mode: mode.name, config, addresses: null, serviceCidrs: [] })
  const printed = IP_FAMILIES.map((family) => ({ family, text: mode.print(mode.compile(maps[family])) }))
  const rules = Object.fromEntries(printed.map(({ family, text }) => [family, text]))
  if (json) io.stdout.write(`${JSON.stringify({ mode: mode.name, node: nodeName, rules }, null, 2)}\n`)
  else io.stdout.write(printed.map(({ text }) => text).join('\n'))
  return 0
}
