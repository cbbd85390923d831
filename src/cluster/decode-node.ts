import type { Cidr } from '../net/cidr.ts'
import { parseCidr } from '../net/cidr.ts'
import type { Ip } from '../net/ip.ts'
import { parseIp } from '../net/ip.ts'
import type { NodeRecord, ObjectProblem } from './state.ts'
import type { Decoded, DecodedHead } from './decoded.ts'
import { decodeHead, keepAsIs } from './decoded.ts'
import type { Intern } from './fields.ts'

/**
 * Reduces a `v1.Node`: pod CIDRs, addresses, taint keys and the labels that say where it is. Labels that no proxy
 * reads are dropped, so that tools that write them often cause no work.
 * @throws UndecodableObjectError if a field that is used has another type than the API's
 */
export function decodeNode(json: unknown, intern: Intern = keepAsIs): Decoded<NodeRecord> {
  const head = decodeHead('Node', json, intern)
  const { fields, metadata } = head
  const spec = fields.record(head.json, 'spec', 'spec')
  const problems: ObjectProblem[] = []
  const labels = Object.keys(head.labels)
    .filter((key) => USED_LABEL.test(key))
    .sort()
    .map((key) => [key, fields.text(head.labels, key, `metadata.labels[${key}]`, '')])
  const many = fields.texts(spec, 'podCIDRs', 'spec.podCIDRs')
  const one = fields.text(spec, 'podCIDR', 'spec.podCIDR', '')
  const record: NodeRecord = {
    name: head.name,
    uid: fields.text(metadata, 'uid', 'metadata.uid', ''),
    labels: Object.fromEntries(labels),
    podCidrs: cidrsOf(head, 'spec.podCIDRs', many.length > 0 || one === '' ? many : [one], problems),
    addresses: addressesOf(head, problems),
    taints: fields
      .records(spec, 'taints', 'spec.taints')
      .map((taint) => intern(fields.text(taint, 'key', 'spec.taints[].key', ''))),
    deleting: fields.text(metadata, 'deletionTimestamp', 'metadata.deletionTimestamp', null) !== null,
  }
  return { record, problems }
}

/** The ranges of one ServiceCIDR object. */
export interface ServiceCidrRecord {
  readonly name: string
  readonly cidrs: readonly Cidr[]
}

/**
 * Reduces a `networking.k8s.io/v1` ServiceCIDR.
 * @throws UndecodableObjectError if a field that is used has another type than the API's
 */
export function decodeServiceCidr(json: unknown, intern: Intern = keepAsIs): Decoded<ServiceCidrRecord> {
  const head = decodeHead('ServiceCIDR', json, intern)
  const problems: ObjectProblem[] = []
  const spec = head.fields.record(head.json, 'spec', 'spec')
  const texts = head.fields.texts(spec, 'cidrs', 'spec.cidrs')
  return { record: { name: head.name, cidrs: cidrsOf(head, 'spec.cidrs', texts, problems) }, problems }
}

function cidrsOf(
  head: DecodedHead,
  path: string,
  texts: readonly string[],
  problems: ObjectProblem[],
): Cidr[] {
  return texts.flatMap((text, i) => {
    const cidr = parseCidr(text.trim())
    if (cidr !== null) return [cidr]
    problems.push({
      object: head.fields.object,
      field: `${path}[${i}]`,
      message: `"${text}" is no CIDR; left out`,
    })
    return []
  })
}

/** InternalIPs, then ExternalIPs: the first of a family is the node's primary address, as kube-proxy chooses it. */
function addressesOf({ json, fields }: DecodedHead, problems: ObjectProblem[]): Ip[] {
  const status = fields.record(json, 'status', 'status')
  const entries = fields.records(status, 'addresses', 'status.addresses').map((entry, i) => ({
    type: fields.text(entry, 'type', 'status.addresses[].type', ''),
    address: fields.text(entry, 'address', 'status.addresses[].address', ''),
    field: `status.addresses[${i}].address`,
  }))
  return ['InternalIP', 'ExternalIP'].flatMap((wanted) =>
    entries
      .filter(({ type }) => type === wanted)
      .flatMap(({ address, field }) => {
        const ip = parseIp(address)
        if (ip !== null) return [ip]
        problems.push({ object: fields.object, field, message: `"${address}" is no IP address; left out` })
        return []
      }),
  )
}

const USED_LABEL = /^(topology\.kubernetes\.io\/.*|kubernetes\.io\/hostname)$/
