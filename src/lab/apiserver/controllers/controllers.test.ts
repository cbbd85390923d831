import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Cidr } from '../../../net/cidr.ts'
import type { EndpointSlice } from '../../../kubernetes/objects.ts'
import { clone, dictOf } from '../json.ts'
import type { ApiObject, Dict } from '../json.ts'
import type { ApiServer } from '../server.ts'
import { startApiServer } from '../server.ts'
import { TestClient, node, pod, service } from '../testing/client.ts'

const SERVICES = '/api/v1/namespaces/default/services'
const SLICES = '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices'
const PODS = '/api/v1/namespaces/default/pods'
const DEPLOYMENTS = '/apis/apps/v1/namespaces/default/deployments'

let server: ApiServer
let client: TestClient

beforeEach(async () => {
  server = await startApiServer({
    firstRevision: 1000,
    serviceCidrs: ['10.96.0.0/16', 'fd00:96::/112'] as Cidr[],
    endpointSliceController: true,
    deploymentController: true,
    scheduler: true,
  })
  client = new TestClient(server.url)
  server.store.putRaw([node('n1', 'z1'), node('n2', 'z2'), node('n3')])
})
afterEach(async () => await server.close())

async function slicesOf(name: string): Promise<EndpointSlice[]> {
  const { body } = await client.get(`${SLICES}?labelSelector=kubernetes.io/service-name%3D${name}`)
  return (body.items ?? []) as unknown as EndpointSlice[]
}

const addresses = (slices: readonly EndpointSlice[]): string[] =>
  slices.flatMap(({ endpoints }) => (endpoints ?? []).flatMap((endpoint) => endpoint.addresses))

describe('slices', () => {
  test('follow the pods that a Service selects, in both families', async () => {
    server.store.putRaw([
      pod('a', 's', 'n1', ['10.1.0.1', 'fd00:1::1']),
      pod('b', 's', 'n2', ['10.2.0.1', 'fd00:2::1'], false),
      pod('c', 'other', 'n2', ['10.2.0.9']),
      { ...pod('d', 's', 'n3', ['10.3.0.1']), status: { phase: 'Succeeded', podIP: '10.3.0.1' } },
    ])
    await client.post(
      SERVICES,
      service('s', { ipFamilyPolicy: 'PreferDualStack', ports: [{ port: 80, targetPort: 'web' }] }),
    )
    await expect.poll(async () => addresses(await slicesOf('s')).length).toBe(4)
    const slices = await slicesOf('s')
    expect(slices.map(({ addressType }) => addressType).sort()).toEqual(['IPv4', 'IPv6'])
    const v4 = slices.find(({ addressType }) => addressType === 'IPv4')
    expect(v4).toMatchObject({
      ports: [{ name: '', port: 8080, protocol: 'TCP' }],
      endpoints: [
        {
          addresses: ['10.1.0.1'],
          conditions: { ready: true, serving: true, terminating: false },
          nodeName: 'n1',
          zone: 'z1',
          targetRef: { kind: 'Pod', name: 'a', namespace: 'default' },
        },
        {
          addresses: ['10.2.0.1'],
          conditions: { ready: false, serving: false, terminating: false },
          zone: 'z2',
        },
      ],
    })
    expect(v4?.metadata.labels).toMatchObject({
      'endpointslice.kubernetes.io/managed-by': 'endpointslice-controller.k8s.io',
    })
    expect(v4?.metadata.annotations).toHaveProperty(['endpoints.kubernetes.io/last-change-trigger-time'])
    expect(v4?.metadata.ownerReferences).toMatchObject([{ kind: 'Service', name: 's', controller: true }])
  })

  test('say that a pod terminates until it is gone', async () => {
    server.store.putRaw([pod('a', 's', 'n1', ['10.1.0.1'])])
    await client.post(SERVICES, service('s'))
    await expect.poll(async () => addresses(await slicesOf('s'))).toEqual(['10.1.0.1'])
    await client.send('DELETE', `${PODS}/a`)
    await expect
      .poll(async () => (await slicesOf('s'))[0]?.endpoints?.[0]?.conditions)
      .toEqual({ ready: false, serving: true, terminating: true })
    await client.send('DELETE', `${PODS}/a?gracePeriodSeconds=0`)
    await expect.poll(async () => (await slicesOf('s'))[0]?.endpoints).toEqual([])
  })

  test('hold at most 100 endpoints, and an endpoint stays where it is', async () => {
    const pods = Array.from({ length: 150 }, (_, i) => pod(`p${i}`, 's', 'n1', [`10.1.1.${i + 1}`]))
    server.store.putRaw(pods)
    await client.post(SERVICES, service('s'))
    await expect.poll(async () => addresses(await slicesOf('s')).length).toBe(150)
    const before = await slicesOf('s')
    expect(before.map(({ endpoints }) => endpoints?.length).sort()).toEqual([100, 50])
    server.store.deleteRaw(pods.slice(0, 20))
    await expect.poll(async () => addresses(await slicesOf('s')).length).toBe(130)
    const after = await slicesOf('s')
    const where = (slices: readonly EndpointSlice[]): Map<string, string> =>
      new Map(slices.flatMap((slice) => addresses([slice]).map((ip) => [ip, slice.metadata.name])))
    const old = where(before)
    for (const [ip, name] of where(after)) expect(old.get(ip)).toBe(name)
  })

  test.each([
    ['PreferClose', { forZones: [{ name: 'z1' }] }],
    ['PreferSameNode', { forZones: [{ name: 'z1' }], forNodes: [{ name: 'n1' }] }],
    [undefined, undefined],
  ])('of a Service with trafficDistribution %s have hints %j', async (trafficDistribution, hints) => {
    server.store.putRaw([pod('a', 's', 'n1', ['10.1.0.1'])])
    await client.post(SERVICES, service('s', { trafficDistribution }))
    await expect.poll(async () => (await slicesOf('s'))[0]?.endpoints?.[0]?.addresses).toEqual(['10.1.0.1'])
    expect((await slicesOf('s'))[0]?.endpoints?.[0]?.hints).toEqual(hints)
  })

  test('of unready pods are ready where the Service publishes them', async () => {
    server.store.putRaw([pod('a', 's', 'n1', ['10.1.0.1'], false)])
    await client.post(SERVICES, service('s', { publishNotReadyAddresses: true }))
    await expect
      .poll(async () => (await slicesOf('s'))[0]?.endpoints?.[0]?.conditions)
      .toEqual({ ready: true, serving: false, terminating: false })
  })

  test('of other writers are left alone, those of the controller are put right', async () => {
    const own = {
      metadata: { name: 'mine', labels: { 'kubernetes.io/service-name': 's' } },
      addressType: 'IPv4',
      endpoints: [{ addresses: ['192.0.2.9'] }],
      ports: [],
    }
    await client.post(SLICES, own)
    server.store.putRaw([pod('a', 's', 'n1', ['10.1.0.1'])])
    await client.post(SERVICES, service('s'))
    await expect.poll(async () => addresses(await slicesOf('s')).sort()).toEqual(['10.1.0.1', '192.0.2.9'])
    const managed = (await slicesOf('s')).find(({ metadata }) => metadata.name !== 'mine')!
    await client.patch(`${SLICES}/${managed.metadata.name}`, 'merge-patch+json', { endpoints: [] })
    await expect.poll(async () => addresses(await slicesOf('s')).sort()).toEqual(['10.1.0.1', '192.0.2.9'])
  })

  test('go with their Service, and Services without selector have none', async () => {
    await client.post(SERVICES, service('s'))
    await client.post(SERVICES, service('bare', { selector: {} }))
    await expect.poll(async () => (await slicesOf('s')).length).toBe(1)
    expect(await slicesOf('bare')).toEqual([])
    await client.send('DELETE', `${SERVICES}/s`)
    await expect.poll(async () => (await slicesOf('s')).length).toBe(0)
  })

  test('change their ports in place when the Service does', async () => {
    server.store.putRaw([pod('a', 's', 'n1', ['10.1.0.1'])])
    await client.post(SERVICES, service('s'))
    await expect.poll(async () => (await slicesOf('s'))[0]?.ports).toMatchObject([{ port: 80 }])
    const [{ metadata }] = (await slicesOf('s')) as [EndpointSlice]
    await client.patch(`${SERVICES}/s`, 'merge-patch+json', {
      spec: { ports: [{ port: 80, targetPort: 9000 }] },
    })
    await expect.poll(async () => (await slicesOf('s'))[0]?.ports).toMatchObject([{ port: 9000 }])
    expect((await slicesOf('s')).map((slice) => slice.metadata.name)).toEqual([metadata.name])
  })
})

describe('deployments', () => {
  const deployment = (replicas: number, image = 'echo:1'): Dict => ({
    metadata: { name: 'web' },
    spec: {
      replicas,
      selector: { matchLabels: { app: 'web' } },
      template: { metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'c', image }] } },
    },
  })

  async function pods(): Promise<ApiObject[]> {
    return (await client.get(`${PODS}?labelSelector=app%3Dweb`)).body.items ?? []
  }

  /** Stands in for the nodes: what is placed becomes ready, what terminates goes. */
  async function runPods(): Promise<void> {
    for (const each of await pods()) {
      if (each.metadata.deletionTimestamp !== undefined) {
        await client.send('DELETE', `${PODS}/${each.metadata.name}?gracePeriodSeconds=0`)
        continue
      }
      const status = { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] }
      await client.patch(`${PODS}/${each.metadata.name}/status`, 'merge-patch+json', { status })
    }
  }

  test('make pods that are spread over the nodes', async () => {
    await client.post(DEPLOYMENTS, deployment(3))
    await expect
      .poll(async () => (await pods()).map((each) => dictOf(each['spec'])['nodeName']).sort())
      .toEqual(['n1', 'n2', 'n3'])
    await runPods()
    await expect
      .poll(async () => (await client.get(`${DEPLOYMENTS}/web`)).body['status'])
      .toMatchObject({ replicas: 3, readyReplicas: 3, availableReplicas: 3, observedGeneration: 1 })
  })

  test('scale up and down through the scale subresource', async () => {
    await client.post(DEPLOYMENTS, deployment(1))
    const scale = await client.get(`${DEPLOYMENTS}/web/scale`)
    expect(scale.body).toMatchObject({ kind: 'Scale', apiVersion: 'autoscaling/v1', spec: { replicas: 1 } })
    await client.send('PUT', `${DEPLOYMENTS}/web/scale`, { ...scale.body, spec: { replicas: 4 } })
    await expect.poll(async () => (await pods()).length).toBe(4)
    await client.patch(`${DEPLOYMENTS}/web/scale`, 'merge-patch+json', { spec: { replicas: 1 } })
    await expect
      .poll(
        async () => (await pods()).filter(({ metadata }) => metadata.deletionTimestamp === undefined).length,
      )
      .toBe(1)
  })

  test('roll to a new template without ever having too few ready pods', async () => {
    await client.post(DEPLOYMENTS, deployment(2))
    await expect.poll(async () => (await pods()).length).toBe(2)
    await runPods()
    await client.patch(`${DEPLOYMENTS}/web`, 'strategic-merge-patch+json', {
      spec: { template: { spec: { containers: [{ name: 'c', image: 'echo:2' }] } } },
    })
    const images = async (): Promise<unknown[]> => {
      await runPods()
      const alive = (await pods()).filter(({ metadata }) => metadata.deletionTimestamp === undefined)
      expect(alive.length).toBeGreaterThanOrEqual(2)
      return alive.map((each) => (dictOf(each['spec'])['containers'] as { image: string }[])[0]?.image)
    }
    await expect.poll(images, { timeout: 5000 }).toEqual(['echo:2', 'echo:2'])
  })

  test('say why no pod can be made of their template', async () => {
    const odd = deployment(1)
    const spec = dictOf(odd['spec'])
    spec['template'] = {
      metadata: { labels: { app: 'web' }, annotations: { 'not a key': '' } },
      spec: { containers: [{ name: 'c', image: 'i' }] },
    }
    await client.post(DEPLOYMENTS, odd)
    await expect
      .poll(async () => JSON.stringify((await client.get(`${DEPLOYMENTS}/web`)).body['status']))
      .toMatch(/ReplicaFailure.*metadata\.annotations/)
    expect((await client.get(DEPLOYMENTS)).code).toBe(200)
  })

  test('take their pods along', async () => {
    await client.post(DEPLOYMENTS, deployment(2))
    await expect.poll(async () => (await pods()).length).toBe(2)
    await client.send('DELETE', `${DEPLOYMENTS}/web`)
    await expect
      .poll(async () => {
        await runPods()
        return (await pods()).length
      })
      .toBe(0)
  })

  test('leave pods waiting when no node takes any', async () => {
    for (const name of ['n1', 'n2', 'n3']) {
      await client.patch(`/api/v1/nodes/${name}`, 'merge-patch+json', { spec: { unschedulable: true } })
    }
    await client.post(DEPLOYMENTS, deployment(1))
    await expect.poll(async () => (await pods()).length).toBe(1)
    expect(dictOf((await pods())[0]?.['spec'])).not.toHaveProperty('nodeName')
    await client.patch('/api/v1/nodes/n2', 'merge-patch+json', { spec: { unschedulable: null } })
    await expect.poll(async () => dictOf(clone((await pods())[0]?.['spec']))['nodeName']).toBe('n2')
  })
})
