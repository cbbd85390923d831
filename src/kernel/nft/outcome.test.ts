import { Writable } from 'node:stream'
import { expect, test } from 'vitest'
import { reportFailure } from '../../cli/main.ts'
import { noNfTables } from './outcome.ts'

test('a kernel without nf_tables is said in one line with the way out, and exit status 3', () => {
  const said: string[] = []
  const stderr = new Writable({
    write: (chunk: Buffer, _encoding, done) => (said.push(chunk.toString()), done()),
  })
  const status = reportFailure(noNfTables(new Error('EPROTONOSUPPORT')), { stdout: stderr, stderr, env: {} })
  expect({ status, said: said.join('') }).toEqual({
    status: 3,
    said:
      'switchback: nf_tables is not possible here: it needs a kernel with CONFIG_NF_TABLES. ' +
      'Load the module (modprobe nf_tables) or use another proxy mode.\n',
  })
})
