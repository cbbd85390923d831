import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { Writable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { main } from './main.ts'

const FLOWS = resolve(import.meta.dirname, '../../test/cases/flows.json')
const NODE = 'kind: Node\nmetadata: {name: node-a}\n'
const FILES = {
  'node.yaml': NODE,
  'alias.yaml': `${NODE}---\nkind: Service\nspec: *nothing\n`,
  'list.yaml': `kind: List\nitems:\n- 7\n- kind: Service\n  metadata: {name: web}\n  spec:\n    ports: many\n`,
  'typed.yaml': 'kind: ServiceList\nitems:\n- metadata: 3\n',
  'config.yaml': 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: *m\n',
  'kubeconfig.yaml': 'apiVersion: v1\nkind: Config\nclusters: *c\n',
  'comma.json': '{\n "schema": "kube-proxy-flows/1",\n "cases": [\n  {"id": "a",}\n ]\n}\n',
  'short.json': '{\n "schema": ',
  'other.json': '{\n "schema": "other/1"}',
  'fixture.json':
    '{"schema": "kube-proxy-flows/1", "node_under_test": "n",\n "cases": [\n  {"id": "a", "fixture": "none"}]}',
  'no-cases.json': '{"schema": "kube-proxy-flows/1", "node_under_test": "n"}',
}

vi.setConfig({ testTimeout: 30_000 })

let directory = ''
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'switchback-bad-'))
  for (const [name, text] of Object.entries(FILES)) await writeFile(join(directory, name), text)
  await symlink('/nonexistent', join(directory, 'gone.yaml'))
})
afterAll(() => rm(directory, { recursive: true }))

/** Exit status and what is said; `@name` stands for a file. Nothing may go to stdout. */
async function refused(line: string): Promise<string> {
  const texts = ['', '']
  const stream = (i: number): Writable =>
    new Writable({
      write(chunk: Buffer, _encoding, done) {
        texts[i] += chunk.toString()
        done()
      },
    })
  const argv = line.split(' ').map((word) => word.replace(/^@/, `${directory}/`))
  const status = await main(argv, { stdout: stream(0), stderr: stream(1), env: {} })
  expect(texts[0]).toBe('')
  expect(texts[1]).not.toMatch(/unexpected error|\n {4}at /)
  return `${status} ${texts[1]!
    .replaceAll(`${directory}/`, '')
    .replace(/^switchback: /, '')
    .trim()}`
}

describe('a file with something wrong in it is refused with the place', () => {
  test.each([
    ['compile --objects @alias.yaml', '2 alias.yaml:5:7: there is no anchor "&nothing" before this alias'],
    ['run --config @config.yaml', '2 config.yaml:3:7: not YAML: there is no anchor "&m" before this alias'],
    [
      'compile --objects @typed.yaml --node a',
      /^2 typed\.yaml:3:13: items\[0\]\.metadata: Service.*: must be /,
    ],
    ['expect @comma.json', '2 comma.json:4:14: is not JSON: Expected double-quoted property name'],
    ['expect @short.json', '2 short.json:2:12: is not JSON: Unexpected end of JSON input'],
    ['expect @other.json', '2 other.json:2:12: schema: is not "kube-proxy-flows/1"'],
    ['expect @fixture.json', '2 fixture.json:3:26: cases[0].fixture: names no fixture of the file'],
  ])('%s', async (line, said) => {
    if (typeof said === 'string') expect(await refused(line)).toContain(said)
    else expect(await refused(line)).toMatch(said)
  })

  test('every wrong item of a list is reported at once', async () => {
    expect(await refused('compile --objects @list.yaml --node a')).toBe(
      [
        '2 list.yaml:3:3: items[0]: not a Kubernetes object: there is no "kind"',
        'list.yaml:7:12: items[1].spec.ports: Service default/web: must be a list',
      ].join('\n'),
    )
  })

  test('a loose alias of a kubeconfig is refused before anything is done', async () => {
    expect(await refused('run --proxy-mode nftables --kubeconfig @kubeconfig.yaml')).toMatch(
      /^2 kubeconfig\.yaml:3:11: .*there is no anchor "&c" before this alias$/,
    )
  })
})

describe('arguments that make no sense are refused in one sentence', () => {
  test.each([
    [
      'compile --objects @node.yaml --node node-b',
      /^2 --node: there is no Node "node-b"; there are node-a \(did you/,
    ],
    [
      'trace --objects @node.yaml --node other --to 10.96.0.7:80',
      /^2 --node: there is no Node "other"; there are /,
    ],
    ['trace --objects @node.yaml --to 10.96.0.7:70000', /^2 --to: .* with a port from 1 to 65535/],
    ['trace extra', /^2 too many arguments\. Expected 0 arguments but got 1\. Run /],
    ['compile --node a --objects @gone.yaml', /^2 There is no file or directory "gone\.yaml"/],
    ['expect @nowhere.json', /^2 The file "nowhere\.json" cannot be read: ENOENT/],
    ['expect @', /^2 The file ".*" cannot be read: EISDIR/],
    ['expect @no-cases.json', /^2 There is no case in these files: nothing was checked\.$/],
    [`expect ${FLOWS} --only no-such`, /^2 --only: there is no case no-such in these files\.$/],
    [
      'bench',
      /^2 bench: say what to measure: sync or change\. Run "switchback bench --help" for the arguments\.$/,
    ],
    ['bench sink', /^2 bench: unknown command 'sink' \(Did you mean sync\?\)\. Run .*$/],
    ['bench sync --mode nftable', /^2 "nftable" is no proxy mode;/],
    ['bench sync --mode ipvs', /^3 Proxy mode ipvs is not possible here/],
    ['bench sync -o yaml', /^2 --output: "yaml" is not allowed/],
    ['lab up --mode nftable', /^2 "nftable" is no proxy mode;/],
    ['lab up --mode ipvs', /^3 Proxy mode ipvs is not possible here/],
    ['lab demo --mode ipvs', /^3 Proxy mode ipvs is not possible here/],
    ['lab up --bogus', /^2 Unknown option '--bogus'.* Run "switchback lab --help" for the arguments\.$/],
    ['lab status --name ../x', /^2 --name: "\.\.\/x" cannot name a lab/],
    ['lab', /^2 usage: switchback lab /],
  ])('%s', async (line, said) => {
    expect(await refused(line)).toMatch(said)
  })

  test('no command at all shows the commands on stderr', async () => {
    const err: string[] = []
    const sink = (texts: string[]): Writable =>
      new Writable({ write: (chunk: Buffer, _encoding, done) => (texts.push(chunk.toString()), done()) })
    const out: string[] = []
    expect(await main([], { stdout: sink(out), stderr: sink(err), env: {} })).toBe(2)
    expect([out.join(''), err.join('').split('\n')[0]]).toEqual(['', 'usage: switchback COMMAND [arguments]'])
  })
})
