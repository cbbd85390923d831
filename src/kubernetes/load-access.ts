import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ConfigError } from '../shared/errors.ts'
import { anonymousAccess, anonymousUser } from './access.ts'
import type { ClusterAccess } from './access.ts'
import { readKubeconfig } from './kubeconfig.ts'
import { normalizeServer } from './server-url.ts'

export interface AccessOptions {
  /** Path of a kubeconfig; empty for none. `$KUBECONFIG` is not looked at, as in kube-proxy. */
  readonly kubeconfig: string
  /** `--master`: wins over the kubeconfig's server; empty for none. */
  readonly master: string
  /** Context to use instead of the file's current-context; empty for that. */
  readonly context?: string
  /** For the service account of the pod; the default is the process's environment. */
  readonly env?: NodeJS.ProcessEnv
  readonly serviceAccountDir?: string
}

const SERVICE_ACCOUNT_DIR = '/var/run/secrets/kubernetes.io/serviceaccount'

/**
 * Finds out how to reach the API server: from the kubeconfig, from `--master`, or, with neither, from the pod this
 * runs in. Everything that can be wrong with the files is said here, once, before the first request.
 *
 * @throws ConfigError
 */
export async function loadAccess(options: AccessOptions): Promise<ClusterAccess> {
  const master = options.master === '' ? '' : normalizeServer(options.master, 'http', '--master')
  if (options.kubeconfig !== '') {
    return readKubeconfig(options.kubeconfig, { context: options.context ?? '', master })
  }
  if (master !== '') return anonymousAccess(master, '--master')
  return podAccess(options.env ?? process.env, options.serviceAccountDir ?? SERVICE_ACCOUNT_DIR)
}

/** What Kubernetes gives every pod: https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/ */
async function podAccess(env: NodeJS.ProcessEnv, dir: string): Promise<ClusterAccess> {
  const host = env['KUBERNETES_SERVICE_HOST'] ?? ''
  const port = env['KUBERNETES_SERVICE_PORT'] ?? ''
  if (host === '' || port === '') {
    const message =
      'no kubeconfig is given and this is not a pod (KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set). ' +
      'Give --kubeconfig FILE, clientConnection.kubeconfig in the configuration file, or --master URL.'
    throw new ConfigError('API_NOT_CONFIGURED', [
      { file: 'the address of the API server is not known', line: null, column: null, path: '', message },
    ])
  }
  const tokenFile = join(dir, 'token')
  const token = await readServiceAccountFile(tokenFile)
  const authority = join(dir, 'ca.crt')
  await readServiceAccountFile(authority)
  const bracketed = host.includes(':') && !host.startsWith('[') ? `[${host}]` : host
  return {
    server: normalizeServer(`https://${bracketed}:${port}`, 'https', 'KUBERNETES_SERVICE_HOST'),
    source: `the service account of this pod (${dir})`,
    tls: { authority: { kind: 'file', path: authority }, insecureSkipVerify: false, serverName: null },
    proxyUrl: null,
    user: { ...anonymousUser('the service account of this pod'), token: token.trim(), tokenFile },
  }
}

async function readServiceAccountFile(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    const message =
      `the pod's service account cannot be used: this cannot be read (${(cause as NodeJS.ErrnoException).code}). ` +
      'Give the pod a serviceAccountName and leave automountServiceAccountToken on, or give --kubeconfig FILE.'
    throw new ConfigError(
      'SERVICE_ACCOUNT_UNREADABLE',
      [{ file: path, line: null, column: null, path: '', message }],
      { cause },
    )
  }
}
