import * as http from 'node:http'
import type * as http2 from 'node:http2'
import * as net from 'node:net'
import type * as tls from 'node:tls'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { http2Server, httpsServer } from '../../test/support/api-servers.ts'
import type { Handler } from '../../test/support/api-servers.ts'
import { TestAuthority } from '../../test/support/certificates.ts'
import { sendJson, sendStatus } from '../../test/support/fake-collection.ts'
import { listen } from '../../test/support/loopback-server.ts'
import type { Listening } from '../../test/support/loopback-server.ts'
import { anonymousAccess } from './access.ts'
import type { ClusterAccess, TlsAccess, UserAccess } from './access.ts'
import { ApiClient } from './client.ts'
import type { ClientOptions } from './client.ts'
import { ApiStatusError } from './errors.ts'
import type { ApiConnectionError } from './errors.ts'

const open: AsyncDisposable[] = []
let authority: TestAuthority

beforeEach(() => {
  authority = new TestAuthority()
})

afterEach(async () => {
  for (const thing of open.splice(0).toReversed()) await thing[Symbol.asyncDispose]()
})

async function serve(server: net.Server, host?: string): Promise<Listening> {
  const listening = await listen(server, 0, host)
  open.push(listening)
  return listening
}

function clientOf(access: ClusterAccess, options: Partial<ClientOptions> = {}): ApiClient {
  const client = new ApiClient({ access, userAgent: 'test/1', qps: -1, env: {}, ...options })
  open.push(client)
  return client
}

function accessTo(
  server: string,
  more: { tls?: Partial<TlsAccess>; user?: Partial<UserAccess>; proxyUrl?: string } = {},
): ClusterAccess {
  const access = anonymousAccess(server, '/etc/test.conf')
  return {
    ...access,
    proxyUrl: more.proxyUrl ?? null,
    tls: { ...access.tls, authority: { kind: 'data', text: authority.certificate }, ...more.tls },
    user: { ...access.user, ...more.user },
  }
}

async function failureOf(client: ApiClient, path = '/version'): Promise<ApiConnectionError & ApiStatusError> {
  try {
    await client.get(path)
  } catch (error) {
    return error as ApiConnectionError & ApiStatusError
  }
  throw new Error('it did not fail')
}

const echo: Handler = (request, response) => {
  sendJson(response, 200, {
    version: request.httpVersion,
    url: request.url,
    host: request.headers.host ?? request.headers[':authority'],
    agent: request.headers['user-agent'],
    authorization: request.headers.authorization,
    impersonate: [request.headers['impersonate-user'], request.headers['impersonate-group']],
    peer: (request.socket as tls.TLSSocket).getPeerCertificate?.()?.subject?.CN,
  })
}

describe('a client', () => {
  test('speaks HTTP/2 over one connection when the server offers it', async () => {
    const server = await serve(http2Server({ authority }, echo))
    const client = clientOf(accessTo(`https://127.0.0.1:${server.port}/prefix`))
    const answers = await Promise.all(
      [1, 2, 3].map((n) => client.get('/version', { query: { n, skip: undefined } })),
    )
    expect(answers[1]).toMatchObject({ version: '2.0', url: '/prefix/version?n=2', agent: 'test/1' })
    expect(server.accepted).toBe(1)
  })

  test('speaks HTTP/1.1 with TLS when that is all there is, and keeps the connection', async () => {
    const server = await serve(httpsServer({ authority }, echo))
    const client = clientOf(accessTo(`https://localhost:${server.port}`))
    for (let n = 0; n < 3; n++) {
      expect(await client.get('/version')).toMatchObject({ version: '1.1', host: `localhost:${server.port}` })
    }
    expect(server.accepted).toBe(1)
  })

  test('gives a long answer on HTTP/1.1 a connection of its own', async () => {
    const server = await serve(http.createServer(echo))
    const client = clientOf(accessTo(`http://127.0.0.1:${server.port}`))
    await client.get('/version')
    const response = await client.open({ path: '/version', longLived: true })
    expect(server.accepted).toBe(2)
    response.destroy(new Error('enough'))
  })

  test('repeats a read that met a kept connection just as the server closed it', async () => {
    const server = http.createServer({ keepAliveTimeout: 1 }, echo)
    const listening = await serve(server)
    const client = clientOf(accessTo(`http://127.0.0.1:${listening.port}`))
    await client.get('/version')
    for (const socket of listening.sockets) socket.resetAndDestroy()
    expect(await client.get('/version')).toMatchObject({ version: '1.1' })
  })

  test('goes on with a new connection when the server says GOAWAY', async () => {
    const sessions: http2.ServerHttp2Session[] = []
    const server = http2Server({ authority }, echo)
    server.on('session', (session: http2.ServerHttp2Session) => void sessions.push(session))
    const listening = await serve(server)
    const client = clientOf(accessTo(`https://127.0.0.1:${listening.port}`))
    await client.get('/version')
    sessions[0]!.goaway()
    for (let tries = 0; sessions.length < 2 && tries < 200; tries++) {
      expect(await client.get('/version')).toMatchObject({ version: '2.0' })
    }
    expect(sessions).toHaveLength(2)
  })

  test('reaches IPv6 servers', async () => {
    const server = await serve(http2Server({ authority, names: ['::1'] }, echo), '::1')
    const client = clientOf(accessTo(`https://[::1]:${server.port}`))
    expect(await client.get('/version')).toMatchObject({ host: `[::1]:${server.port}` })
  })

  test('checks the certificate against tls-server-name, or not at all if told so', async () => {
    const server = await serve(http2Server({ authority, names: ['kubernetes.default'] }, echo))
    const url = `https://127.0.0.1:${server.port}`
    const named = clientOf(accessTo(url, { tls: { serverName: 'kubernetes.default' } }))
    expect(await named.get('/version')).toMatchObject({ version: '2.0' })
    const careless = clientOf(accessTo(url, { tls: { insecureSkipVerify: true, authority: null } }))
    expect(await careless.get('/version')).toMatchObject({ version: '2.0' })
  })

  test('presents its client certificate', async () => {
    const server = await serve(http2Server({ authority, clientCertificates: true }, echo))
    const { certificate, key } = authority.issue({ name: 'system:kube-proxy' })
    const pair = {
      certificate: { kind: 'data', text: certificate },
      key: { kind: 'data', text: key },
    } as const
    const client = clientOf(accessTo(`https://127.0.0.1:${server.port}`, { user: { certificate: pair } }))
    expect(await client.get('/version')).toMatchObject({ peer: 'system:kube-proxy' })
  })

  test('sends token, basic login and impersonation', async () => {
    const server = await serve(http.createServer(echo))
    const url = `http://127.0.0.1:${server.port}`
    const impersonate = { user: 'other', uid: null, groups: ['a', 'b'] }
    expect(await clientOf(accessTo(url, { user: { token: 'secret', impersonate } })).get('/')).toMatchObject({
      authorization: 'Bearer secret',
      impersonate: ['other', 'a, b'],
    })
    const basic = { username: 'u', password: 'p' }
    expect(await clientOf(accessTo(url, { user: { basic } })).get('/')).toMatchObject({
      authorization: `Basic ${Buffer.from('u:p').toString('base64')}`,
    })
  })

  test('sends what it writes as JSON', async () => {
    const bodies: unknown[] = []
    const server = await serve(
      http.createServer((request, response) => {
        void request.toArray().then((parts) => {
          bodies.push([
            request.method,
            request.headers['content-type'],
            JSON.parse(Buffer.concat(parts).toString()),
          ])
          sendJson(response, 201, { ok: true })
        })
      }),
    )
    const client = clientOf(accessTo(`http://127.0.0.1:${server.port}`))
    expect(await client.send({ method: 'POST', path: '/x', body: { a: 'é' } })).toEqual({ ok: true })
    await client.send({ method: 'PATCH', path: '/x', body: {}, contentType: 'application/merge-patch+json' })
    expect(bodies).toEqual([
      ['POST', 'application/json', { a: 'é' }],
      ['PATCH', 'application/merge-patch+json', {}],
    ])
  })

  test('holds itself to its rate: a burst at once, the rest in time', async () => {
    const times: number[] = []
    const server = await serve(
      http.createServer((_request, response) => {
        times.push(performance.now())
        sendJson(response, 200, {})
      }),
    )
    const client = clientOf(accessTo(`http://127.0.0.1:${server.port}`), { qps: 20, burst: 3 })
    const startedAt = performance.now()
    await Promise.all(Array.from({ length: 7 }, () => client.get('/')))
    expect(times).toHaveLength(7)
    expect(times[6]! - startedAt).toBeGreaterThan(180)
  })

  test('ends at once when aborted: while waiting for its turn, for the header, or within the body', async () => {
    const server = await serve(
      http2Server({ authority }, (request, response) => {
        if (request.url === '/body') {
          response.writeHead(200)
          response.write('{')
        }
      }),
    )
    const reason = new Error('no longer needed')
    const client = clientOf(accessTo(`https://127.0.0.1:${server.port}`), { qps: 0.001, burst: 2 })
    for (const path of ['/header', '/body', '/turn']) {
      const stop = new AbortController()
      const pending = client.get(path, { signal: stop.signal })
      setTimeout(() => stop.abort(reason), 100)
      await expect(pending).rejects.toBe(reason)
    }
  })
})

describe('through a forward proxy', () => {
  async function proxy(
    answer: (authorization: string | undefined) => boolean,
  ): Promise<{ url: string; asked: string[] }> {
    const asked: string[] = []
    const server = http.createServer()
    server.on('connect', (request: http.IncomingMessage, client: net.Socket) => {
      asked.push(request.url ?? '')
      if (!answer(request.headers['proxy-authorization'])) {
        client.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n')
        return
      }
      const [host, port] = (request.url ?? '').split(':')
      const upstream = net.connect(Number(port), host === 'api.invalid' ? '127.0.0.1' : host, () => {
        client.write('HTTP/1.1 200 Connection established\r\n\r\n')
        upstream.pipe(client).pipe(upstream)
      })
      upstream.on('error', () => client.destroy())
      client.on('error', () => upstream.destroy())
    })
    const { port } = await serve(server)
    return { url: `127.0.0.1:${port}`, asked }
  }

  test('named by the kubeconfig, the client reaches the server, and names are resolved there', async () => {
    const server = await serve(http2Server({ authority, names: ['api.invalid'] }, echo))
    const { url, asked } = await proxy(
      (login) => login === `Basic ${Buffer.from('u:p w').toString('base64')}`,
    )
    const access = accessTo(`https://api.invalid:${server.port}`, { proxyUrl: `http://u:p%20w@${url}` })
    expect(await clientOf(access).get('/version')).toMatchObject({ version: '2.0' })
    expect(asked).toEqual([`api.invalid:${server.port}`])
  })

  test('named by the environment, likewise, but never for loopback', async () => {
    const server = await serve(http2Server({ authority, names: ['api.invalid', '127.0.0.1'] }, echo))
    const { url, asked } = await proxy(() => true)
    const env = { HTTPS_PROXY: url }
    await clientOf(accessTo(`https://api.invalid:${server.port}`), { env }).get('/version')
    await clientOf(accessTo(`https://127.0.0.1:${server.port}`), { env }).get('/version')
    expect(asked).toEqual([`api.invalid:${server.port}`])
  })

  test('that refuses, the proxy is named without its password', async () => {
    const { url } = await proxy(() => false)
    const error = await failureOf(
      clientOf(accessTo('https://192.0.2.1:6443', { proxyUrl: `http://u:secret@${url}` })),
    )
    expect(error.code).toBe('API_PROXY_FAILED')
    expect(error.message).toContain(
      `The proxy http://${url} gave no connection to the API server 192.0.2.1:6443: 407`,
    )
    expect(error.message).not.toContain('secret')
  })
})

describe('a failure says what, where and how to mend it', () => {
  test.each([
    ['http://127.0.0.1:1', 'API_REFUSED', 'connection refused'],
    ['https://nowhere.invalid', 'API_UNKNOWN_HOST', 'cannot be resolved'],
  ])('at %s', async (server, code, words) => {
    const error = await failureOf(clientOf(accessTo(server)))
    expect(error.code).toBe(code)
    expect(error.message).toContain(words)
    expect(error.message).toContain(server)
    expect(error.message).toContain('/etc/test.conf')
    expect(error.message).not.toContain('\n')
  })

  test('when nobody answers', async () => {
    const silent = await serve(net.createServer(() => {}))
    const timing = { dialTimeoutMs: 50, headersTimeoutMs: 50 }
    const plain = await failureOf(clientOf(accessTo(`http://127.0.0.1:${silent.port}`), { timing }))
    const secure = await failureOf(clientOf(accessTo(`https://127.0.0.1:${silent.port}`), { timing }))
    expect([plain.code, secure.code]).toEqual(['API_UNREACHABLE', 'API_UNREACHABLE'])
    expect(plain.message).toContain('no answer within 0.05 s')
  })

  test('when the certificate is of another authority, for another name, or out of date', async () => {
    const cases = [
      [{ authority: new TestAuthority('stranger') }, 'not signed by an authority that /etc/test.conf trusts'],
      [{ authority, names: ['other.example'] }, 'for other names'],
      [{ authority, validDays: [-9, -2] }, 'has expired'],
      [{ authority, validDays: [2, 9] }, 'is not valid yet'],
    ] as const
    for (const [options, words] of cases) {
      const server = await serve(httpsServer(options, echo))
      const error = await failureOf(clientOf(accessTo(`https://127.0.0.1:${server.port}`)))
      expect(error.code).toBe('API_TLS_UNTRUSTED')
      expect(error.message).toContain(words)
    }
  })

  test('when the server speaks no TLS, or refuses our certificate', async () => {
    const plain = await serve(http.createServer(echo))
    expect((await failureOf(clientOf(accessTo(`https://127.0.0.1:${plain.port}`)))).code).toBe('API_NOT_TLS')
    const strict = await serve(httpsServer({ authority, clientCertificates: true }, echo))
    const error = await failureOf(clientOf(accessTo(`https://127.0.0.1:${strict.port}`)))
    expect(error.code).toBe('API_TLS_REFUSED')
  })

  test('when key and certificate do not belong together', async () => {
    const server = await serve(httpsServer({ authority }, echo))
    const certificate = { kind: 'data', text: authority.issue({ name: 'a' }).certificate } as const
    const key = { kind: 'data', text: authority.issue({ name: 'b' }).key } as const
    const access = accessTo(`https://127.0.0.1:${server.port}`, {
      user: { certificate: { certificate, key } },
    })
    expect((await failureOf(clientOf(access))).code).toBe('CREDENTIAL_INVALID')
  })

  test('when the server does not know who we are, or what we may do', async () => {
    const server = await serve(
      http.createServer((request, response) => {
        if (request.url === '/version') sendStatus(response, 401, 'Unauthorized', 'Unauthorized')
        else {
          const message =
            'services is forbidden: User "system:node" cannot list resource "services" in API group "" at the cluster scope'
          sendStatus(response, 403, 'Forbidden', message)
        }
      }),
    )
    const user = { token: 'secret', description: 'user "proxy"' }
    const client = clientOf(accessTo(`http://127.0.0.1:${server.port}`, { user }))
    const unauthorized = await failureOf(client)
    expect(unauthorized.code).toBe('API_UNAUTHORIZED')
    expect(unauthorized.message).toContain('user "proxy" from /etc/test.conf')
    const forbidden = await failureOf(client, '/apis/discovery.k8s.io/v1/namespaces/x/endpointslices')
    expect(forbidden.message).toContain('"system:node" (user "proxy")')
    expect(forbidden.message).toContain(
      '{apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"], verbs: ["list", "watch"]}',
    )
    expect(`${unauthorized.message}${forbidden.message}`).not.toContain('secret')
  })

  test('when the server is busy, with the wait it asks for', async () => {
    const server = await serve(
      http.createServer((_request, response) => {
        response.setHeader('retry-after', '7')
        sendStatus(response, 429, 'TooManyRequests', 'slow down')
      }),
    )
    const error = await failureOf(clientOf(accessTo(`http://127.0.0.1:${server.port}`)))
    expect(error).toBeInstanceOf(ApiStatusError)
    expect(error).toMatchObject({ code: 'API_UNAVAILABLE', status: 429, retryAfterMs: 7000 })
  })

  test('when what answers is no API server', async () => {
    const server = await serve(http.createServer((_request, response) => response.end('<html>log in</html>')))
    const error = await failureOf(clientOf(accessTo(`http://127.0.0.1:${server.port}`)))
    expect(error.code).toBe('API_BAD_ANSWER')
    expect(error.message).toContain('<html>')
  })

  test('when the answer breaks off', async () => {
    const server = await serve(
      http.createServer((_request, response) => {
        response.writeHead(200)
        response.write('{"a":', () => response.destroy())
      }),
    )
    const error = await failureOf(clientOf(accessTo(`http://127.0.0.1:${server.port}`)))
    expect(error.code).toBe('API_CONNECTION_LOST')
  })
})
