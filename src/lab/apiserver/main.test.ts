import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { readObjects } from './load.ts'
import { optionsOf } from './main.ts'

const directory = mkdtempSync(join(tmpdir(), 'switchback-apiserver-'))
afterAll(() => rmSync(directory, { recursive: true }))

function file(name: string, text: string): string {
  writeFileSync(join(directory, name), text)
  return join(directory, name)
}

test('the command line says where to listen and what to give out', () => {
  const args =
    '--listen [::1]:8001 --service-cidr 10.96.0.0/16 --service-cidr fd00::/112 --node-port-range 31000-31100 --controllers --load a --load b'
  expect(optionsOf(args.split(' '))).toEqual({
    host: '::1',
    port: 8001,
    serviceCidrs: ['10.96.0.0/16', 'fd00::/112'],
    nodePortRange: { first: 31_000, last: 31_100 },
    endpointSliceController: true,
    deploymentController: true,
    scheduler: true,
    load: ['a', 'b'],
  })
})

test.each(['--listen nowhere', '--service-cidr 10.96.0.0', '--node-port-range 1', '--unknown'])(
  '%s is refused with the usage',
  (args) => {
    expect(() => optionsOf(args.split(' '))).toThrow(/usage: node dist\/lab\/apiserver\/main\.js/)
  },
)

test('objects are read from YAML of many documents and from JSON', () => {
  const yaml = file('a.yaml', '---\nkind: Service\n---\n---\nkind: Pod\n')
  expect(readObjects(yaml)).toEqual([{ kind: 'Service' }, { kind: 'Pod' }])
  expect(readObjects(file('a.json', '{"kind": "List", "items": []}'))).toEqual([{ kind: 'List', items: [] }])
})

test('a file that cannot be read is named with its line', () => {
  const bad = file('bad.yaml', 'kind: Service\nmetadata: {name: [}\n')
  expect(() => readObjects(bad)).toThrow(new RegExp(`^${bad}:2:\\d+: `))
  expect(() => readObjects(join(directory, 'absent.yaml'))).toThrow(/absent\.yaml: ENOENT/)
  expect(() => readObjects(file('text.yaml', 'just text'))).toThrow(/a document is not an object/)
})
