import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { temporaryDirectory } from '../../test/support/temporary-directory.ts'
import type { TemporaryDirectory } from '../../test/support/temporary-directory.ts'
import type { ProxyError } from '../shared/errors.ts'
import { loadAccess } from './load-access.ts'

let dir: TemporaryDirectory

beforeEach(() => {
  dir = temporaryDirectory()
})

afterEach(() => {
  dir[Symbol.dispose]()
})

const PEM = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'
const PEM64 = Buffer.from(PEM).toString('base64')

function kubeconfig(cluster: string, user = '{token: t}', more = ''): string {
  return `apiVersion: v1
kind: Config
current-context: main
contexts:
- name: main
  context: {cluster: one, user: proxy}
clusters:
- name: one
  cluster: ${cluster}
users:
- name: proxy
  user: ${user}
${more}`
}

function load(file: string, more: { master?: string; context?: string } = {}): ReturnType<typeof loadAccess> {
  return loadAccess({ kubeconfig: file, master: '', ...more })
}

async function failure(promise: Promise<unknown>): Promise<ProxyError> {
  try {
    await promise
  } catch (error) {
    return error as ProxyError
  }
  throw new Error('it did not fail')
}

describe('a kubeconfig', () => {
  test('gives the server, the authority and the user of the current context', async () => {
    const file = dir.write(
      'config',
      kubeconfig(
        `{server: 'https://192.0.2.1:6443/prefix/', certificate-authority-data: ${PEM64}, tls-server-name: api, proxy-url: 'http://proxy:3128'}`,
        `{client-certificate-data: ${PEM64}, client-key-data: ${PEM64}, username: u, password: p, as: other, as-groups: [g1, g2]}`,
      ),
    )
    expect(await load(file)).toEqual({
      server: 'https://192.0.2.1:6443/prefix',
      source: `${file} (context "main")`,
      tls: { authority: { kind: 'data', text: PEM }, insecureSkipVerify: false, serverName: 'api' },
      proxyUrl: 'http://proxy:3128',
      user: {
        description: 'user "proxy"',
        certificate: { certificate: { kind: 'data', text: PEM }, key: { kind: 'data', text: PEM } },
        token: null,
        tokenFile: null,
        basic: { username: 'u', password: 'p' },
        exec: null,
        impersonate: { user: 'other', uid: null, groups: ['g1', 'g2'] },
      },
    })
  })

  test('finds the files it names beside itself', async () => {
    mkdirSync(join(dir.path, 'pki'))
    const ca = dir.write('pki/ca.crt', PEM)
    const token = dir.write('token', 'abc\n')
    const file = dir.write(
      'config',
      kubeconfig("{server: 'https://h', certificate-authority: pki/ca.crt}", '{tokenFile: ./token}'),
    )
    const access = await load(file)
    expect(access.tls.authority).toEqual({ kind: 'file', path: ca })
    expect(access.user.tokenFile).toBe(token)
  })

  test('may use anchors and any server form: no scheme, IPv6, --master before its own', async () => {
    const file = dir.write(
      'config',
      `current-context: a
contexts: [{name: a, context: {cluster: c}}, {name: b, context: {cluster: d}}]
clusters: [{name: c, cluster: &c {server: "[2001:db8::1]:6443", insecure-skip-tls-verify: true}}, {name: d, cluster: *c}]`,
    )
    expect((await load(file)).server).toBe('https://[2001:db8::1]:6443')
    expect((await load(file, { context: 'b' })).source).toBe(`${file} (context "b")`)
    expect((await load(file, { master: '192.0.2.9:8080' })).server).toBe('http://192.0.2.9:8080')
  })

  test('with an exec plugin carries what the plugin is to be told', async () => {
    const file = dir.write(
      'config',
      kubeconfig(
        "{server: 'https://h', extensions: [{name: client.authentication.k8s.io/exec, extension: {audience: x}}]}",
        `{exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin, args: [a, 1], interactiveMode: Never, env: [{name: N, value: V}], provideClusterInfo: true, installHint: 'get it'}}`,
      ),
    )
    expect((await load(file)).user.exec).toEqual({
      apiVersion: 'client.authentication.k8s.io/v1',
      command: join(dir.path, 'plugin'),
      args: ['a', '1'],
      env: [{ name: 'N', value: 'V' }],
      installHint: 'get it',
      provideClusterInfo: true,
      clusterConfig: { audience: 'x' },
    })
  })

  test('that is missing or a directory is named', async () => {
    const missing = await failure(load(join(dir.path, 'nothing')))
    expect(missing.code).toBe('KUBECONFIG_MISSING')
    expect(missing.message).toContain(`${dir.path}/nothing: there is no such kubeconfig`)
    const directory = await failure(load(dir.path))
    expect(directory.code).toBe('KUBECONFIG_UNREADABLE')
    expect(directory.message).toContain('EISDIR')
  })

  test('that is not YAML is answered with line and column', async () => {
    const file = dir.write('config', 'clusters:\n- name: a\n  cluster: {server: "https://x\n')
    const error = await failure(load(file))
    expect(error.code).toBe('KUBECONFIG_MALFORMED')
    expect(error.message).toMatch(new RegExp(`^${file}:\\d+:\\d+: not valid YAML: `))
    expect((await failure(load(dir.write('empty', '')))).message).toContain('the file is empty')
    expect((await failure(load(dir.write('list', '- a')))).message).toContain('must be a map')
  })

  test.each([
    [
      'current-context: main',
      'current-context: ""',
      ':3:18: current-context: is not set',
      'contexts of the file are main',
    ],
    [
      'current-context: main',
      'current-context: mian',
      ':3:18: current-context: there is no context "mian"',
      'main',
    ],
    [
      'cluster: one, user',
      'cluster: two, user',
      'context.cluster: there is no cluster "two"',
      'of the file are one',
    ],
    ['user: proxy}', 'user: nobody}', 'context.user: there is no user "nobody"', 'of the file are proxy'],
    ["server: 'https://h'", 'server: ""', ':9:21: clusters[0].cluster.server: the address', '6443'],
    ["server: 'https://h'", 'server: "ftp://h"', 'is neither https:// nor http://', ':9:21'],
    [
      "server: 'https://h'",
      "server: 'https://h', proxy-url: 'socks5://p'",
      'proxies are not supported',
      'CONNECT',
    ],
    ['{token: t}', `{client-certificate-data: ${PEM64}}`, 'client-key: is missing', 'go together'],
    [
      '{token: t}',
      `{client-key-data: bm8=, client-certificate-data: ${PEM64}}`,
      'is not the base64 form of a PEM',
      ':12:',
    ],
    ['{token: t}', '{auth-provider: {name: gcp}}', 'no longer part of Kubernetes', 'exec'],
    ['{token: t}', '{exec: {apiVersion: v1, command: x}}', 'exec.apiVersion: must be', 'v1beta1'],
    [
      '{token: t}',
      '{exec: {apiVersion: client.authentication.k8s.io/v1, command: x, interactiveMode: Always}}',
      'interactiveMode: is Always',
      'no terminal',
    ],
    ['{token: t}', '{token: [1]}', 'users[0].user.token: must be text', ':12:'],
    [
      "server: 'https://h'",
      `server: 'https://h', insecure-skip-tls-verify: true, certificate-authority-data: ${PEM64}`,
      'cannot be true while',
      ':9:',
    ],
  ])('with %s replaced by %s is refused', async (from, to, ...expected) => {
    const good = kubeconfig("{server: 'https://h'}")
    const file = dir.write('config', good.replace(from, to))
    expect(good).toContain(from)
    const error = await failure(load(file))
    expect(error.code).toBe('KUBECONFIG_INVALID')
    expect(error.message.split('\n')).toHaveLength(1)
    for (const part of expected) expect(error.message).toContain(part)
  })

  test('is told all its mistakes at once', async () => {
    const file = dir.write('config', kubeconfig('{server: ""}', '{auth-provider: {}, exec: {}}'))
    expect((await failure(load(file))).message.split('\n')).toHaveLength(3)
  })

  test.each([
    ['certificate-authority', "{server: 'https://h', certificate-authority: gone.crt}", '{}'],
    ['client-certificate', "{server: 'https://h'}", '{client-certificate: gone.crt, client-key: gone.crt}'],
    ['tokenFile', "{server: 'https://h'}", '{tokenFile: gone.crt}'],
  ])('whose %s cannot be read is refused before the first request', async (field, cluster, user) => {
    const error = await failure(load(dir.write('config', kubeconfig(cluster, user))))
    expect(error.code).toBe('CREDENTIAL_FILE_UNREADABLE')
    expect(error.message).toContain(`${dir.path}/gone.crt: ${field} of ${dir.path}/config`)
  })

  test('whose certificate file is no PEM is refused', async () => {
    dir.write('ca.crt', 'rubbish')
    const file = dir.write('config', kubeconfig("{server: 'https://h', certificate-authority: ca.crt}"))
    expect((await failure(load(file))).code).toBe('CREDENTIAL_FILE_INVALID')
  })
})

describe('without a kubeconfig', () => {
  const nowhere = { kubeconfig: '', master: '' }

  test('a pod uses its service account', async () => {
    dir.write('token', 'tok\n')
    const ca = dir.write('ca.crt', PEM)
    const env = { KUBERNETES_SERVICE_HOST: '2001:db8::1', KUBERNETES_SERVICE_PORT: '443' }
    const access = await loadAccess({ ...nowhere, env, serviceAccountDir: dir.path })
    expect(access.server).toBe('https://[2001:db8::1]')
    expect(access.tls.authority).toEqual({ kind: 'file', path: ca })
    expect(access.user).toMatchObject({ token: 'tok', tokenFile: join(dir.path, 'token') })
  })

  test('--master alone goes there as nobody', async () => {
    const access = await loadAccess({ kubeconfig: '', master: 'https://192.0.2.1:6443/' })
    expect(access.server).toBe('https://192.0.2.1:6443')
    expect(access.user.token).toBeNull()
    expect((await failure(loadAccess({ kubeconfig: '', master: 'http://a b' }))).code).toBe('API_SERVER_URL')
  })

  test('outside of a pod, or in one without an account, the way to mend it is said', async () => {
    expect((await failure(loadAccess({ ...nowhere, env: {} }))).message).toContain('Give --kubeconfig FILE')
    const env = { KUBERNETES_SERVICE_HOST: '192.0.2.1', KUBERNETES_SERVICE_PORT: '443' }
    const error = await failure(loadAccess({ ...nowhere, env, serviceAccountDir: dir.path }))
    expect(error.code).toBe('SERVICE_ACCOUNT_UNREADABLE')
    expect(error.message).toContain('automountServiceAccountToken')
  })
})
