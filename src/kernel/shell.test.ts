import { expect, test } from 'vitest'
import { run } from './shell.ts'

const node = (program: string): string[] => [process.execPath, '-e', program]

test('a program gets its arguments and input as they are', async () => {
  const program = 'process.stdin.pipe(process.stdout); process.stderr.write(process.argv[1])'
  const { stdout, stderr } = await run([...node(program), '$HOME; "x"'], { input: 'in\nput' })
  expect([stdout, stderr]).toEqual(['in\nput', '$HOME; "x"'])
})

test('a program that fails rejects with its arguments, status and words', async () => {
  await expect(run(node('console.error("no such table"); process.exit(3)'))).rejects.toMatchObject({
    code: 'COMMAND_FAILED',
    exitCode: 3,
    stderr: 'no such table\n',
    message: expect.stringMatching(/ended with status 3 after \d+ ms: no such table$/),
  })
})

test('a program that is not there rejects', async () => {
  await expect(run(['switchback-no-such-program'])).rejects.toMatchObject({
    exitCode: null,
    message: expect.stringContaining('ENOENT'),
  })
})

test('a program that takes too long is ended', async () => {
  await expect(run(node('setInterval(() => {}, 1000)'), { timeoutMs: 200 })).rejects.toMatchObject({
    message: expect.stringContaining('longer than 200 ms'),
  })
})

test('a program that ends by a signal did not succeed', async () => {
  await expect(run(node('process.kill(process.pid, "SIGTERM")'))).rejects.toMatchObject({
    message: expect.stringContaining('SIGTERM'),
  })
})

test('a program that does not read its input may succeed', async () => {
  const input = 'x'.repeat(4 << 20)
  expect(await run(node('process.stdin.destroy(); console.log("done")'), { input })).toMatchObject({
    stdout: 'done\n',
  })
})

test('an aborted run ends the program', async () => {
  const controller = new AbortController()
  const running = run(node('setInterval(() => {}, 1000)'), { signal: controller.signal })
  controller.abort()
  await expect(running).rejects.toMatchObject({ code: 'COMMAND_FAILED' })
})
