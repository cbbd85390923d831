import { readFileSync, renameSync, rmSync, unlinkSync, utimesSync } from 'node:fs'
import * as http from 'node:http'
import { join } from 'node:path'
import type * as tls from 'node:tls'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { http2Server } from '../../test/support/api-servers.ts'
import { TestAuthority } from '../../test/support/certificates.ts'
import { sendJson, sendStatus } from '../../test/support/fake-collection.ts'
import { listen } from '../../test/support/loopback-server.ts'
import { temporaryDirectory } from '../../test/support/temporary-directory.ts'
import type { TemporaryDirectory } from '../../test/support/temporary-directory.ts'
import type { ProxyError } from '../shared/errors.ts'
import { anonymousAccess } from './access.ts'
import type { ClusterAccess, ExecAccess, UserAccess } from './access.ts'
import { ApiClient } from './client.ts'
import type { ClientTiming } from './client.ts'

let dir: TemporaryDirectory
const open: AsyncDisposable[] = []

beforeEach(() => {
  dir = temporaryDirectory()
})

afterEach(async () => {
  for (const thing of open.splice(0).toReversed()) await thing[Symbol.asyncDispose]()
  dir[Symbol.dispose]()
})

/** A server that accepts one token, which the test changes; gives the tokens it was shown. */
async function tokenServer(): Promise<{ url: string; shown: string[]; accept: (token: string) => void }> {
  let accepted = ''
  const shown: string[] = []
  const server = await listen(
    http.createServer((request, response) => {
      shown.push((request.headers.authorization ?? '').replace('Bearer ', ''))
      if (shown.at(-1) === accepted) sendJson(response, 200, {})
      else sendStatus(response, 401, 'Unauthorized', 'Unauthorized')
    }),
  )
  open.push(server)
  return { url: `http://127.0.0.1:${server.port}`, shown, accept: (token) => void (accepted = token) }
}

function clientOf(access: ClusterAccess, timing: Partial<ClientTiming> = {}): ApiClient {
  const client = new ApiClient({ access, userAgent: 't', qps: -1, env: {}, timing })
  open.push(client)
  return client
}

function accessTo(url: string, user: Partial<UserAccess>): ClusterAccess {
  const access = anonymousAccess(url, '/etc/test.conf')
  return { ...access, user: { ...access.user, ...user } }
}

/** Replaces a file as the kubelet does: atomically. */
function replaceFile(path: string, text: string): void {
  renameSync(dir.write('new', text), path)
}

describe('a token file', () => {
  test('is read again when it is old enough', async () => {
    const { url, shown, accept } = await tokenServer()
    const tokenFile = dir.write('token', 'one\n')
    const client = clientOf(accessTo(url, { tokenFile }), { credentialMaxAgeMs: 0 })
    accept('one')
    await client.get('/')
    accept('two')
    replaceFile(tokenFile, 'two\n')
    await client.get('/')
    expect(shown).toEqual(['one', 'two'])
  })

  test('is read again after a 401, whatever its age, and the request repeated', async () => {
    const { url, shown, accept } = await tokenServer()
    const tokenFile = dir.write('token', 'one')
    const client = clientOf(accessTo(url, { tokenFile }))
    accept('one')
    await client.get('/')
    replaceFile(tokenFile, 'two')
    await client.get('/')
    expect(shown).toEqual(['one', 'one'])
    accept('two')
    await client.get('/')
    expect(shown).toEqual(['one', 'one', 'one', 'two'])
  })

  test('that is refused again is an error after one repetition', async () => {
    const { url, shown } = await tokenServer()
    const client = clientOf(accessTo(url, { tokenFile: dir.write('token', 'bad') }))
    await expect(client.get('/')).rejects.toMatchObject({ code: 'API_UNAUTHORIZED' })
    expect(shown).toEqual(['bad', 'bad'])
  })

  test('that disappears keeps its last content', async () => {
    const { url, accept } = await tokenServer()
    const tokenFile = dir.write('token', 'one')
    const client = clientOf(accessTo(url, { tokenFile }), { credentialMaxAgeMs: 0 })
    accept('one')
    await client.get('/')
    unlinkSync(tokenFile)
    expect(await client.get('/')).toEqual({})
  })

  test('that cannot be read gives way to the token, if there is one', async () => {
    const { url, accept } = await tokenServer()
    accept('fixed')
    const tokenFile = join(dir.path, 'missing')
    expect(await clientOf(accessTo(url, { tokenFile, token: 'fixed' })).get('/')).toEqual({})
    await expect(clientOf(accessTo(url, { tokenFile })).get('/')).rejects.toMatchObject({
      code: 'CREDENTIAL_FILE_UNREADABLE',
    })
  })
})

describe('a client certificate file', () => {
  test('that was renewed is presented by new connections, without a restart', async () => {
    const authority = new TestAuthority()
    const server = await listen(
      http2Server({ authority, clientCertificates: true }, (request, response) => {
        sendJson(response, 200, (request.socket as tls.TLSSocket).getPeerCertificate().subject.CN)
      }),
    )
    open.push(server)
    const first = authority.issue({ name: 'first' })
    const certificate = dir.write('crt', first.certificate)
    const key = dir.write('key', first.key)
    const access = accessTo(`https://127.0.0.1:${server.port}`, {
      certificate: { certificate: { kind: 'file', path: certificate }, key: { kind: 'file', path: key } },
    })
    const client = clientOf(
      { ...access, tls: { ...access.tls, authority: { kind: 'data', text: authority.certificate } } },
      { credentialMaxAgeMs: 0 },
    )
    expect(await client.get('/')).toBe('first')
    expect(await client.get('/')).toBe('first')
    expect(server.accepted).toBe(1)
    const second = authority.issue({ name: 'second' })
    replaceFile(key, second.key)
    replaceFile(certificate, second.certificate)
    utimesSync(certificate, new Date(), new Date())
    expect(await client.get('/')).toBe('second')
    expect(server.accepted).toBe(2)
  })
})

describe('a credential program', () => {
  function plugin(script: string, more: Partial<ExecAccess> = {}): ExecAccess {
    const command = dir.write('plugin', `#!/bin/sh\n${script}\n`, 0o700)
    return {
      apiVersion: 'client.authentication.k8s.io/v1',
      command,
      args: [],
      env: [],
      installHint: '',
      provideClusterInfo: false,
      clusterConfig: null,
      ...more,
    }
  }

  function answer(status: object, apiVersion = 'client.authentication.k8s.io/v1'): string {
    return `cat <<'END'\n${JSON.stringify({ apiVersion, kind: 'ExecCredential', status })}\nEND`
  }

  const runs = (): number => readFileSync(join(dir.path, 'runs'), 'utf8').length
  const countRun = (): string => `printf x >> '${dir.path}/runs'`

  test('gives a token that is kept until it ends', async () => {
    const { url, shown, accept } = await tokenServer()
    accept('fresh')
    const later = new Date(Date.now() + 3_600_000).toISOString()
    const exec = plugin(`${countRun()}\n${answer({ token: 'fresh', expirationTimestamp: later })}`)
    const client = clientOf(accessTo(url, { exec }))
    await Promise.all([client.get('/'), client.get('/')])
    await client.get('/')
    expect(shown).toEqual(['fresh', 'fresh', 'fresh'])
    expect(runs()).toBe(1)
  })

  test('is run again when its token is about to end', async () => {
    const { url, accept } = await tokenServer()
    accept('short')
    const soon = new Date(Date.now() + 5000).toISOString()
    const exec = plugin(`${countRun()}\n${answer({ token: 'short', expirationTimestamp: soon })}`)
    const client = clientOf(accessTo(url, { exec }))
    await client.get('/')
    await client.get('/')
    expect(runs()).toBe(2)
  })

  test('is run again after a 401, but not for every 401', async () => {
    const { url, shown, accept } = await tokenServer()
    accept('t-xx')
    const exec = plugin(`${countRun()}
printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t-%s"}}' "$(cat '${dir.path}/runs')"`)
    const client = clientOf(accessTo(url, { exec }), { execMinIntervalMs: 0 })
    await client.get('/')
    expect(shown).toEqual(['t-x', 't-xx'])
    const patient = clientOf(accessTo(url, { exec }))
    accept('never')
    await expect(patient.get('/')).rejects.toMatchObject({ code: 'API_UNAUTHORIZED' })
    await expect(patient.get('/')).rejects.toMatchObject({ code: 'API_UNAUTHORIZED' })
    expect(runs()).toBe(3)
  })

  test('of v1beta1 gives a client certificate, and is told about the cluster', async () => {
    const authority = new TestAuthority()
    const server = await listen(
      http2Server({ authority, clientCertificates: true }, (request, response) => {
        sendJson(response, 200, (request.socket as tls.TLSSocket).getPeerCertificate().subject.CN)
      }),
    )
    open.push(server)
    const { certificate, key } = authority.issue({ name: 'by-plugin' })
    const apiVersion = 'client.authentication.k8s.io/v1beta1'
    const exec = plugin(
      `printf '%s' "$KUBERNETES_EXEC_INFO" > '${dir.path}/info'; printf '%s' "$1 $EXTRA" > '${dir.path}/seen'
${answer({ clientCertificateData: certificate, clientKeyData: key }, apiVersion)}`,
      {
        apiVersion,
        args: ['argument'],
        env: [{ name: 'EXTRA', value: 'value' }],
        provideClusterInfo: true,
        clusterConfig: { audience: 'x' },
      },
    )
    const access = accessTo(`https://localhost:${server.port}`, { exec })
    const client = clientOf({
      ...access,
      tls: {
        authority: { kind: 'data', text: authority.certificate },
        serverName: '127.0.0.1',
        insecureSkipVerify: false,
      },
    })
    expect(await client.get('/')).toBe('by-plugin')
    expect(readFileSync(join(dir.path, 'seen'), 'utf8')).toBe('argument value')
    expect(JSON.parse(readFileSync(join(dir.path, 'info'), 'utf8'))).toEqual({
      apiVersion,
      kind: 'ExecCredential',
      spec: {
        interactive: false,
        cluster: {
          server: `https://localhost:${server.port}`,
          'tls-server-name': '127.0.0.1',
          'certificate-authority-data': Buffer.from(authority.certificate).toString('base64'),
          config: { audience: 'x' },
        },
      },
    })
  })

  async function failureOf(exec: ExecAccess, timing: Partial<ClientTiming> = {}): Promise<ProxyError> {
    const client = clientOf(accessTo('http://127.0.0.1:1', { exec }), timing)
    return client.get('/').then(
      () => Promise.reject(new Error('it did not fail')),
      (error: unknown) => error as ProxyError,
    )
  }

  test('that is not installed is named, with the hint of the kubeconfig', async () => {
    const exec = plugin('', { installHint: 'Get it from example.com.' })
    rmSync(exec.command)
    const error = await failureOf(exec)
    expect(error.code).toBe('CREDENTIAL_PLUGIN_MISSING')
    expect(error.message).toContain(`"${exec.command}"`)
    expect(error.message).toContain('Get it from example.com.')
  })

  test.each([
    ['echo no luck >&2; exit 3', 'exited with 3, saying: no luck'],
    ['echo hello', 'is not JSON'],
    ['echo null', 'not ExecCredential'],
    [
      `echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1"}'`,
      'of client.authentication.k8s.io/v1',
    ],
    [
      `echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1"}'`,
      'neither a token nor',
    ],
    ['sleep 5 >/dev/null 2>&1', 'did not end within 0.1 s'],
    ['yes', 'printed more than 1 MiB'],
  ])('that does "%s" is an error that says so', async (script, words) => {
    const error = await failureOf(plugin(script), script.startsWith('sleep') ? { execTimeoutMs: 100 } : {})
    expect(error.code).toBe('CREDENTIAL_PLUGIN_FAILED')
    expect(error.message).toContain(words)
  })
})
