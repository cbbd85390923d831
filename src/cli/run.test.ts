import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { expect, test, vi } from 'vitest'
import { temporaryDirectory } from '../../test/support/temporary-directory.ts'
import { main } from './main.ts'

async function run(...argv: string[]) {
  const text = { out: '', err: '' }
  const sink = (name: 'out' | 'err') =>
    new Writable({
      write(chunk, _encoding, done) {
        text[name] += String(chunk)
        done()
      },
    })
  const status = await main(['run', ...argv], { stdout: sink('out'), stderr: sink('err'), env: {} })
  return { status, ...text }
}

test('the version and the flags are told without starting anything', async () => {
  expect(await run('--version')).toMatchObject({
    status: 0,
    out: expect.stringMatching(/^switchback \d/) as string,
  })
  expect(await run('--help')).toMatchObject({
    status: 0,
    out: expect.stringContaining('--proxy-mode') as string,
  })
})

test('a wrong flag or configuration ends with status 2, a mode that is not there with 3', async () => {
  expect(await run('--proxy-mod=x')).toMatchObject({
    status: 2,
    err: expect.stringContaining('proxy-mode') as string,
  })
  expect(await run('--proxy-mode=nft')).toMatchObject({
    status: 2,
    err: expect.stringContaining('"nft"') as string,
  })
  expect(await run('--proxy-mode=iptables')).toMatchObject({ status: 3 })
  expect(await run('--proxy-mode=nftables', '--cleanup')).toMatchObject({ status: 3 })
})

test('without a way to the API server the start ends with the fix and no stack', async () => {
  vi.stubEnv('KUBERNETES_SERVICE_HOST', '')
  const { status, err } = await run('--proxy-mode=nftables', '--kernel=memory')
  vi.unstubAllEnvs()
  expect(status).toBe(2)
  expect(err).toMatch(/--kubeconfig/)
  expect(err).not.toMatch(/\n\s+at /)
})

test('the effective configuration is written where it was asked for, and nothing is started', async () => {
  using directory = temporaryDirectory()
  const file = join(directory.path, 'kp.yaml')
  expect(
    await run('--proxy-mode=nftables', '--cluster-cidr=10.0.0.0/8', `--write-config-to=${file}`),
  ).toMatchObject({ status: 0 })
  expect(readFileSync(file, 'utf8')).toMatch(/^clusterCIDR: 10\.0\.0\.0\/8$/m)
  expect((await run(`--config=${file}`, '--version')).status).toBe(0)
})
