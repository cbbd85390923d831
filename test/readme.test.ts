import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { main } from '../src/cli/main.ts'

const ROOT = resolve(import.meta.dirname, '..')

/** Runs a command line as it stands in a document, from the root of the project; gives its stdout. */
async function run(commandLine: string): Promise<string> {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()]
  const words = commandLine.replace(/\\\n/g, ' ').trim().split(/\s+/).slice(1)
  const files = words.map((word) => (word.startsWith('docs/') ? resolve(ROOT, word) : word))
  const said = text(stderr)
  const status = await main(files, { stdout, stderr, env: {} })
  stdout.end()
  stderr.end()
  expect({ status, said: await said }).toEqual({ status: 0, said: '' })
  return text(stdout)
}

test('the trace that the README shows is what the command prints', async () => {
  const readme = readFileSync(resolve(ROOT, 'README.md'), 'utf8')
  const sample = /```\n\$ (switchback trace [^]*?[^\\])\n([A-Z][^]*?)\n```/.exec(readme)
  expect((await run(sample![1]!)).trimEnd()).toBe(sample![2]!)
})
