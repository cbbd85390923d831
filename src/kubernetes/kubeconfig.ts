import { readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { ConfigError } from '../shared/errors.ts'
import type { ClusterAccess, Pem, TlsAccess } from './access.ts'
import { readCredentialFile, readPem } from './credential-file.ts'
import { readExec } from './kubeconfig-exec.ts'
import { KubeconfigDocument } from './kubeconfig-document.ts'
import type { Place } from './kubeconfig-document.ts'
import { readUser } from './kubeconfig-user.ts'
import { normalizeServer, serverProblem, withScheme } from './server-url.ts'

export interface KubeconfigChoice {
  /** Context instead of the file's current-context; empty for that. */
  readonly context: string
  /** Server instead of the cluster's, already normal; empty for that. */
  readonly master: string
}

/**
 * Reads one kubeconfig (https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/). Paths in it are relative to
 * its own directory. The files that it names are read once, so that a wrong path is reported here and not by the
 * first handshake.
 *
 * @throws ConfigError KUBECONFIG_MISSING, KUBECONFIG_UNREADABLE, CREDENTIAL_FILE_UNREADABLE, CREDENTIAL_FILE_INVALID;
 * KUBECONFIG_MALFORMED, KUBECONFIG_INVALID: every mistake with file, line and column
 */
export async function readKubeconfig(file: string, choice: KubeconfigChoice): Promise<ClusterAccess> {
  const doc = new KubeconfigDocument(file, await readText(file))
  if (doc.root.node === null)
    doc.complain(doc.root, 'the file is empty; it must be a kubeconfig (kind: Config)')
  const { name, cluster, user, userName } = chooseContext(doc, choice)
  doc.throwProblems()
  const directory = dirname(resolve(file))
  const access: ClusterAccess = {
    server: readServer(doc, cluster, choice.master),
    source: `${file} (context "${name}")`,
    tls: readTls(doc, cluster, directory),
    proxyUrl: readProxyUrl(doc, doc.field(cluster, 'proxy-url')),
    user: readUser(doc, user, {
      description: userName === '' ? 'nobody (the context names no user)' : `user "${userName}"`,
      directory,
      exec: (place) => readExec(doc, place, { cluster, directory }),
    }),
  }
  doc.throwProblems()
  await checkFiles(access)
  return access
}

async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (cause) {
    const reason = (cause as NodeJS.ErrnoException).code ?? ''
    const missing = reason === 'ENOENT'
    const message = missing
      ? 'there is no such kubeconfig. Give the right path with --kubeconfig or clientConnection.kubeconfig, or none at all inside a pod.'
      : `this kubeconfig cannot be read (${reason}). Check what it is and who may read it.`
    throw new ConfigError(
      missing ? 'KUBECONFIG_MISSING' : 'KUBECONFIG_UNREADABLE',
      [{ file, line: null, column: null, path: '', message }],
      { cause },
    )
  }
}

interface ChosenContext {
  readonly name: string
  readonly cluster: Place
  readonly user: Place
  readonly userName: string
}

function chooseContext(doc: KubeconfigDocument, choice: KubeconfigChoice): ChosenContext {
  const current = doc.field(doc.root, 'current-context')
  const name = choice.context === '' ? doc.text(current) : choice.context
  const nothing: Place = { node: null, path: '' }
  if (name === '') {
    const names = namesOf(doc, 'contexts')
    doc.complain(
      current,
      `is not set, so it is not known which cluster is meant; ${oneOf('contexts', names)}`,
    )
    return { name, cluster: nothing, user: nothing, userName: '' }
  }
  const context = named(doc, 'contexts', 'context', name, choice.context === '' ? current : doc.root)
  if (context === null) return { name, cluster: nothing, user: nothing, userName: '' }
  const clusterField = doc.field(context, 'cluster')
  const clusterName = doc.text(clusterField)
  if (clusterName === '') doc.complain(clusterField, `context "${name}" names no cluster`, context)
  const cluster = clusterName === '' ? null : named(doc, 'clusters', 'cluster', clusterName, clusterField)
  const userField = doc.field(context, 'user')
  const userName = doc.text(userField)
  const user = userName === '' ? null : named(doc, 'users', 'user', userName, userField)
  return { name, cluster: cluster ?? nothing, user: user ?? nothing, userName }
}

/** The entry called `name` of one of the three lists; complains at `from`, where the name stands, if there is none. */
function named(doc: KubeconfigDocument, list: string, kind: string, name: string, from: Place): Place | null {
  for (const item of doc.items(doc.field(doc.root, list))) {
    if (doc.text(doc.field(item, 'name')) === name) return doc.field(item, kind)
  }
  doc.complain(from, `there is no ${kind} "${name}"; ${oneOf(list, namesOf(doc, list))}`)
  return null
}

function namesOf(doc: KubeconfigDocument, list: string): string[] {
  return doc.items(doc.field(doc.root, list)).map((item) => doc.text(doc.field(item, 'name')))
}

function oneOf(list: string, names: readonly string[]): string {
  return names.length === 0 ? `the file has no ${list}` : `the ${list} of the file are ${names.join(', ')}`
}

function readServer(doc: KubeconfigDocument, cluster: Place, master: string): string {
  if (master !== '') return master
  const place = doc.field(cluster, 'server')
  const text = doc.text(place)
  if (text === '') {
    doc.complain(place, 'the address of the API server is missing (e.g. https://192.0.2.1:6443)', cluster)
    return ''
  }
  const hasTls = ['certificate-authority', 'certificate-authority-data', 'insecure-skip-tls-verify'].some(
    (name) => doc.field(cluster, name).node !== null,
  )
  const scheme = hasTls ? 'https' : 'http'
  const problem = serverProblem(withScheme(text, scheme))
  if (problem !== null) {
    doc.complain(place, `${problem}; write it like https://192.0.2.1:6443 or https://[2001:db8::1]:6443`)
    return ''
  }
  return normalizeServer(text, scheme, place.path)
}

function readTls(doc: KubeconfigDocument, cluster: Place, directory: string): TlsAccess {
  const insecure = doc.field(cluster, 'insecure-skip-tls-verify')
  const authority = readPem(doc, cluster, 'certificate-authority', directory)
  const insecureSkipVerify = doc.truth(insecure)
  if (insecureSkipVerify && authority !== null) {
    doc.complain(
      insecure,
      'cannot be true while a certificate authority is given: one says "check", the other "do not"; remove one',
    )
  }
  const serverName = doc.text(doc.field(cluster, 'tls-server-name'))
  return { authority, insecureSkipVerify, serverName: serverName === '' ? null : serverName }
}

function readProxyUrl(doc: KubeconfigDocument, place: Place): string | null {
  const text = doc.text(place)
  if (text === '') return null
  let url: URL
  try {
    url = new URL(text)
  } catch {
    doc.complain(place, `"${text}" is not a URL; write it like http://proxy.example:3128`)
    return null
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    doc.complain(
      place,
      `"${url.protocol}" proxies are not supported; use an http:// or https:// proxy that allows CONNECT`,
    )
    return null
  }
  return text
}

/** Reads every file that the access names, to complain early and by name. */
async function checkFiles(access: ClusterAccess): Promise<void> {
  const { user, tls } = access
  const pems: [string, Pem | null][] = [
    ['certificate-authority', tls.authority],
    ['client-certificate', user.certificate?.certificate ?? null],
    ['client-key', user.certificate?.key ?? null],
  ]
  for (const [field, pem] of pems) {
    if (pem?.kind !== 'file') continue
    const text = await readCredentialFile(pem.path, `${field} of ${access.source}`)
    if (!text.includes('-----BEGIN ')) {
      const message = `${field} of ${access.source} must be a PEM file, but this has no "-----BEGIN" line. Point the kubeconfig to the right file.`
      throw new ConfigError('CREDENTIAL_FILE_INVALID', [
        { file: pem.path, line: null, column: null, path: '', message },
      ])
    }
  }
  if (user.tokenFile !== null && user.token === null) {
    await readCredentialFile(user.tokenFile, `tokenFile of ${access.source}`)
  }
}
