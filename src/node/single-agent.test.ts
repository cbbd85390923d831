import { expect, test } from 'vitest'
import { AgentLock } from './single-agent.ts'

test('a second agent is refused with the process id of the first, until the first has ended', async () => {
  const name = `\0switchback-test-${process.pid}`
  const first = await AgentLock.take(name)
  await expect(AgentLock.take(name)).rejects.toMatchObject({
    code: 'SECOND_AGENT',
    message: expect.stringContaining(`(process ${process.pid})`) as string,
  })
  await first[Symbol.asyncDispose]()
  const again = await AgentLock.take(name)
  await again[Symbol.asyncDispose]()
})
