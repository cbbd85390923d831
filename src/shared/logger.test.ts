import { expect, test } from 'vitest'
import { createLogger, errorText } from './logger.ts'
import type { LogFormat } from './logger.ts'

function capture(format: LogFormat, verbosity = 0) {
  const lines: string[] = []
  const now = new Date(2026, 10, 30, 20, 21, 55, 123).getTime()
  const log = createLogger({
    sink: (line) => lines.push(line),
    format,
    verbosity,
    clock: { now: () => now, monotonic: () => 0, after: () => () => {} },
    pid: 4242,
    caller: () => 'agent.ts:12',
  })
  return { log, lines, now }
}

test('a text line has the header, the quoted message and the values of klog', () => {
  const { log, lines } = capture('text')
  log.info('SyncProxyRules complete', { ipFamily: 'IPv4', elapsed: '1.5ms', full: true, services: 3 })
  expect(lines).toEqual([
    'I1130 20:21:55.123000    4242 agent.ts:12] "SyncProxyRules complete" ipFamily="IPv4" elapsed="1.5ms" full=true services=3\n',
  ])
})

test('warnings and errors carry their letter, an error its text and that of its causes', () => {
  const { log, lines } = capture('text')
  log.warning('Odd', { left: undefined })
  log.error(new Error('outer', { cause: new Error('inner "x"') }), 'Failed')
  log.error(null, 'Failed without an error')
  expect(lines.map((line) => line.slice(0, 1) + line.slice(line.indexOf(']') + 1))).toEqual([
    'W "Odd"\n',
    'E "Failed" err="outer: inner \\"x\\""\n',
    'E "Failed without an error"\n',
  ])
})

test('a JSON line is one object with ts, caller, msg and v; errors have no v', () => {
  const { log, lines, now } = capture('json', 4)
  log.v(4)?.info('Detail', { ports: [80, 443] })
  log.error(new Error('broken'), 'Failed')
  expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
    { ts: now, caller: 'agent.ts:12', msg: 'Detail', v: 4, ports: [80, 443] },
    { ts: now, caller: 'agent.ts:12', msg: 'Failed', err: 'broken' },
  ])
})

test('levels above the verbosity are off', () => {
  const { log, lines } = capture('text', 2)
  expect(log.v(3)).toBeNull()
  log.v(2)?.info('on')
  log.with({ node: 'a' }).v(1)?.info('with fields')
  expect(lines).toHaveLength(2)
  expect(lines[1]).toContain('node="a"')
})

test('the caller is the file and line of the log call, through any number of logger layers', () => {
  const lines: string[] = []
  const log = createLogger({ sink: (line) => lines.push(line), verbosity: 1 })
  log.with({ a: 1 }).v(1)?.info('here')
  expect(lines[0]).toMatch(/ logger\.test\.ts:\d+\] "here"/)
})

test('the text of an error does not repeat a cause that it already quotes', () => {
  expect(errorText(new Error('write failed: EPERM', { cause: new Error('EPERM') }))).toBe(
    'write failed: EPERM',
  )
})
