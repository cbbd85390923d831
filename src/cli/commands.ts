import type { CommandModule } from './io.ts'

/** Every command, loaded only when it is used: start-up time is part of the product. */
export const COMMANDS: Readonly<
  Record<string, { readonly summary: string; readonly load: () => Promise<CommandModule> }>
> = {
  bench: { summary: 'measure a full sync or one change', load: () => import('./bench.ts') },
  lab: {
    summary: 'run a small cluster in network namespaces on this machine',
    load: () => import('./lab.ts'),
  },
  compile: { summary: 'print what a proxy mode would install', load: () => import('./compile.ts') },
  trace: { summary: 'explain what happens to one packet, and why', load: () => import('./trace.ts') },
  run: { summary: 'the node agent, with the flags of kube-proxy', load: () => import('./run.ts') },
  cleanup: {
    summary: 'remove the rules of every proxy mode from this node',
    load: () => import('./cleanup.ts'),
  },
  expect: { summary: 'check packet-flow expectations', load: () => import('./expect.ts') },
  version: { summary: 'print the version', load: () => import('./version.ts') },
}
