import { execFileSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'

const GOLDEN = join(import.meta.dirname, 'golden')
const NAMESPACE = `sb-golden-${process.pid}`

beforeAll(() => execFileSync('ip', ['netns', 'add', NAMESPACE]))
afterAll(() => execFileSync('ip', ['netns', 'delete', NAMESPACE]))

const files = readdirSync(GOLDEN).filter((name) => name.endsWith('.nft'))

test('there are goldens of both families', () => {
  expect(files.filter((name) => name.endsWith('-ipv6.nft')).length).toBe(files.length / 2)
  expect(files.length).toBeGreaterThan(30)
})

test.each(files)('nft accepts %s', (name) => {
  execFileSync('ip', ['netns', 'exec', NAMESPACE, 'nft', '-c', '-f', join(GOLDEN, name)], { stdio: 'pipe' })
})
