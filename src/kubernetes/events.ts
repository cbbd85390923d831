import type { ApiClient } from './client.ts'
import { ApiStatusError } from './errors.ts'

/** The object that an Event is about. */
export interface ObjectReference {
  readonly apiVersion: string
  readonly kind: string
  readonly name: string
  /** Absent for cluster-wide objects. */
  readonly namespace?: string
  readonly uid?: string
}

export interface EventReport {
  readonly regarding: ObjectReference
  readonly type: 'Normal' | 'Warning'
  /** One word in CamelCase, e.g. `Starting`. */
  readonly reason: string
  /** What was done, one word, e.g. `StartKubeProxy`. */
  readonly action: string
  /** For people; cut at 1024 characters, the limit of the API. */
  readonly note: string
  readonly reportingController: string
  readonly reportingInstance: string
}

/** Longest wait for the server to take an Event, so that they do not pile up on one that is away. */
const TIMEOUT_MS = 10_000
const NOTE_LIMIT = 1024

/**
 * Writes an Event (events.k8s.io/v1, https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/),
 * or a core/v1 one on servers that only have that. Events are news, not state: one that cannot be written is lost.
 *
 * @returns null if it was written, otherwise why not; never rejects
 */
export async function postEvent(
  client: ApiClient,
  report: EventReport,
  signal: AbortSignal,
): Promise<unknown> {
  const namespace = report.regarding.namespace ?? 'default'
  const now = client.clock.now()
  // As client-go names them: the object and the time in nanoseconds, in hexadecimal.
  const unique = (BigInt(Math.round(now * 1000)) * 1000n + (process.hrtime.bigint() % 1000n)).toString(16)
  const metadata = { name: `${report.regarding.name}.${unique}`, namespace }
  const post = (path: string, body: unknown): Promise<unknown> =>
    client.send({ method: 'POST', path, body, headersTimeoutMs: TIMEOUT_MS, signal })
  try {
    await post(`/apis/events.k8s.io/v1/namespaces/${namespace}/events`, eventsV1(report, metadata, now))
    return null
  } catch (error) {
    if (!(error instanceof ApiStatusError && error.status === 404)) return error
  }
  return post(`/api/v1/namespaces/${namespace}/events`, coreV1(report, metadata, now)).then(
    () => null,
    (error: unknown) => error,
  )
}

function eventsV1(report: EventReport, metadata: object, now: number): unknown {
  const { regarding, type, reason, action, reportingController, reportingInstance } = report
  return {
    apiVersion: 'events.k8s.io/v1',
    kind: 'Event',
    metadata,
    eventTime: microTime(now),
    regarding,
    type,
    reason,
    action,
    note: report.note.slice(0, NOTE_LIMIT),
    reportingController,
    reportingInstance,
  }
}

function coreV1(report: EventReport, metadata: object, now: number): unknown {
  const { regarding, type, reason, action, reportingController, reportingInstance } = report
  const time = `${new Date(now).toISOString().slice(0, 19)}Z`
  return {
    apiVersion: 'v1',
    kind: 'Event',
    metadata,
    involvedObject: regarding,
    type,
    reason,
    action,
    message: report.note.slice(0, NOTE_LIMIT),
    firstTimestamp: time,
    lastTimestamp: time,
    count: 1,
    source: { component: reportingController, host: reportingInstance },
    reportingComponent: reportingController,
    reportingInstance,
  }
}

/** metav1.MicroTime wants six digits after the second. */
function microTime(now: number): string {
  return new Date(now).toISOString().replace('Z', '000Z')
}
