import { resolve } from 'node:path'
import type { ExecAccess, ExecApiVersion } from './access.ts'
import type { KubeconfigDocument, Place } from './kubeconfig-document.ts'

const VERSIONS: readonly ExecApiVersion[] = [
  'client.authentication.k8s.io/v1',
  'client.authentication.k8s.io/v1beta1',
]

/** Reads a user's `exec` entry; null if there is none or it cannot be used (then a problem is noted). */
export function readExec(
  doc: KubeconfigDocument,
  exec: Place,
  context: { readonly cluster: Place; readonly directory: string },
): ExecAccess | null {
  if (exec.node === null) return null
  const text = (name: string): string => doc.text(doc.field(exec, name))
  const versionPlace = doc.field(exec, 'apiVersion')
  const apiVersion = VERSIONS.find((version) => version === doc.text(versionPlace))
  if (apiVersion === undefined) {
    doc.complain(versionPlace, `must be ${VERSIONS.join(' or ')}`, exec)
    return null
  }
  const command = text('command')
  if (command === '')
    doc.complain(doc.field(exec, 'command'), 'is missing: the program that prints credentials', exec)
  checkInteractive(doc, exec, apiVersion)
  return {
    apiVersion,
    command: command.includes('/') ? resolve(context.directory, command) : command,
    args: doc.items(doc.field(exec, 'args')).map((item) => doc.text(item)),
    env: doc.items(doc.field(exec, 'env')).map((item) => ({
      name: doc.text(doc.field(item, 'name')),
      value: doc.text(doc.field(item, 'value')),
    })),
    installHint: text('installHint').trim(),
    provideClusterInfo: doc.truth(doc.field(exec, 'provideClusterInfo')),
    clusterConfig: execExtension(doc, context.cluster),
  }
}

/** A proxy has no terminal: a plugin that insists on one cannot work. v1 demands that the field is set. */
function checkInteractive(doc: KubeconfigDocument, exec: Place, apiVersion: ExecApiVersion): void {
  const place = doc.field(exec, 'interactiveMode')
  const mode = doc.text(place)
  if (mode === 'Always') {
    doc.complain(place, 'is Always, but there is no terminal here; use a plugin that works without one')
  } else if (mode === '' ? apiVersion === VERSIONS[0] : mode !== 'Never' && mode !== 'IfAvailable') {
    doc.complain(place, 'must be Never or IfAvailable', exec)
  }
}

function execExtension(doc: KubeconfigDocument, cluster: Place): unknown {
  for (const item of doc.items(doc.field(cluster, 'extensions'))) {
    if (doc.text(doc.field(item, 'name')) === 'client.authentication.k8s.io/exec') {
      return doc.value(doc.field(item, 'extension'))
    }
  }
  return null
}
