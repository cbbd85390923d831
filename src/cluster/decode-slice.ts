import type { IpFamily } from '../net/family.ts'
import { familyOf, parseIp } from '../net/ip.ts'
import { parseProtocol } from '../net/protocol.ts'
import type { EndpointRecord, ObjectProblem, SliceRecord } from './state.ts'
import type { Decoded, DecodedHead } from './decoded.ts'
import { decodeHead, keepAsIs } from './decoded.ts'
import type { Intern, JsonObject } from './fields.ts'

/**
 * Reduces a `discovery.k8s.io/v1` EndpointSlice. The record is null for slices that no proxy uses: of address type
 * FQDN, labelled `service.kubernetes.io/headless`, or of no Service. Endpoints whose address cannot be read, or is of
 * the other family, are left out and reported.
 * @throws UndecodableObjectError if a field that is used has another type than the API's
 */
export function decodeEndpointSlice(json: unknown, intern: Intern = keepAsIs): Decoded<SliceRecord | null> {
  const head = decodeHead('EndpointSlice', json, intern)
  const { fields } = head
  const problems: ObjectProblem[] = []
  const report = (field: string, message: string): null => {
    problems.push({ object: fields.object, field, message })
    return null
  }
  const nothing = { record: null, problems }
  if (Object.hasOwn(head.labels, HEADLESS)) return nothing
  const type = fields.text(head.json, 'addressType', 'addressType', '')
  if (type === 'FQDN') return nothing
  if (type !== 'IPv4' && type !== 'IPv6') {
    report('addressType', `"${type}" is not known; the slice is not used`)
    return nothing
  }
  const service = fields.text(head.labels, SERVICE_NAME, `metadata.labels[${SERVICE_NAME}]`, '')
  if (service === '') {
    report(`metadata.labels[${SERVICE_NAME}]`, 'is missing; the slice belongs to no Service and is not used')
    return nothing
  }
  const record: SliceRecord = {
    namespace: head.namespace,
    name: head.name,
    service: intern(service),
    family: type,
    ports: decodePorts(head, intern, report),
    endpoints: fields
      .records(head.json, 'endpoints', 'endpoints')
      .map((endpoint, i) => decodeEndpoint(head, endpoint, i, type, intern, report))
      .filter((endpoint) => endpoint !== null),
    triggeredAt: triggerTime(head),
  }
  return { record, problems }
}

type Report = (field: string, message: string) => null

function decodePorts({ json, fields }: DecodedHead, intern: Intern, report: Report): SliceRecord['ports'] {
  return fields
    .records(json, 'ports', 'ports')
    .map((port, i) => {
      const text = fields.text(port, 'protocol', 'ports[].protocol', null)
      const protocol = parseProtocol(text)
      if (protocol === null)
        return report(`ports[${i}].protocol`, `"${text}" is not known; the port is left out`)
      return {
        name: intern(fields.text(port, 'name', 'ports[].name', '')),
        protocol,
        port: fields.integer(port, 'port', 'ports[].port', null),
      }
    })
    .filter((port) => port !== null)
}

function decodeEndpoint(
  { fields }: DecodedHead,
  endpoint: JsonObject,
  index: number,
  family: IpFamily,
  intern: Intern,
  report: Report,
): EndpointRecord | null {
  const first = fields.texts(endpoint, 'addresses', 'endpoints[].addresses')[0]
  if (first === undefined)
    return report(`endpoints[${index}].addresses`, 'is empty; the endpoint is left out')
  const ip = parseIp(first)
  if (ip === null || familyOf(ip) !== family) {
    return report(
      `endpoints[${index}].addresses[0]`,
      `"${first}" is no ${family} address; the endpoint is left out`,
    )
  }
  const conditions = fields.record(endpoint, 'conditions', 'endpoints[].conditions')
  const hints = fields.record(endpoint, 'hints', 'endpoints[].hints')
  const nodeName = fields.text(endpoint, 'nodeName', 'endpoints[].nodeName', null)
  const zone = fields.text(endpoint, 'zone', 'endpoints[].zone', null)
  const names = (key: string): readonly string[] => {
    const list = fields.records(hints, key, `endpoints[].hints.${key}`)
    if (list.length === 0) return NO_NAMES
    return list.map((hint) => intern(fields.text(hint, 'name', `endpoints[].hints.${key}[].name`, '')))
  }
  return {
    ip,
    ready: fields.flag(conditions, 'ready', 'endpoints[].conditions.ready', true),
    serving: fields.flag(conditions, 'serving', 'endpoints[].conditions.serving', true),
    terminating: fields.flag(conditions, 'terminating', 'endpoints[].conditions.terminating', false),
    nodeName: nodeName === null ? null : intern(nodeName),
    zone: zone === null ? null : intern(zone),
    forZones: names('forZones'),
    forNodes: names('forNodes'),
  }
}

function triggerTime({ metadata, fields }: DecodedHead): number | null {
  const annotations = fields.record(metadata, 'annotations', 'metadata.annotations')
  const text = annotations[TRIGGER_TIME]
  const time = typeof text === 'string' ? Date.parse(text) : Number.NaN
  return Number.isNaN(time) ? null : time
}

const HEADLESS = 'service.kubernetes.io/headless'
const SERVICE_NAME = 'kubernetes.io/service-name'
const TRIGGER_TIME = 'endpoints.kubernetes.io/last-change-trigger-time'
const NO_NAMES: readonly string[] = Object.freeze([])
