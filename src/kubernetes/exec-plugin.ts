import { spawn } from 'node:child_process'
import { ProxyError } from '../shared/errors.ts'
import type { Clock } from '../shared/clock.ts'
import type { ClusterAccess, ExecAccess } from './access.ts'

/** What a credential program printed. `expiresAt` is in ms since the epoch; null means until the server refuses it. */
export interface ExecCredential {
  readonly token: string | null
  readonly certificate: string | null
  readonly key: string | null
  readonly expiresAt: number | null
}

interface ExecAnswer {
  readonly kind?: string
  readonly apiVersion?: string
  readonly status?: {
    readonly token?: string
    readonly clientCertificateData?: string
    readonly clientKeyData?: string
    readonly expirationTimestamp?: string
  }
}

const MAX_OUTPUT = 1 << 20

/**
 * Runs a user's credential program (client.authentication.k8s.io) and reads what it prints.
 *
 * @param authority PEM of the cluster's authority, for programs that ask for the cluster
 * @throws ProxyError CREDENTIAL_PLUGIN_MISSING, CREDENTIAL_PLUGIN_FAILED
 */
export async function runExecPlugin(
  exec: ExecAccess,
  access: ClusterAccess,
  options: { readonly authority: string | null; readonly timeoutMs: number; readonly clock: Clock },
): Promise<ExecCredential> {
  const info = JSON.stringify({
    apiVersion: exec.apiVersion,
    kind: 'ExecCredential',
    spec: {
      interactive: false,
      ...(exec.provideClusterInfo ? { cluster: clusterInfo(exec, access, options.authority) } : {}),
    },
  })
  const env = {
    ...process.env,
    ...Object.fromEntries(exec.env.map(({ name, value }) => [name, value])),
    KUBERNETES_EXEC_INFO: info,
  }
  const output = await runProgram(exec, access.source, env, options)
  return readAnswer(exec, access.source, output)
}

function clusterInfo(exec: ExecAccess, access: ClusterAccess, authority: string | null): unknown {
  return {
    server: access.server,
    ...(access.tls.serverName === null ? {} : { 'tls-server-name': access.tls.serverName }),
    ...(access.tls.insecureSkipVerify ? { 'insecure-skip-tls-verify': true } : {}),
    ...(authority === null
      ? {}
      : { 'certificate-authority-data': Buffer.from(authority).toString('base64') }),
    ...(access.proxyUrl === null ? {} : { 'proxy-url': access.proxyUrl }),
    ...(exec.clusterConfig === null ? {} : { config: exec.clusterConfig }),
  }
}

/** Spawned here and not through kernel/shell, which this layer cannot see. Resolves to what the program printed. */
function runProgram(
  exec: ExecAccess,
  source: string,
  env: NodeJS.ProcessEnv,
  options: { readonly timeoutMs: number; readonly clock: Clock },
): Promise<string> {
  return new Promise((resolve, reject) => {
    // A process group of its own, so that what the program started ends with it when it must be ended.
    const child = spawn(exec.command, [...exec.args], {
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    })
    const out: Buffer[] = []
    const err: Buffer[] = []
    let size = 0
    let killedFor = ''
    const kill = (why: string): void => {
      if (killedFor !== '' || child.pid === undefined) return
      killedFor = why
      child.stdout.destroy()
      child.stderr.destroy()
      endGroup(child.pid)
    }
    const keep = (into: Buffer[]) => (chunk: Buffer) => {
      size += chunk.length
      if (size > MAX_OUTPUT) kill('printed more than 1 MiB')
      else into.push(chunk)
    }
    child.stdout.on('data', keep(out))
    child.stderr.on('data', keep(err))
    const cancel = options.clock.after(options.timeoutMs, () =>
      kill(`did not end within ${options.timeoutMs / 1000} s`),
    )
    child.on('error', (cause) => {
      cancel()
      reject(notStarted(exec, source, cause))
    })
    child.on('close', (code, signal) => {
      cancel()
      if (killedFor === '' && code === 0) resolve(Buffer.concat(out).toString('utf8'))
      else {
        const how =
          killedFor !== '' ? killedFor : code === null ? `was ended by ${signal}` : `exited with ${code}`
        const said = Buffer.concat(err).toString('utf8').trim()
        reject(failed(exec, source, `it ${how}${said === '' ? '' : `, saying: ${said.slice(-1000)}`}`))
      }
    })
  })
}

function endGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

function notStarted(exec: ExecAccess, source: string, cause: Error): ProxyError {
  const code = (cause as NodeJS.ErrnoException).code
  if (code !== 'ENOENT') return failed(exec, source, `it could not be started (${code})`, cause)
  const hint = exec.installHint === '' ? 'Install it, or correct "command".' : exec.installHint
  return new ProxyError(
    'CREDENTIAL_PLUGIN_MISSING',
    `The program "${exec.command}", which ${source} names for getting credentials, is not installed here. ${hint}`,
    { cause },
  )
}

function failed(exec: ExecAccess, source: string, why: string, cause?: unknown): ProxyError {
  return new ProxyError(
    'CREDENTIAL_PLUGIN_FAILED',
    `The program "${exec.command}", which ${source} names for getting credentials, gave none: ${why}. ` +
      'Run it by hand to see what it needs.',
    { cause },
  )
}

function readAnswer(exec: ExecAccess, source: string, output: string): ExecCredential {
  let answer: ExecAnswer | null
  try {
    answer = JSON.parse(output) as ExecAnswer | null
  } catch (cause) {
    throw failed(exec, source, 'what it printed is not JSON', cause)
  }
  if (answer?.kind !== 'ExecCredential' || answer.apiVersion !== exec.apiVersion) {
    const got = `${String(answer?.kind)} of ${String(answer?.apiVersion)}`
    throw failed(exec, source, `it printed ${got}, not ExecCredential of ${exec.apiVersion}`)
  }
  const { token, clientCertificateData, clientKeyData, expirationTimestamp } = answer.status ?? {}
  if ((clientCertificateData === undefined) !== (clientKeyData === undefined)) {
    throw failed(exec, source, 'it printed a certificate without its key, or the other way round')
  }
  if (token === undefined && clientCertificateData === undefined) {
    throw failed(exec, source, 'its "status" holds neither a token nor a certificate')
  }
  const expiresAt = expirationTimestamp === undefined ? null : Date.parse(expirationTimestamp)
  if (Number.isNaN(expiresAt))
    throw failed(exec, source, `expirationTimestamp "${expirationTimestamp}" is no time`)
  return {
    token: token ?? null,
    certificate: clientCertificateData ?? null,
    key: clientKeyData ?? null,
    expiresAt,
  }
}
