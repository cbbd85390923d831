import dnsPacket from 'dns-packet'
import { expect, test } from 'vitest'
import type { EndpointSlice, Service } from '../../kubernetes/objects.ts'
import { answerMessage } from './message.ts'
import { groupSlices, resolve, reverseName } from './zone.ts'
import type { ZoneView } from './zone.ts'

const service = (name: string, spec: Service['spec']): [string, Service] => [
  `default/${name}`,
  { metadata: { name, namespace: 'default' }, spec },
]

function slice(name: string, addressType: string, addresses: readonly string[], ready = true): EndpointSlice {
  return {
    metadata: { name, namespace: 'default', labels: { 'kubernetes.io/service-name': 'db' } },
    addressType,
    endpoints: addresses.map((address, i) => ({
      addresses: [address],
      conditions: { ready },
      ...(i === 0 && ready && addressType === 'IPv4' ? { hostname: 'primary' } : {}),
    })),
    ports: [{ name: 'sql', protocol: 'TCP', port: 5432 }],
  }
}

const view: ZoneView = {
  domain: 'cluster.local',
  services: new Map([
    service('echo', {
      clusterIP: '10.96.1.1',
      clusterIPs: ['10.96.1.1', 'fd00:10:96::11'],
      ports: [{ name: 'http', protocol: 'TCP', port: 80 }],
    }),
    service('only4', { clusterIP: '10.96.1.2', clusterIPs: ['10.96.1.2'] }),
    service('db', { clusterIP: 'None', ports: [{ name: 'sql', port: 5432 }] }),
    service('empty', { clusterIP: 'None' }),
    service('elsewhere', { type: 'ExternalName', externalName: 'www.example.org' }),
  ]),
  slices: groupSlices([
    slice('db-4', 'IPv4', ['10.244.1.5', '10.244.2.5']),
    slice('db-6', 'IPv6', ['fd00:10:244:1::5']),
    slice('db-down', 'IPv4', ['10.244.3.9'], false),
  ]),
}

const data = (name: string, type: string): unknown[] => {
  const { rcode, answers } = resolve(view, name, type)
  expect(rcode).toBe('NOERROR')
  return answers.map((answer) => ('data' in answer ? answer.data : null))
}
const rcode = (name: string, type = 'A'): string => resolve(view, name, type).rcode

test('a Service has its cluster IPs, each in the record type of its family', () => {
  expect(data('echo.default.svc.cluster.local', 'A')).toEqual(['10.96.1.1'])
  expect(data('echo.default.svc.cluster.local', 'AAAA')).toEqual(['fd00:10:96::11'])
  expect(data('ECHO.Default.svc.cluster.local.', 'A')).toEqual(['10.96.1.1'])
})

test('a name that exists without records of the type is no data, not no name', () => {
  expect(data('only4.default.svc.cluster.local', 'AAAA')).toEqual([])
  expect(data('echo.default.svc.cluster.local', 'MX')).toEqual([])
  for (const name of ['cluster.local', 'svc.cluster.local', 'default.svc.cluster.local']) {
    expect(data(name, 'A')).toEqual([])
  }
  expect(data('_tcp.echo.default.svc.cluster.local', 'SRV')).toEqual([])
  expect(data('_http._tcp.echo.default.svc.cluster.local', 'A')).toEqual([])
})

test('what does not exist in the zone is NXDOMAIN, what is outside is refused', () => {
  expect(rcode('nothing.default.svc.cluster.local')).toBe('NXDOMAIN')
  expect(rcode('echo.nowhere.svc.cluster.local')).toBe('NXDOMAIN')
  expect(rcode('nowhere.svc.cluster.local')).toBe('NXDOMAIN')
  expect(rcode('echo.default.pod.cluster.local')).toBe('NXDOMAIN')
  expect(rcode('x.echo.default.svc.cluster.local')).toBe('NXDOMAIN')
  expect(rcode('_https._tcp.echo.default.svc.cluster.local', 'SRV')).toBe('NXDOMAIN')
  expect(rcode('echo.default.svc.cluster.local.default.svc.cluster.local')).toBe('NXDOMAIN')
  expect(rcode('example.org')).toBe('REFUSED')
  expect(rcode('notcluster.local')).toBe('REFUSED')
})

test('a headless Service has the addresses of its ready endpoints, and each endpoint a name', () => {
  expect(data('db.default.svc.cluster.local', 'A')).toEqual(['10.244.1.5', '10.244.2.5'])
  expect(data('db.default.svc.cluster.local', 'AAAA')).toEqual(['fd00:10:244:1::5'])
  expect(data('primary.db.default.svc.cluster.local', 'A')).toEqual(['10.244.1.5'])
  expect(data('10-244-2-5.db.default.svc.cluster.local', 'A')).toEqual(['10.244.2.5'])
  expect(rcode('10-244-3-9.db.default.svc.cluster.local')).toBe('NXDOMAIN')
  expect(rcode('empty.default.svc.cluster.local')).toBe('NXDOMAIN')
})

test('unready endpoints have names where the Service publishes them', () => {
  const [key, db] = service('db', { clusterIP: 'None', publishNotReadyAddresses: true })
  const published = { ...view, services: new Map([[key, db]]) }
  expect(resolve(published, '10-244-3-9.db.default.svc.cluster.local', 'A').answers).toHaveLength(1)
})

test('SRV tells port and target, with the target’s addresses beside it', () => {
  const { answers, additionals } = resolve(view, '_http._tcp.echo.default.svc.cluster.local', 'SRV')
  expect(answers).toMatchObject([
    { data: { port: 80, target: 'echo.default.svc.cluster.local', priority: 0 } },
  ])
  expect(additionals.map((record) => ('data' in record ? record.data : ''))).toEqual([
    '10.96.1.1',
    'fd00:10:96::11',
  ])
  expect(data('_sql._tcp.db.default.svc.cluster.local', 'SRV')).toMatchObject([
    { port: 5432, target: 'primary.db.default.svc.cluster.local' },
    { port: 5432, target: '10-244-2-5.db.default.svc.cluster.local' },
    { port: 5432, target: 'fd00-10-244-1--5.db.default.svc.cluster.local' },
  ])
})

test('an external name is an alias', () => {
  expect(resolve(view, 'elsewhere.default.svc.cluster.local', 'A').answers).toMatchObject([
    { type: 'CNAME', data: 'www.example.org' },
  ])
})

test('cluster IPs and headless endpoints have names in reverse', () => {
  expect(data(reverseName('10.96.1.1')!, 'PTR')).toEqual(['echo.default.svc.cluster.local'])
  expect(data(reverseName('fd00:10:96::11')!, 'PTR')).toEqual(['echo.default.svc.cluster.local'])
  expect(data(reverseName('10.244.1.5')!, 'PTR')).toEqual(['primary.db.default.svc.cluster.local'])
  expect(rcode('1.1.1.1.in-addr.arpa', 'PTR')).toBe('REFUSED')
  expect(reverseName('2001:db8::1')).toBe(
    '1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa',
  )
})

test('a negative answer carries the start of authority, so that resolvers know how long to keep it', () => {
  const ask = dnsPacket.encode({
    type: 'query',
    id: 7,
    flags: dnsPacket.RECURSION_DESIRED,
    questions: [{ type: 'A', name: 'no.default.svc.cluster.local' }],
  })
  const answer = dnsPacket.decode(answerMessage(view, ask, 'udp')!)
  expect(answer).toMatchObject({ id: 7, type: 'response', rcode: 'NXDOMAIN', flag_aa: true, flag_rd: true })
  expect(answer.authorities).toMatchObject([{ type: 'SOA', name: 'cluster.local' }])
})

test('an answer too long for UDP is cut and marked, and comes whole over TCP', () => {
  const many = Array.from({ length: 60 }, (_, i) => `10.244.1.${i + 1}`)
  const large = { ...view, slices: groupSlices([slice('db-4', 'IPv4', many)]) }
  const question = { type: 'A' as const, name: 'db.default.svc.cluster.local' }
  const plain = dnsPacket.encode({ type: 'query', id: 1, questions: [question] })
  const cut = dnsPacket.decode(answerMessage(large, plain, 'udp')!)
  expect([cut.flag_tc, cut.answers?.length]).toEqual([true, 0])
  expect(dnsPacket.decode(answerMessage(large, plain, 'tcp')!).answers).toHaveLength(60)
  const few = { ...view, slices: groupSlices([slice('db-4', 'IPv4', many.slice(0, 20))]) }
  const opt = {
    type: 'OPT' as const,
    name: '.' as const,
    udpPayloadSize: 4096,
    extendedRcode: 0,
    ednsVersion: 0,
    flags: 0,
    flag_do: false,
    options: [],
  }
  const offered = dnsPacket.encode({ type: 'query', id: 1, questions: [question], additionals: [opt] })
  expect(dnsPacket.decode(answerMessage(few, plain, 'udp')!).flag_tc).toBe(true)
  expect(dnsPacket.decode(answerMessage(few, offered, 'udp')!).answers).toHaveLength(20)
})

test('a message that is no query gets a format error or nothing, never an exception', () => {
  expect(answerMessage(view, Buffer.from('short'), 'udp')).toBeNull()
  const garbage = Buffer.from('0007010000010000000000003f616263', 'hex')
  expect(dnsPacket.decode(answerMessage(view, garbage, 'udp')!)).toMatchObject({ id: 7, rcode: 'FORMERR' })
  const response = dnsPacket.encode({ type: 'response', id: 3, questions: [] })
  expect(answerMessage(view, response, 'udp')).toBeNull()
})
