import { readFileSync } from 'node:fs'
import type { Io } from './io.ts'

/** The product's version, from package.json beside dist/ or src/. */
export function productVersion(): string {
  const file = new URL('../../package.json', import.meta.url)
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
}

export async function run(_argv: readonly string[], io: Io): Promise<number> {
  io.stdout.write(`switchback ${productVersion()}\n`)
  return 0
}
