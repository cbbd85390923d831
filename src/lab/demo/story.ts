import { ProxyError } from '../../shared/errors.ts'
import type { RequestSummary } from '../programs/requests.ts'
import { MANIFEST } from './manifest.ts'
import type { LabSession } from './session.ts'

/** Where the demo speaks. */
export interface Stage {
  heading(title: string): void
  say(text: string): void
  /** A command the reader could type, as it is run. */
  command(line: string): void
  table(head: readonly string[], rows: readonly (readonly string[])[]): void
}

/** What the demo found; every figure was measured in this run. */
export interface DemoFigures {
  readonly spread: RequestSummary
  readonly underRemoval: RequestSummary
  readonly ipv6: RequestSummary
}

const NAME = 'http://echo.default.svc.cluster.local/'
const REQUESTS = 100
const LOAD_PER_SECOND = 100
/** How many answers are counted before and after the endpoint goes. */
const LOAD_PHASE = 200

/** Shows Services at work in a running lab. Rejects at the first thing that is not as it should be. */
export async function tellStory(lab: LabSession, stage: Stage): Promise<DemoFigures> {
  await applyManifest(lab, stage)
  const spread = await spreadRequests(lab, stage)
  await fromOutside(lab, stage)
  await explainPacket(lab, stage)
  const underRemoval = await removeEndpoint(lab, stage)
  const ipv6 = await overIpv6(lab, stage)
  return { spread, underRemoval, ipv6 }
}

async function applyManifest(lab: LabSession, stage: Stage): Promise<void> {
  stage.heading('Three pods behind one Service')
  stage.command('switchback lab kubectl apply -f echo.yaml')
  stage.say((await lab.kubectl(['apply', '-f', '-'], MANIFEST)).trimEnd())
  await lab.kubectl(['wait', '--for=condition=Available', 'deployment/echo', '--timeout=30s'])
  await lab.kubectl(['wait', '--for=condition=Ready', 'pod', '--all', '--timeout=30s'])
  stage.command('switchback lab kubectl get pods,services -o wide')
  stage.say((await lab.kubectl(['get', 'pods,services', '-o', 'wide'])).trimEnd())
  await lab.reachAll('pod:default/client', NAME, 3, 4)
  await lab.reachAll('pod:default/client', NAME, 3, 6)
}

async function spreadRequests(lab: LabSession, stage: Stage): Promise<RequestSummary> {
  stage.heading(`${REQUESTS} requests from a pod, by the Service's name`)
  stage.say(`Each is a new connection from pod "client" on node-3 to ${NAME}`)
  const summary = await lab.requests('pod:default/client', NAME, REQUESTS, 4)
  showSpread(stage, summary)
  expectAll(summary, 3)
  stage.say(`The pods saw the client's own address: ${Object.keys(summary.clients).join(', ')}`)
  return summary
}

function showSpread(stage: Stage, summary: RequestSummary): void {
  const rows = Object.entries(summary.pods)
    .toSorted(([, a], [, b]) => (a.node < b.node ? -1 : 1))
    .map(([pod, { node, answers }]) => [
      pod,
      node,
      String(answers),
      '#'.repeat(Math.round((answers / summary.sent) * 60)),
    ])
  stage.table(['POD', 'NODE', 'ANSWERS', ''], rows)
}

function expectAll(summary: RequestSummary, podCount: number): void {
  const pods = Object.keys(summary.pods).length
  if (summary.failed === 0 && summary.answered === summary.sent && pods === podCount) return
  throw new ProxyError(
    'LAB_FAILED',
    `of ${summary.sent} requests ${summary.answered} were answered, by ${pods} pods (expected ${podCount}); ${summary.errors.join('; ')}`,
  )
}

async function fromOutside(lab: LabSession, stage: Stage): Promise<void> {
  stage.heading('A NodePort, from outside the cluster')
  const argv = ['curl', '-sS', '-4', '--max-time', '5', 'http://node-1:30080/']
  stage.command(`switchback lab exec outside -- ${argv.join(' ')}`)
  stage.say((await lab.run('outside', argv)).trimEnd())
  stage.say(
    '"client" is a node: a connection from outside that may leave to another node comes back the same way.',
  )
}

async function explainPacket(lab: LabSession, stage: Stage): Promise<void> {
  stage.heading('One packet, step by step')
  const ip = (await lab.kubectl(['get', 'service', 'echo', '-o', 'jsonpath={.spec.clusterIP}'])).trim()
  const args = ['trace', '--cluster', '--node', 'node-3', '--from', 'pod:default/client', '--to', `${ip}:80`]
  stage.command(`switchback ${args.join(' ')}`)
  stage.say((await lab.switchback(args)).trimEnd())
}

/** Scales the Deployment down while requests go on, until the pod is gone and as many answers again came after it. */
async function removeEndpoint(lab: LabSession, stage: Stage): Promise<RequestSummary> {
  stage.heading('An endpoint is taken away while requests go on')
  const before = await podNames(lab)
  const load = lab.load('pod:default/client', NAME, LOAD_PER_SECOND, 4)
  let summary: RequestSummary
  try {
    await load.until(({ progress }) => progress >= LOAD_PHASE)
    stage.command('switchback lab kubectl scale deployment/echo --replicas=2')
    await lab.kubectl(['scale', 'deployment/echo', '--replicas=2'])
    const gone = await leavingPod(lab, before)
    stage.say(`pod ${gone} ends; it may finish what it has for 3 s`)
    await lab.kubectl(['wait', '--for=delete', `pod/${gone}`, '--timeout=30s'])
    const { progress } = await load.until(() => true)
    await load.until((now) => now.progress >= progress + LOAD_PHASE)
  } finally {
    summary = await load.stop()
  }
  showSpread(stage, summary)
  stage.say(
    `${summary.sent} requests sent, ${summary.answered} answered, ${summary.failed} lost; longest time without an answer ${summary.longestGapMs} ms`,
  )
  expectAll(summary, 3)
  return summary
}

async function podNames(lab: LabSession): Promise<string[]> {
  const out = await lab.kubectl(['get', 'pods', '-l', 'app=echo', '-o', 'jsonpath={.items[*].metadata.name}'])
  return out.trim().split(/\s+/)
}

/** The one of the pods that is being deleted or is gone. */
async function leavingPod(lab: LabSession, before: readonly string[]): Promise<string> {
  const template = 'jsonpath={range .items[?(@.metadata.deletionTimestamp)]}{.metadata.name}{"\\n"}{end}'
  for (let tries = 0; tries < 100; tries++) {
    const ending =
      (await lab.kubectl(['get', 'pods', '-l', 'app=echo', '-o', template])).trim().split('\n')[0] ?? ''
    if (ending !== '') return ending
    const now = await podNames(lab)
    const gone = before.find((name) => !now.includes(name))
    if (gone !== undefined) return gone
  }
  throw new ProxyError('LAB_FAILED', 'no pod ends although the Deployment was scaled down')
}

async function overIpv6(lab: LabSession, stage: Stage): Promise<RequestSummary> {
  stage.heading('The same over IPv6')
  stage.say(`50 requests from pod "client" to ${NAME}, by the Service's IPv6 address`)
  const summary = await lab.requests('pod:default/client', NAME, 50, 6)
  showSpread(stage, summary)
  expectAll(summary, 2)
  const argv = ['curl', '-sS', '-6', '--max-time', '5', 'http://node-2:30080/']
  stage.command(`switchback lab exec outside -- ${argv.join(' ')}`)
  stage.say((await lab.run('outside', argv)).trimEnd())
  return summary
}
