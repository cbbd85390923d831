import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  configureNamespace,
  createNamespaces,
  deleteNamespaces,
  FORWARDING,
  ipBatch,
  namespaceExists,
  QUIET_IPV6,
  runIn,
  spawnIn,
  vethCommand,
} from './namespaces.ts'

const unique = `sb-lab-${process.pid}`
const [left, router, right] = [`${unique}-l`, `${unique}-m`, `${unique}-r`]

beforeAll(async () => {
  await createNamespaces([left, router, right])
  await ipBatch([
    vethCommand({ namespace: left, name: 'eth0' }, { namespace: router, name: 'west' }),
    vethCommand({ namespace: right, name: 'eth0' }, { namespace: router, name: 'east' }),
  ])
  const end = (n: number) => ({
    sysctls: QUIET_IPV6,
    ip: [
      'link set lo up',
      `addr add 192.0.2.${n}/25 dev eth0`,
      `addr add 2001:db8:${n}::2/64 dev eth0 nodad`,
      'link set eth0 up',
      `route add default via 192.0.2.${n - 1}`,
      `route add default via 2001:db8:${n}::1`,
    ],
  })
  await configureNamespace(router, {
    sysctls: { ...QUIET_IPV6, ...FORWARDING },
    ip: [
      'link set lo up',
      'addr add 192.0.2.1/25 dev west',
      'addr add 192.0.2.129/25 dev east',
      'addr add 2001:db8:2::1/64 dev west nodad',
      'addr add 2001:db8:130::1/64 dev east nodad',
      'link set west up',
      'link set east up',
    ],
  })
  await configureNamespace(left, end(2))
  await configureNamespace(right, end(130))
})

afterAll(() => deleteNamespaces([left, router, right]))

test('packets of both families cross a router made of namespaces', async () => {
  const server = `require('net').createServer(s=>s.end(s.remoteAddress)).listen(80,'::',()=>console.log('up'))`
  const client = `const n=require('net');for(const h of ['192.0.2.130','2001:db8:130::2'])
    n.connect(80,h).on('data',d=>console.log(h+' '+d)).on('error',e=>{console.error(e);process.exit(1)})`
  const child = spawnIn(right, ['node', '-e', server], { stdio: ['ignore', 'pipe', 'inherit'] })
  try {
    await new Promise<void>((resolve, reject) => {
      child.stdout!.once('data', () => resolve())
      child.once('exit', (code) => reject(new Error(`the server ended with ${code}`)))
    })
    const { stdout } = await runIn(left, ['node', '-e', client])
    expect(stdout.trim().split('\n').toSorted()).toEqual([
      '192.0.2.130 ::ffff:192.0.2.2',
      '2001:db8:130::2 2001:db8:2::2',
    ])
  } finally {
    child.kill('SIGKILL')
  }
})

test('a command that fails says which and why, and namespaces made half-way are removed', async () => {
  await expect(ipBatch(['link set nothing up'], { namespace: left })).rejects.toMatchObject({
    code: 'COMMAND_FAILED',
    message: expect.stringContaining('nothing') as string,
  })
  const fresh = `${unique}-x`
  await expect(createNamespaces([fresh, left, `${unique}-y`])).rejects.toMatchObject({
    code: 'COMMAND_FAILED',
  })
})

test('deleting takes away the name and does not mind one that is gone', async () => {
  const name = `${unique}-gone`
  await createNamespaces([name])
  expect(namespaceExists(name)).toBe(true)
  await deleteNamespaces([name, `${name}-never`])
  expect(namespaceExists(name)).toBe(false)
  await deleteNamespaces([name])
})
