import { once } from 'node:events'
import { createServer, request } from 'node:http'
import { ProxyError } from '../shared/errors.ts'

/** What `lab status` tells; its JSON form is the contract of `lab status -o json`. */
export interface LabStatus {
  readonly name: string
  readonly state: 'starting' | 'running'
  readonly startedAt: string
  readonly apiServer: string
  readonly kubeconfig: string
  readonly logs: string
  readonly mode: string | null
  readonly nodes: readonly AgentStatus[]
  readonly pods: readonly PodStatus[]
  readonly namespaces: readonly string[]
}

export interface AgentStatus {
  readonly node: string
  readonly zone: string
  readonly addresses: readonly string[]
  /** `none`: the lab was started without agents. */
  readonly agent: 'running' | 'restarting' | 'none'
  readonly restarts: number
  readonly log: string | null
}

export interface PodStatus {
  readonly namespace: string
  readonly name: string
  readonly node: string | null
  readonly addresses: readonly string[]
  readonly phase: string
  readonly ready: boolean
}

/** Serves the supervisor's status on a Unix socket in the lab's directory. */
export async function serveControl(path: string, status: () => LabStatus): Promise<void> {
  const server = createServer((_request, response) => {
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(status()))
  })
  server.listen(path)
  await once(server, 'listening')
}

/** Asks a lab's supervisor for its status. */
export function readStatus(path: string): Promise<LabStatus> {
  return new Promise((resolve, reject) => {
    const fail = (cause: Error): void =>
      reject(
        new ProxyError(
          'LAB_UNREACHABLE',
          `the lab's supervisor does not answer on ${path}: ${cause.message}. "switchback lab down" removes the lab`,
          { cause },
        ),
      )
    const outgoing = request({ socketPath: path, path: '/status', timeout: 5000 }, (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => (text += chunk))
      response.once('end', () => resolve(JSON.parse(text) as LabStatus))
    })
    outgoing.once('timeout', () => outgoing.destroy(new Error('no answer within 5 s')))
    outgoing.once('error', fail)
    outgoing.end()
  })
}
