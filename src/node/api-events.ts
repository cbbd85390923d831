import type { ApiClient } from '../kubernetes/client.ts'
import type { ObjectReference } from '../kubernetes/events.ts'
import { postEvent } from '../kubernetes/events.ts'
import type { Logger } from '../shared/logger.ts'
import type { AgentEvents } from './agent.ts'

export interface ApiEventsOptions {
  readonly client: ApiClient
  readonly nodeName: string
  readonly log: Logger
  /** Ends attempts that are under way. */
  readonly signal: AbortSignal
}

/** The name under which people look for the proxy's Events, whoever implements it. */
const CONTROLLER = 'kube-proxy'

/** Writes the agent's Events to the API server; one that fails is logged at -v=2 and dropped. */
export function apiEvents({ client, nodeName, log, signal }: ApiEventsOptions): AgentEvents {
  const record = async (
    regarding: ObjectReference,
    type: 'Normal' | 'Warning',
    reason: string,
    note: string,
  ): Promise<void> => {
    const report = {
      regarding,
      type,
      reason,
      note,
      action: 'StartKubeProxy',
      reportingController: CONTROLLER,
      reportingInstance: nodeName,
    }
    const error = await postEvent(client, report, signal)
    if (error !== null && !signal.aborted)
      log.v(2)?.info('An Event could not be recorded', { reason, err: error })
  }
  return {
    // The kubelet and kube-proxy name a Node's Events by its name in place of its uid; describe looks for that.
    node: (type, reason, message) =>
      void record({ kind: 'Node', apiVersion: 'v1', name: nodeName, uid: nodeName }, type, reason, message),
    service: (namespace, name, type, reason, message) =>
      void record({ kind: 'Service', apiVersion: 'v1', namespace, name }, type, reason, message),
  }
}
