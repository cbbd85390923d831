import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'

const ROOT = resolve(import.meta.dirname, '..')

function sourceText(): string {
  const files = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  return files
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .map((file) => readFileSync(join(ROOT, 'src', file), 'utf8'))
    .join('\n')
}

function codesInSource(): string[] {
  const made =
    /(?:Error|super)\(\s*'([A-Z][A-Z0-9_]*)'|\bcode: '([A-Z][A-Z0-9]*_[A-Z0-9_]*)'|options\.code \?\? '([A-Z][A-Z0-9_]*)'/g
  return [...sourceText().matchAll(made)].map((match) => match[1] ?? match[2] ?? match[3] ?? '')
}

function codesInDocs(): string[] {
  return [...readFileSync(join(ROOT, 'docs/errors.md'), 'utf8').matchAll(/^## ([A-Z0-9_]+)$/gm)].map(
    (match) => match[1]!,
  )
}

test('docs/errors.md explains every error code that the code can give', () => {
  const documented = new Set(codesInDocs())
  expect([...new Set(codesInSource())].filter((code) => !documented.has(code))).toEqual([])
})

test('docs/errors.md explains no code that nothing gives', () => {
  const source = sourceText()
  expect(codesInDocs().filter((code) => !source.includes(`'${code}'`))).toEqual([])
  expect(codesInDocs().length).toBeGreaterThan(2)
})
