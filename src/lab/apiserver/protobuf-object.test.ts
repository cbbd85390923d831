import { expect, test } from 'vitest'
import { decodeProtobuf } from './protobuf-object.ts'
import { ProtoWriter } from './protobuf.ts'

/** The body of `kubectl create configmap foo --from-literal=a=b` of release 1.32, as sent. */
const CONFIG_MAP = Buffer.from(
  '6b3873000a0f0a0276311209436f6e6669674d6170121d0a130a03666f6f12001a0022002a0032003800420012060a016112016' +
    '21a002200',
  'hex',
)

function wrap(kind: string, raw: Buffer): Buffer {
  const type = new ProtoWriter().bytes(1, 'v1').bytes(2, kind).finish()
  return Buffer.concat([Buffer.from('k8s\0'), new ProtoWriter().bytes(1, type).bytes(2, raw).finish()])
}

test('reads what kubectl sends, leaving out what nobody set', () => {
  expect(decodeProtobuf(CONFIG_MAP)).toEqual({
    kind: 'ConfigMap',
    apiVersion: 'v1',
    metadata: { name: 'foo' },
    data: { a: 'b' },
  })
})

test('reads numbers, lists and ports by name', () => {
  const byName = new ProtoWriter().bytes(3, 'web').finish()
  const targetPort = Buffer.concat([Buffer.from([0x08, 1]), byName])
  const port = Buffer.concat([
    new ProtoWriter().bytes(1, 'http').finish(),
    Buffer.from([0x18, 0xd2, 0x3f]),
    new ProtoWriter().bytes(4, targetPort).finish(),
  ])
  const spec = new ProtoWriter().bytes(1, port).bytes(1, port).bytes(18, '10.96.0.9').finish()
  expect(decodeProtobuf(wrap('Service', new ProtoWriter().bytes(2, spec).finish()))).toMatchObject({
    spec: {
      ports: [{ name: 'http', port: 8146, targetPort: 'web' }, { port: 8146 }],
      clusterIPs: ['10.96.0.9'],
    },
  })
})

test.each([
  ['what is no such message', Buffer.from('hello'), /not in the Kubernetes protobuf form/],
  ['a message that is cut short', CONFIG_MAP.subarray(0, -3), /not a protobuf message/],
  ['a kind it does not know', wrap('Secret', Buffer.alloc(0)), /Secret cannot be read from protobuf/],
  [
    'a field it would lose',
    wrap('Pod', new ProtoWriter().bytes(2, new ProtoWriter().bytes(18, 'x').finish()).finish()),
    /field 18 of PodSpec cannot be read from protobuf/,
  ],
])('refuses %s', (_what, body, message) => {
  expect(() => decodeProtobuf(body)).toThrow(message)
})
