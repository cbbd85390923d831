import { readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { expect, test } from 'vitest'

const SRC = resolve(import.meta.dirname, '../src')

/** Room → rooms it may import (itself always); `types` = `import type` only. The table of docs/architecture.md. */
const MAY_IMPORT: Record<string, { values: readonly string[]; types?: readonly string[] }> = {
  net: { values: [] },
  shared: { values: ['net'] },
  kubernetes: { values: ['net', 'shared'] },
  cluster: { values: ['net', 'shared'], types: ['kubernetes'] },
  services: { values: ['net', 'shared'], types: ['cluster'] },
  kernel: { values: ['net', 'shared'] },
  modes: { values: ['net', 'shared', 'services', 'kernel'] },
  config: { values: ['net', 'shared', 'modes'] },
  observe: { values: ['net', 'shared'] },
  node: {
    values: ['net', 'shared', 'kubernetes', 'cluster', 'services', 'kernel', 'modes', 'config', 'observe'],
  },
  trace: { values: ['net', 'shared', 'cluster', 'services', 'modes', 'config', 'kernel'] },
  lab: { values: ['net', 'shared', 'kernel'], types: ['kubernetes'] },
  cli: {
    values: [
      'net',
      'shared',
      'kubernetes',
      'cluster',
      'services',
      'kernel',
      'modes',
      'config',
      'observe',
      'node',
      'trace',
      'lab',
    ],
  },
}

interface Import {
  readonly from: string
  readonly to: string
  readonly typeOnly: boolean
}

function sourceFiles(dir: string): string[] {
  return readdirSync(dir).flatMap((name) => {
    const path = join(dir, name)
    if (statSync(path).isDirectory()) return sourceFiles(path)
    return name.endsWith('.ts') && !name.endsWith('.test.ts') ? [path] : []
  })
}

function importsOf(file: string): Import[] {
  const text = readFileSync(file, 'utf8')
  const pattern = /^(?:import|export)\s+(type\s)?[^'"]*?from\s+'([^']+)'|import\('([^']+)'\)/gm
  return [...text.matchAll(pattern)].map((match) => ({
    from: relative(SRC, file),
    to: resolveImport(file, match[2] ?? match[3] ?? ''),
    typeOnly: match[1] !== undefined,
  }))
}

function resolveImport(file: string, specifier: string): string {
  return specifier.startsWith('.') ? relative(SRC, resolve(dirname(file), specifier)) : specifier
}

const roomOf = (path: string): string => path.split('/')[0] ?? ''
const imports = sourceFiles(SRC).flatMap(importsOf)
const inside = imports.filter(({ to }) => MAY_IMPORT[roomOf(to)] !== undefined)

test('every room imports only the rooms below it', () => {
  const wrong = inside.filter(({ from, to, typeOnly }) => {
    const [room, target] = [roomOf(from), roomOf(to)]
    const allowed = MAY_IMPORT[room]
    if (room === target) return false
    if (allowed === undefined) return true
    return !(allowed.values.includes(target) || (typeOnly && allowed.types?.includes(target) === true))
  })
  expect(wrong).toEqual([])
  expect(inside.length).toBeGreaterThan(10)
})

test('no mode imports another mode', () => {
  const modeOf = (path: string): string | null => /^modes\/([^/]+)\//.exec(path)?.[1] ?? null
  const SHARED = ['behaviour']
  expect(
    inside.filter(({ from, to }) => {
      const [a, b] = [modeOf(from), modeOf(to)]
      return a !== null && b !== null && a !== b && !SHARED.includes(b)
    }),
  ).toEqual([])
})

test('net, services and the pure files of modes use no Node.js module', () => {
  const pure = (path: string): boolean =>
    ['net', 'services'].includes(roomOf(path)) || /^modes\/[^/]+\/(rules|compile|trace)\.ts$/.test(path)
  expect(imports.filter(({ from, to }) => pure(from) && to.startsWith('node:'))).toEqual([])
})

test('the lab API server shares only types with the API client', () => {
  expect(
    inside.filter(
      ({ from, to, typeOnly }) => roomOf(from) === 'lab' && roomOf(to) === 'kubernetes' && !typeOnly,
    ),
  ).toEqual([])
})

test('no folder has a name that says nothing', () => {
  const names = /(^|\/)(util|utils|common|helpers|core|lib|manager)\//
  expect(sourceFiles(SRC).filter((file) => names.test(relative(SRC, file)))).toEqual([])
})
