import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  labInstance,
  labsDirectory,
  prepareDirectory,
  processStart,
  readState,
  removeDirectory,
  removeOrphans,
  requireRunning,
  writeState,
} from './instance.ts'
import type { LabInstance, LabState } from './instance.ts'

let dir = ''
let instance: LabInstance

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'sb-instance-'))
  instance = labInstance('one', { SWITCHBACK_LAB_DIR: join(dir, 'lab') })
})
afterEach(() => rmSync(dir, { recursive: true, force: true }))

const own = (): LabState => ({
  outerPid: process.pid,
  outerStart: processStart(process.pid) ?? '',
  supervisorPid: process.pid,
  userNamespace: false,
  startedAt: '2026-01-01T00:00:00Z',
})

test('a lab that was never started has no state, and using it says how to start one', () => {
  expect(readState(instance)).toBeNull()
  expect(() => requireRunning(instance)).toThrow('switchback lab up --name one')
})

test('a lab whose process runs is running', () => {
  prepareDirectory(instance)
  writeState(instance, own())
  expect(requireRunning(instance)).toEqual(own())
})

test('a process id that another process has by now makes the state stale', () => {
  prepareDirectory(instance)
  writeState(instance, { ...own(), outerStart: '1' })
  expect(readState(instance)).toBe('stale')
})

test('a directory without state, or with half a state, is stale and prepared anew', () => {
  mkdirSync(instance.dir, { recursive: true })
  expect(readState(instance)).toBe('stale')
  writeFileSync(instance.stateFile, '{"outerPid":')
  expect(readState(instance)).toBe('stale')
  prepareDirectory(instance)
  expect(readState(instance)).toBe('stale')
  removeDirectory(instance)
  expect(readState(instance)).toBeNull()
})

test('removing a lab leaves the directories of others', () => {
  const other = labInstance('two', { SWITCHBACK_LAB_DIR: join(dir, 'lab') })
  prepareDirectory(instance)
  prepareDirectory(other)
  removeDirectory(instance)
  expect(readState(other)).toBe('stale')
})

test('directories of demos that were killed are removed, those of others stay', () => {
  const env = { SWITCHBACK_LAB_DIR: join(dir, 'lab') }
  const killed = labInstance('demo-4194399', env)
  const alive = labInstance(`demo-${process.pid}`, env)
  for (const each of [killed, alive, instance]) prepareDirectory(each)
  removeOrphans(instance)
  expect([killed, alive, instance].map(readState)).toEqual([null, 'stale', 'stale'])
})

test('names that could leave the directory are refused', () => {
  for (const name of ['', '..', 'a/b', 'A', '-x']) {
    expect(() => labInstance(name, {})).toThrow(expect.objectContaining({ code: 'USAGE' }) as Error)
  }
})

test('a directory of one’s own choice comes first', () => {
  expect(labsDirectory({ SWITCHBACK_LAB_DIR: '/somewhere/lab', XDG_RUNTIME_DIR: '/run/user/0' })).toBe(
    '/somewhere/lab',
  )
})
