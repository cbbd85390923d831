import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { LabSession } from '../lab/demo/session.ts'
import { tellStory } from '../lab/demo/story.ts'
import type { Stage } from '../lab/demo/story.ts'
import { labInstance, lastLines } from '../lab/instance.ts'
import type { LabInstance } from '../lab/instance.ts'
import { startLab, stopLab } from '../lab/start.ts'
import { modeByName } from '../modes/registry.ts'
import { ProxyError, UnsupportedError } from '../shared/errors.ts'
import type { Io } from './io.ts'
import { parse, table } from './lab-terminal.ts'

/** `switchback lab demo`: a lab of its own, Services at work in it, and nothing left behind. */
export async function demo(argv: readonly string[], io: Io): Promise<number> {
  const { values } = parse({
    args: [...argv],
    options: { mode: { type: 'string', default: 'nftables' } },
  })
  const mode = modeByName(values.mode).name // before anything is started
  const instance = labInstance(`demo-${process.pid}`, io.env)
  const interrupted = new AbortController()
  const onSignal = (): void => {
    interrupted.abort()
    void stopLab(instance).finally(() => process.exit(130))
  }
  process.once('SIGINT', onSignal)
  process.once('SIGTERM', onSignal)
  const startedAt = performance.now()
  const stage = stageOn(io)
  try {
    stage.heading('A cluster on this machine')
    stage.say('One control plane, three nodes and an outside client, in network namespaces of their own.')
    const onStep = (step: string): void => stage.say(`- ${step}`)
    await startLab(instance, { mode, ephemeral: true, onStep, signal: interrupted.signal })
    const figures = await tellStory(new LabSession(instance), stage)
    stage.heading('The cluster goes')
    await stopLab(instance)
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(0)
    const { spread, underRemoval, ipv6 } = figures
    stage.say('All its processes and namespaces have ended; this machine is as it was.')
    stage.say(
      `Done in ${seconds} s: ${spread.answered + underRemoval.answered + ipv6.answered} requests, ${spread.failed + underRemoval.failed + ipv6.failed} lost.`,
    )
    return 0
  } catch (error) {
    if (interrupted.signal.aborted) return 130
    if (error instanceof UnsupportedError || !(error instanceof ProxyError)) throw error
    io.stderr.write(`\nswitchback: the demo failed: ${error.message}\n${logsOf(instance)}`)
    return 1
  } finally {
    await stopLab(instance)
    process.off('SIGINT', onSignal)
    process.off('SIGTERM', onSignal)
  }
}

function stageOn(io: Io): Stage {
  const write = (text: string): void => void io.stdout.write(`${text}\n`)
  let number = 0
  return {
    heading: (title) => write(`\n== ${++number}. ${title} ==\n`),
    say: write,
    command: (line) => write(`$ ${line}`),
    table: (head, rows) => void io.stdout.write(table(head, rows)),
  }
}

function logsOf(instance: LabInstance): string {
  let files: string[]
  try {
    files = readdirSync(instance.logs).sort()
  } catch {
    return ''
  }
  const logs = files.map((file) => [file, lastLines(join(instance.logs, file))] as const)
  return logs
    .filter(([, text]) => text !== '')
    .map(([file, text]) => `--- ${file}\n${text}\n`)
    .join('')
}
