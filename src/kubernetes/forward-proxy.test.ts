import { expect, test } from 'vitest'
import { forwardProxyFor } from './forward-proxy.ts'

const PROXY = 'http://proxy:3128'

function proxied(server: string, noProxy: string): boolean {
  return forwardProxyFor(new URL(server), null, { HTTPS_PROXY: PROXY, NO_PROXY: noProxy }) !== null
}

test.each([
  ['https://api.example', '', true],
  ['https://api.example', '*', false],
  ['https://api.example', 'example', false],
  ['https://api.example', '.example', false],
  ['https://api.example', '*.example', false],
  ['https://example', '.example', true],
  ['https://example', 'example', false],
  ['https://badexample', 'example', true],
  ['https://API.example', ' other , api.EXAMPLE ', false],
  ['https://api.example:6443', 'api.example:6443', false],
  ['https://api.example:6443', 'api.example:443', true],
  ['https://api.example', 'api.example:443', false],
  ['https://192.0.2.1:6443', '192.0.2.1', false],
  ['https://192.0.2.1:6443', '192.0.2.0/24', false],
  ['https://198.51.100.1', '192.0.2.0/24', true],
  ['https://[2001:db8::1]:6443', '2001:db8::1', false],
  ['https://[2001:db8::1]:6443', '[2001:db8::1]:6443', false],
  ['https://[2001:db8::1]:6443', '2001:db8::/32', false],
  ['https://localhost:6443', '', false],
  ['https://127.0.0.1:6443', '', false],
  ['https://[::1]:6443', '', false],
])('%s with NO_PROXY=%s goes through the proxy: %s', (server, noProxy, expected) => {
  expect(proxied(server, noProxy)).toBe(expected)
})

test('the kubeconfig wins over the environment, https and http have their own, lower case counts', () => {
  const server = new URL('https://192.0.2.1')
  const env = { HTTPS_PROXY: PROXY, NO_PROXY: '*' }
  expect(forwardProxyFor(server, 'http://mine:1', env)?.host).toBe('mine:1')
  expect(forwardProxyFor(server, null, { https_proxy: 'bare:8080' })?.href).toBe('http://bare:8080/')
  expect(forwardProxyFor(server, null, { HTTP_PROXY: PROXY })).toBeNull()
  expect(forwardProxyFor(new URL('http://192.0.2.1'), null, { HTTP_PROXY: PROXY })?.host).toBe('proxy:3128')
})

test.each(['socks5://x', 'http://['])(
  'the proxy %s cannot be used and is refused, not passed over',
  (HTTPS_PROXY) => {
    const find = (): unknown => forwardProxyFor(new URL('https://192.0.2.1'), null, { HTTPS_PROXY })
    expect(find).toThrow('HTTPS_PROXY: is not the URL of an http:// or https:// proxy')
  },
)
