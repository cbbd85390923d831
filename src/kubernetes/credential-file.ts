import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { ConfigError } from '../shared/errors.ts'
import type { Pem } from './access.ts'
import type { KubeconfigDocument, Place } from './kubeconfig-document.ts'

/** `<name>-data` (base64 of PEM) wins over `<name>` (a path), as in client-go. */
export function readPem(doc: KubeconfigDocument, parent: Place, name: string, directory: string): Pem | null {
  const dataPlace = doc.field(parent, `${name}-data`)
  const data = doc.text(dataPlace)
  if (data !== '') {
    const text = Buffer.from(data, 'base64').toString('utf8')
    if (!text.includes('-----BEGIN ')) doc.complain(dataPlace, 'is not the base64 form of a PEM file')
    return { kind: 'data', text }
  }
  const path = doc.text(doc.field(parent, name))
  return path === '' ? null : { kind: 'file', path: resolve(directory, path) }
}

/** @throws ConfigError CREDENTIAL_FILE_UNREADABLE */
export async function readCredentialFile(path: string, what: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    const message =
      `${what}: cannot be read (${(cause as NodeJS.ErrnoException).code}). Check the path ` +
      '(relative ones start at the directory of the kubeconfig) and who may read it.'
    throw new ConfigError(
      'CREDENTIAL_FILE_UNREADABLE',
      [{ file: path, line: null, column: null, path: '', message }],
      { cause },
    )
  }
}
