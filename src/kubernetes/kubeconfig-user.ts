import { resolve } from 'node:path'
import { anonymousUser } from './access.ts'
import type { ExecAccess, UserAccess } from './access.ts'
import { readPem } from './credential-file.ts'
import type { KubeconfigDocument, Place } from './kubeconfig-document.ts'

export interface UserContext {
  readonly description: string
  readonly directory: string
  readonly exec: (place: Place) => ExecAccess | null
}

/** Reads a `user` entry; complains about what is incomplete or was removed from Kubernetes. */
export function readUser(doc: KubeconfigDocument, user: Place, context: UserContext): UserAccess {
  const text = (name: string): string => doc.text(doc.field(user, name))
  const provider = doc.field(user, 'auth-provider')
  if (provider.node !== null) {
    doc.complain(
      provider,
      'is no longer part of Kubernetes (since 1.26); use "exec" with the provider\'s plugin',
    )
  }
  const tokenFile = text('tokenFile')
  const token = text('token')
  return {
    ...anonymousUser(context.description),
    certificate: readCertificate(doc, user, context.directory),
    token: token === '' ? null : token,
    tokenFile: tokenFile === '' ? null : resolve(context.directory, tokenFile),
    basic: text('username') === '' ? null : { username: text('username'), password: text('password') },
    exec: context.exec(doc.field(user, 'exec')),
    impersonate: readImpersonation(doc, user),
  }
}

function readCertificate(doc: KubeconfigDocument, user: Place, directory: string): UserAccess['certificate'] {
  const certificate = readPem(doc, user, 'client-certificate', directory)
  const key = readPem(doc, user, 'client-key', directory)
  if (certificate !== null && key !== null) return { certificate, key }
  const missing = certificate === null ? 'client-certificate' : 'client-key'
  if (certificate !== null || key !== null) {
    doc.complain(
      doc.field(user, missing),
      `is missing (or ${missing}-data): a certificate and its key go together`,
      user,
    )
  }
  return null
}

function readImpersonation(doc: KubeconfigDocument, user: Place): UserAccess['impersonate'] {
  const name = doc.text(doc.field(user, 'as'))
  if (name === '') return null
  const uid = doc.text(doc.field(user, 'as-uid'))
  const groups = doc.items(doc.field(user, 'as-groups')).map((item) => doc.text(item))
  return { user: name, uid: uid === '' ? null : uid, groups }
}
