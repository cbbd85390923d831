import type { ChildProcess } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { benchSlice } from './cluster.ts'
import type { Figure } from './figures.ts'
import { cpuSeconds, figure, monotonicMs, residentMemory } from './figures.ts'
import type { Stage } from './stage.ts'
import { generationAfter, setStage } from './stage.ts'

const SYNC_TIMEOUT_MS = 120_000
const CHANGE_TIMEOUT_MS = 20_000
/** How often the kernel is asked: finely enough for what is measured, rarely enough not to disturb it. */
const SYNC_POLL_MS = 10
const CHANGE_POLL_MS = 0.5
/** Longer than kube-proxy's default minSyncPeriod of 1 s, so that a change is never held back by the one before. */
const BETWEEN_CHANGES_MS = 1200

export interface Load {
  readonly mode: string
  readonly services: number
  readonly endpoints: number
  readonly runs: number
}

type Figures = Readonly<Record<string, Figure>>

/** From the start of the agent process to complete rules in the kernel, `runs` times, each in a fresh namespace. */
export async function measureSync(load: Load, progress: (line: string) => void): Promise<Figures> {
  const seconds: number[] = []
  const cpu: number[] = []
  const memory: number[] = []
  for (let run = 1; run <= load.runs; run++) {
    await using stage = await setStage(load.services, load.endpoints)
    const { agent, elapsedMs } = await syncOnce(stage, load)
    seconds.push(elapsedMs / 1000)
    cpu.push(cpuSeconds(agent.pid!))
    memory.push(residentMemory(agent.pid!).peak)
    progress(`run ${run} of ${load.runs}: ${(elapsedMs / 1000).toFixed(2)} s`)
  }
  return {
    startToRules: figure(seconds, 's'),
    agentCpu: figure(cpu, 's'),
    agentPeakMemory: figure(memory, 'MiB'),
  }
}

/** One slice PATCH (an endpoint is replaced by another) until the kernel's rules have changed, `runs` times on one loaded node. */
export async function measureChange(load: Load, progress: (line: string) => void): Promise<Figures> {
  await using stage = await setStage(load.services, load.endpoints)
  const { agent } = await syncOnce(stage, load)
  const milliseconds: number[] = []
  const cpu: number[] = []
  for (let run = 1; run <= load.runs; run++) {
    await sleep(BETWEEN_CHANGES_MS)
    const before = cpuSeconds(agent.pid!)
    milliseconds.push(await changeOnce(stage, load, run))
    cpu.push((cpuSeconds(agent.pid!) - before) * 1000)
    if (run % 10 === 0) progress(`change ${run} of ${load.runs}`)
  }
  const memory = residentMemory(agent.pid!)
  return {
    patchToKernel: figure(milliseconds, 'ms'),
    agentCpuPerChange: figure(cpu, 'ms'),
    agentMemory: figure([memory.now], 'MiB'),
    agentPeakMemory: figure([memory.peak], 'MiB'),
  }
}

async function syncOnce(stage: Stage, load: Load): Promise<{ agent: ChildProcess; elapsedMs: number }> {
  const start = monotonicMs()
  const deadline = start + SYNC_TIMEOUT_MS
  let seen = { generation: await stage.nft.generation(), at: start }
  const agent = stage.startAgent(load.mode)
  do {
    seen = await generationAfter(stage.nft, seen.generation, deadline - monotonicMs(), SYNC_POLL_MS)
  } while (!(await isComplete(stage, load.services)))
  return { agent, elapsedMs: seen.at - start }
}

/** True when the kernel answers for every Service; the default Service of the API server comes on top. */
async function isComplete(stage: Stage, services: number): Promise<boolean> {
  const table = await stage.nft.read('ip', 'kube-proxy')
  const frontends = [...(table?.elements ?? [])].filter(([set]) => set.startsWith('service-ips'))
  return frontends.some(([, elements]) => elements.length >= services)
}

async function changeOnce(stage: Stage, load: Load, version: number): Promise<number> {
  const index = (version * 7919) % load.services
  const { endpoints, metadata } = benchSlice(index, load.endpoints, version)
  const path = `/apis/discovery.k8s.io/v1/namespaces/${metadata.namespace}/endpointslices/${metadata.name}`
  const generation = await stage.nft.generation()
  const [sentAtMs, { at }] = await Promise.all([
    stage.patch(path, { endpoints }),
    generationAfter(stage.nft, generation, CHANGE_TIMEOUT_MS, CHANGE_POLL_MS),
  ])
  return at - sentAtMs
}
