import * as http from 'node:http'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { sendJson, sendStatus } from '../../test/support/fake-collection.ts'
import { listen } from '../../test/support/loopback-server.ts'
import type { Listening } from '../../test/support/loopback-server.ts'
import { anonymousAccess } from './access.ts'
import { ApiClient } from './client.ts'
import { postEvent } from './events.ts'
import type { EventReport } from './events.ts'

interface Posted {
  readonly path: string
  readonly body: Record<string, unknown>
}

let server: Listening
let client: ApiClient
let posted: Posted[]
let refuse: (path: string) => number

beforeEach(async () => {
  posted = []
  refuse = () => 0
  server = await listen(
    http.createServer((request, response) => {
      void request.toArray().then((parts) => {
        const path = request.url ?? ''
        posted.push({ path, body: JSON.parse(Buffer.concat(parts).toString()) as Record<string, unknown> })
        const status = refuse(path)
        if (status === 0) sendJson(response, 201, {})
        else sendStatus(response, status, '', 'refused')
      })
    }),
  )
  client = new ApiClient({
    access: anonymousAccess(`http://127.0.0.1:${server.port}`, 'test'),
    userAgent: 't',
    qps: -1,
  })
})

afterEach(async () => {
  client.close()
  await server[Symbol.asyncDispose]()
})

const REPORT: EventReport = {
  regarding: { apiVersion: 'v1', kind: 'Service', name: 'web', namespace: 'shop' },
  type: 'Warning',
  reason: 'FailedToStartServiceHealthcheck',
  action: 'Listen',
  note: 'é'.repeat(2000),
  reportingController: 'kube-proxy',
  reportingInstance: 'kube-proxy-node-a',
}
const never = new AbortController().signal

describe('an Event', () => {
  test('is written beside its object', async () => {
    expect(await postEvent(client, REPORT, never)).toBeNull()
    expect(posted).toEqual([
      {
        path: '/apis/events.k8s.io/v1/namespaces/shop/events',
        body: {
          apiVersion: 'events.k8s.io/v1',
          kind: 'Event',
          metadata: { name: expect.stringMatching(/^web\.[0-9a-f]{15,16}$/) as string, namespace: 'shop' },
          eventTime: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/) as string,
          regarding: REPORT.regarding,
          type: 'Warning',
          reason: 'FailedToStartServiceHealthcheck',
          action: 'Listen',
          note: 'é'.repeat(1024),
          reportingController: 'kube-proxy',
          reportingInstance: 'kube-proxy-node-a',
        },
      },
    ])
  })

  test('about a cluster-wide object goes to the namespace default', async () => {
    await postEvent(client, { ...REPORT, regarding: { apiVersion: 'v1', kind: 'Node', name: 'a' } }, never)
    expect(posted[0]!.path).toContain('/namespaces/default/')
  })

  test('is written in the old form where the new one is not there', async () => {
    refuse = (path) => (path.startsWith('/apis/') ? 404 : 0)
    expect(await postEvent(client, REPORT, never)).toBeNull()
    expect(posted[1]).toMatchObject({
      path: '/api/v1/namespaces/shop/events',
      body: {
        kind: 'Event',
        apiVersion: 'v1',
        involvedObject: REPORT.regarding,
        count: 1,
        reason: REPORT.reason,
      },
    })
  })

  test('that is refused is lost, and the reason given', async () => {
    refuse = () => 403
    expect(await postEvent(client, REPORT, never)).toMatchObject({ code: 'API_FORBIDDEN' })
    expect(posted).toHaveLength(1)
  })
})
