import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { UsageError } from '../shared/errors.ts'
import { inPod, podNamespace, resolverFile } from './cluster/pod-network.ts'
import type { LabInstance, LabState } from './instance.ts'
import { inNamespace } from './namespaces.ts'
import { LAB } from './plan.ts'
import { CONTROL, OUTSIDE, UNDERLAY } from './topology.ts'

/** A place in the lab where a program can run. */
export type LabTarget =
  | { readonly kind: 'namespace'; readonly name: string }
  | { readonly kind: 'pod'; readonly namespace: string; readonly name: string }

/** Reads `pod:NAMESPACE/NAME`, `pod:NAME` (namespace default), or the name of a node, `outside`, `control` or `underlay`. */
export function parseTarget(text: string): LabTarget {
  const pod = /^pod:(?:([^/]+)\/)?([^/]+)$/.exec(text)
  if (pod !== null) return { kind: 'pod', namespace: pod[1] ?? 'default', name: pod[2]! }
  const names = [...LAB.nodes.map(({ name }) => name), OUTSIDE, CONTROL, UNDERLAY]
  if (names.includes(text)) return { kind: 'namespace', name: text }
  throw new UsageError(`"${text}" is no place in the lab: use pod:NAMESPACE/NAME, ${names.join(', ')}`)
}

/**
 * The command line that runs `argv` at a place of a running lab, for a process outside. The machine's files are the
 * same inside (except /run, /proc), so relative paths work.
 */
export function enterArgv(
  instance: LabInstance,
  state: LabState,
  target: LabTarget,
  argv: readonly string[],
): readonly string[] {
  const inside =
    target.kind === 'namespace'
      ? inNamespace(target.name, argv)
      : inPodOf(instance, target.namespace, target.name, argv)
  return [
    'nsenter',
    `--target=${state.supervisorPid}`,
    ...(state.userNamespace ? ['--user', '--preserve-credentials'] : []),
    '--mount',
    '--pid',
    'sh',
    '-c',
    'cd "$0" 2>/dev/null || cd /; exec "$@"',
    process.cwd(),
    // nsenter waits for a child in the lab and hands no signal on: its end is told this way.
    'setpriv',
    '--pdeathsig=TERM',
    ...inside,
  ]
}

/** kubectl's command line for this lab, up to its own arguments. Its cache goes with the lab. */
export function kubectlArgv(instance: LabInstance): readonly string[] {
  return [
    'kubectl',
    `--kubeconfig=${instance.kubeconfig}`,
    `--cache-dir=${join(instance.dir, 'kubectl-cache')}`,
  ]
}

function inPodOf(
  instance: LabInstance,
  namespace: string,
  name: string,
  argv: readonly string[],
): readonly string[] {
  const resolver = resolverFile(instance.dir, namespace, name)
  if (!existsSync(resolver)) {
    throw new UsageError(
      `no pod ${namespace}/${name} runs in the lab. "switchback lab status" lists the pods; logs are in ${join(instance.dir, 'logs')}`,
    )
  }
  return inPod(podNamespace(namespace, name), resolver, argv)
}
