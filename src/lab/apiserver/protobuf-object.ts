import type { Dict } from './json.ts'
import type { WireField } from './protobuf.ts'
import { readFields } from './protobuf.ts'
import { fieldOf } from './schema.ts'
import { badRequest, unsupportedMediaType } from './status.ts'

/** Kubernetes' protocol buffers form: typed clients (`kubectl create …` since 1.32) send it without asking. */
export const PROTOBUF_TYPE = 'application/vnd.kubernetes.protobuf'
const MAGIC = Buffer.from('k8s\0')

/**
 * Field numbers of the shapes that such clients create, from the `generated.proto` files of k8s.io/api. A field that
 * is not here is refused rather than lost, unless it is empty.
 */
const NUMBERS: Readonly<Record<string, readonly (string | null)[]>> = {
  ObjectMeta: fields(
    'name generateName namespace selfLink uid resourceVersion generation creationTimestamp deletionTimestamp ' +
      'deletionGracePeriodSeconds labels annotations ownerReferences finalizers',
  ),
  OwnerReference: fields('kind - name uid apiVersion controller blockOwnerDeletion'),
  LabelSelector: fields('matchLabels'),
  ObjectReference: fields('kind namespace name uid apiVersion resourceVersion fieldPath'),
  Service: fields('metadata spec status'),
  ServiceSpec: fields(
    'ports selector clusterIP type externalIPs - sessionAffinity loadBalancerIP loadBalancerSourceRanges ' +
      'externalName externalTrafficPolicy healthCheckNodePort publishNotReadyAddresses sessionAffinityConfig - - ' +
      'ipFamilyPolicy clusterIPs ipFamilies allocateLoadBalancerNodePorts loadBalancerClass ' +
      'internalTrafficPolicy trafficDistribution',
  ),
  ServicePort: fields('name protocol port targetPort nodePort appProtocol'),
  SessionAffinityConfig: fields('clientIP'),
  ClientIPConfig: fields('timeoutSeconds'),
  ServiceStatus: fields('loadBalancer'),
  LoadBalancerStatus: fields('ingress'),
  ConfigMap: fields('metadata data binaryData immutable'),
  Namespace: fields('metadata spec status'),
  NamespaceSpec: fields('finalizers'),
  NamespaceStatus: fields('phase'),
  Deployment: fields('metadata spec status'),
  DeploymentSpec: fields(
    'replicas selector template strategy minReadySeconds revisionHistoryLimit paused - progressDeadlineSeconds',
  ),
  DeploymentStatus: fields('observedGeneration replicas updatedReplicas availableReplicas'),
  PodTemplateSpec: fields('metadata spec'),
  Pod: fields('metadata spec status'),
  PodStatus: fields('phase'),
  PodSpec: fields(
    '- containers restartPolicy terminationGracePeriodSeconds activeDeadlineSeconds dnsPolicy nodeSelector ' +
      'serviceAccountName serviceAccount nodeName hostNetwork hostPID hostIPC - imagePullSecrets hostname subdomain ' +
      '- schedulerName initContainers automountServiceAccountToken - hostAliases',
  ),
  ForName: fields('name'),
  HostAlias: fields('ip hostnames'),
  Container: fields(
    'name image command args workingDir ports env - volumeMounts - - - terminationMessagePath imagePullPolicy - ' +
      'stdin stdinOnce tty - terminationMessagePolicy',
  ),
  ContainerPort: fields('name hostPort containerPort protocol hostIP'),
  EnvVar: fields('name value'),
  VolumeMount: fields('name readOnly mountPath subPath mountPropagation subPathExpr recursiveReadOnly'),
  DeleteOptions: fields('gracePeriodSeconds preconditions orphanDependents propagationPolicy dryRun'),
  Preconditions: fields('uid resourceVersion'),
}

/** Fields whose zero is a value of its own: the others are sent even when nobody set them. */
const KEPT_ZEROS: ReadonlySet<string> = new Set(
  (
    'replicas gracePeriodSeconds revisionHistoryLimit terminationGracePeriodSeconds ' +
    'allocateLoadBalancerNodePorts automountServiceAccountToken immutable orphanDependents'
  ).split(' '),
)

/** Types of DeleteOptions, which is no stored kind and so has no shape. */
const DELETE_TYPES: Readonly<Record<string, string>> = {
  gracePeriodSeconds: 'int',
  preconditions: 'Preconditions',
  orphanDependents: 'bool',
  propagationPolicy: 'string',
  dryRun: '[]string',
  uid: 'string',
  resourceVersion: 'string',
}

function fields(names: string): readonly (string | null)[] {
  return [null, ...names.split(' ').map((name) => (name === '-' ? null : name))]
}

/** An object from its protocol buffers form; @throws ApiError 400 when malformed, 415 for what is not supported. */
export function decodeProtobuf(body: Buffer): Dict {
  if (!body.subarray(0, MAGIC.length).equals(MAGIC))
    throw badRequest('the body is not in the Kubernetes protobuf form')
  try {
    let [apiVersion, kind, raw] = ['', '', Buffer.alloc(0) as Buffer]
    for (const field of readFields(body.subarray(MAGIC.length))) {
      if (field.wire !== 'bytes') continue
      if (field.number === 1) {
        for (const each of readFields(field.value)) {
          if (each.number === 1) apiVersion = String(each.value)
          if (each.number === 2) kind = String(each.value)
        }
      } else if (field.number === 2) raw = field.value
    }
    if (NUMBERS[kind] === undefined) throw unsupported(kind)
    return { kind, apiVersion, ...decodeMessage(kind, raw) }
  } catch (cause) {
    if (cause instanceof RangeError) throw badRequest(`the body is not a protobuf message: ${cause.message}`)
    throw cause
  }
}

function unsupported(what: string): Error {
  return unsupportedMediaType([
    `application/json (${what} cannot be read from protobuf here; apply a manifest instead)`,
  ])
}

function decodeMessage(shape: string, message: Buffer): Dict {
  const result: Dict = {}
  for (const wire of readFields(message)) {
    const name = NUMBERS[shape]?.[wire.number] ?? null
    if (name === null) {
      if (wire.value.toString() !== '' && wire.value !== 0n)
        throw unsupported(`field ${wire.number} of ${shape}`)
      continue
    }
    const { type, list } = typeOf(shape, name)
    const value = decodeValue(type, wire, `${shape}.${name}`)
    if (list) result[name] = [...((result[name] as unknown[]) ?? []), value]
    else if (type === 'map') result[name] = { ...(result[name] as Dict), ...(value as Dict) }
    else if (!isZero(value) || KEPT_ZEROS.has(name)) result[name] = value
  }
  return result
}

function isZero(value: unknown): boolean {
  return value === undefined || value === '' || value === 0 || value === false
}

function typeOf(shape: string, name: string): { readonly type: string; readonly list: boolean } {
  const field = fieldOf(shape, name)
  if (field !== null) return field
  const type = DELETE_TYPES[name] ?? 'any'
  return { type: type.replace('[]', ''), list: type.startsWith('[]') }
}

function decodeValue(type: string, wire: WireField, where: string): unknown {
  if (wire.wire === 'varint')
    return type === 'bool' ? wire.value !== 0n : Number(BigInt.asIntN(64, wire.value))
  switch (type) {
    case 'string':
      return wire.value.toString('utf8')
    case 'time':
      return decodeTime(wire.value)
    case 'intstr':
      return decodeIntOrString(wire.value)
    case 'map':
      return decodeMapEntry(wire.value)
    case 'any':
      if (isEmptyMessage(wire.value)) return undefined
      throw unsupported(where)
    default:
      return decodeMessage(type, wire.value)
  }
}

/** meta/v1 Time: seconds since the epoch; none set means no time. */
function decodeTime(message: Buffer): string | undefined {
  for (const { number, value } of readFields(message)) {
    if (number === 1 && typeof value === 'bigint' && value > 0n) {
      return new Date(Number(value) * 1000).toISOString().replace(/\.\d+Z$/, 'Z')
    }
  }
  return undefined
}

/** IntOrString: which of the two, the number, the text. */
function decodeIntOrString(message: Buffer): number | string {
  let [isText, number, text] = [false, 0, '']
  for (const field of readFields(message)) {
    if (field.wire === 'varint' && field.number === 1) isText = field.value === 1n
    if (field.wire === 'varint' && field.number === 2) number = Number(BigInt.asIntN(64, field.value))
    if (field.wire === 'bytes' && field.number === 3) text = field.value.toString('utf8')
  }
  return isText ? text : number
}

function decodeMapEntry(message: Buffer): Dict {
  let [key, value] = ['', '']
  for (const field of readFields(message)) {
    if (field.wire !== 'bytes') continue
    if (field.number === 1) key = field.value.toString('utf8')
    if (field.number === 2) value = field.value.toString('utf8')
  }
  return { [key]: value }
}

/** True when a message says nothing: empty, or only empty parts, as zero values are sent. */
function isEmptyMessage(message: Buffer): boolean {
  if (message.length === 0) return true
  try {
    return [...readFields(message)].every((field) =>
      field.wire === 'varint' ? field.value === 0n : isEmptyMessage(field.value),
    )
  } catch {
    return false
  }
}
