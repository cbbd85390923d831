import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { Listener, parseListenAddress } from './listener.ts'
import type { HttpHandler } from './listener.ts'

const open: AsyncDisposable[] = []
afterEach(async () => {
  for (const each of open.splice(0)) await each[Symbol.asyncDispose]()
})

const hello: HttpHandler = () => ({ status: 200, headers: {}, body: 'hello' })

async function listenOn(host: string, dualStack = false): Promise<number> {
  const listener = await Listener.open({ host, port: 0 }, hello, dualStack)
  open.push(listener)
  return listener.port
}

const answers = (host: string, port: number): Promise<boolean> =>
  fetch(`http://${host}:${port}/`).then(
    ({ ok }) => ok,
    () => false,
  )

test('an unspecified address of either family serves both where that is asked for', async () => {
  for (const host of ['0.0.0.0', '::']) {
    const port = await listenOn(host, true)
    expect([await answers('127.0.0.1', port), await answers('[::1]', port)]).toEqual([true, true])
  }
})

test('otherwise an address serves its own family alone', async () => {
  const port = await listenOn('::')
  expect([await answers('127.0.0.1', port), await answers('[::1]', port)]).toEqual([false, true])
})

test('a port that is taken is named, with how to find who holds it', async () => {
  const other = createServer()
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
  const { port } = other.address() as AddressInfo
  await expect(Listener.open({ host: '127.0.0.1', port }, hello)).rejects.toMatchObject({
    code: 'PORT_IN_USE',
    message: expect.stringContaining(`ss -ltnp sport = :${port}`) as string,
  })
  other.close()
  await expect(Listener.open({ host: '192.0.2.99', port: 0 }, hello)).rejects.toMatchObject({
    code: 'BIND_FAILED',
  })
})

test('only reading is served', async () => {
  const port = await listenOn('127.0.0.1')
  const statusOf = async (method: string): Promise<number> =>
    (await fetch(`http://127.0.0.1:${port}/`, { method })).status
  expect([await statusOf('GET'), await statusOf('HEAD'), await statusOf('POST')]).toEqual([200, 200, 405])
})

test('addresses are read with and without brackets, and an empty one means none', () => {
  expect(parseListenAddress('[::1]:10249')).toEqual({ host: '::1', port: 10_249 })
  expect(parseListenAddress('0.0.0.0:10256')).toEqual({ host: '0.0.0.0', port: 10_256 })
  expect(parseListenAddress('')).toBeNull()
})
