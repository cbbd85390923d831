import type { Causes } from './status.ts'
import type { Dict, Meta } from './json.ts'
import { isDict } from './json.ts'

const LABEL_1123 = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/
const LABEL_1035 = /^[a-z]([-a-z0-9]*[a-z0-9])?$/
const SUBDOMAIN_1123 = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/
const QUALIFIED_NAME = /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/
const LABEL_VALUE = /^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$/
const SERVICE_NAME = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/

/** Which names a kind takes. */
export type NameRule = 'subdomain' | 'label' | 'service-name' | 'path-segment'

const LABEL_TEXT =
  "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end " +
  "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is " +
  "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
const SUBDOMAIN_TEXT =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start " +
  "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is " +
  "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
const LABEL_1035_TEXT =
  "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, " +
  "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is " +
  "'[a-z]([-a-z0-9]*[a-z0-9])?')"

/** Why a name is not allowed; null when it is. */
export function nameProblem(rule: NameRule, name: string): string | null {
  switch (rule) {
    case 'label':
      return labelProblem(name)
    case 'service-name':
      return tooLong(name, 63) ?? (LABEL_1035.test(name) ? null : LABEL_1035_TEXT)
    case 'subdomain':
      return subdomainProblem(name)
    case 'path-segment':
      return name === '.' || name === '..' || /[/%]/.test(name)
        ? `may not be '.', '..' or contain '/' or '%'`
        : null
  }
}

export function labelProblem(name: string): string | null {
  return tooLong(name, 63) ?? (LABEL_1123.test(name) ? null : LABEL_TEXT)
}

export function subdomainProblem(name: string): string | null {
  return tooLong(name, 253) ?? (SUBDOMAIN_1123.test(name) ? null : SUBDOMAIN_TEXT)
}

function tooLong(text: string, max: number): string | null {
  return text.length > max ? `must be no more than ${max} characters` : null
}

/** Names that ports may be given by (RFC 6335): at most 15 characters, at least one letter, no double hyphen. */
export function portNameProblem(name: string): string | null {
  if (name.length === 0) return 'must be at least 1 character'
  if (name.length > 15) return 'must be no more than 15 characters'
  if (!SERVICE_NAME.test(name))
    return 'must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)'
  if (!/[a-z]/.test(name)) return 'must contain at least one letter (a-z)'
  return name.includes('--') ? 'must not contain consecutive hyphens' : null
}

/** Checks labels, as of metadata or a selector. */
export function checkLabels(labels: unknown, field: string, causes: Causes): void {
  if (labels === undefined || labels === null) return
  if (!isDict(labels)) {
    causes.invalid(field, labels, 'must be a map of strings')
    return
  }
  for (const [key, value] of Object.entries(labels)) {
    checkQualifiedName(key, field, causes)
    if (typeof value !== 'string' || value.length > 63 || !LABEL_VALUE.test(value)) {
      causes.invalid(
        field,
        value,
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
      )
    }
  }
}

function checkQualifiedName(key: string, field: string, causes: Causes): void {
  const parts = key.split('/')
  const name = parts.at(-1)!
  const prefix = parts.length === 2 ? parts[0]! : null
  if (parts.length > 2 || name.length > 63 || !QUALIFIED_NAME.test(name)) {
    causes.invalid(
      field,
      key,
      "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    )
  } else if (prefix !== null && subdomainProblem(prefix) !== null) {
    causes.invalid(field, key, `prefix part ${subdomainProblem(prefix)}`)
  }
}

/** Checks what every object's metadata must fulfil. */
export function checkMetadata(metadata: Meta, rule: NameRule, causes: Causes): void {
  if (typeof metadata.name !== 'string' || metadata.name === '') {
    causes.required('metadata.name', 'name or generateName is required')
  } else {
    const problem = nameProblem(rule, metadata.name)
    if (problem !== null) causes.invalid('metadata.name', metadata.name, problem)
  }
  checkLabels(metadata.labels, 'metadata.labels', causes)
  checkAnnotations(metadata.annotations, causes)
}

function checkAnnotations(annotations: unknown, causes: Causes): void {
  if (annotations === undefined || annotations === null) return
  for (const [key, value] of Object.entries(annotations as Dict)) {
    checkQualifiedName(key.toLowerCase(), 'metadata.annotations', causes)
    if (typeof value !== 'string') causes.invalid('metadata.annotations', value, 'must be a string')
  }
}
