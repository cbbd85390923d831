import { expect, test } from 'vitest'
import { TableMode } from '../../test/support/table-agent.ts'
import type { Kernel } from '../kernel/kernel.ts'
import type { Finding } from '../modes/mode.ts'
import type { IpFamily } from '../net/family.ts'
import { UnsupportedError } from '../shared/errors.ts'
import { createLogger } from '../shared/logger.ts'
import { usableFamilies } from './preflight.ts'

const NO_V6: Finding = { severity: 'blocker', what: 'no IPv6 here', fix: 'Load ipv6.' }

async function families(findings: Readonly<Partial<Record<IpFamily, readonly Finding[]>>>) {
  const lines: string[] = []
  const mode = Object.assign(new TableMode(), {
    preflight: (_kernel: unknown, family: IpFamily) => Promise.resolve(findings[family] ?? []),
  })
  const usable = await usableFamilies(mode, {} as Kernel, createLogger({ sink: (line) => lines.push(line) }))
  return { usable, text: lines.join('') }
}

test('both families are served where nothing stands in the way', async () => {
  expect((await families({})).usable).toEqual(['IPv4', 'IPv6'])
})

test('one family is enough, and the log says which is missing and why', async () => {
  const { usable, text } = await families({ IPv6: [NO_V6] })
  expect(usable).toEqual(['IPv4'])
  expect(text).toMatch(
    /^W.*"Serving one IP family only" ipFamily="IPv4" why="no IPv6 here" fix="Load ipv6\."/,
  )
})

test('with neither family the start ends with what is missing and its fix, each once', async () => {
  const blocker: Finding = { severity: 'blocker', what: 'no nf_tables', fix: 'Load nf_tables.' }
  const error = await families({ IPv4: [blocker], IPv6: [blocker] }).catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(UnsupportedError)
  expect((error as Error).message).toBe(
    'Proxy mode nftables is not possible here: it needs no nf_tables. Load nf_tables. Nothing was changed.',
  )
})
