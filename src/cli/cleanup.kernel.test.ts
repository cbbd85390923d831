import { execFileSync } from 'node:child_process'
import { resolve } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createNamespaces, deleteNamespaces } from '../lab/namespaces.ts'

const NAMESPACE = `sb-cleanup-${process.pid}`
const LAUNCHER = resolve(import.meta.dirname, '../../bin/switchback')

function inside(argv: readonly string[], input = ''): string {
  return execFileSync('ip', ['netns', 'exec', NAMESPACE, ...argv], {
    input,
    encoding: 'utf8',
    stdio: ['pipe', 'pipe', 'ignore'],
  })
}

beforeAll(() => createNamespaces([NAMESPACE]))
afterAll(() => deleteNamespaces([NAMESPACE]))

test('cleanup removes the proxy’s tables of both families, leaves others alone, and can be repeated', () => {
  inside(['nft', '-f', '-'], 'add table ip mine\nadd chain ip mine c\n')
  const before = inside(['nft', 'list', 'ruleset'])
  const chains = ['ip', 'ip6'].map(
    (family) => `add table ${family} kube-proxy\nadd chain ${family} kube-proxy services\n`,
  )
  inside(['nft', '-f', '-'], chains.join(''))
  inside([process.execPath, LAUNCHER, 'cleanup'])
  expect(inside(['nft', 'list', 'ruleset'])).toBe(before)
  inside([process.execPath, LAUNCHER, 'cleanup'])
  expect(inside(['nft', 'list', 'ruleset'])).toBe(before)
})
