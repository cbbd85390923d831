import { createPrivateKey, generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import { isIP } from 'node:net'
import { parseIp, ipToBytes } from '../../src/net/ip.ts'

/** A certificate and its key, both PEM. */
export interface Certified {
  readonly certificate: string
  readonly key: string
}

export interface Subject {
  /** CN, and O where the API server reads groups from. */
  readonly name: string
  readonly organisation?: string
  /** DNS names and addresses. */
  readonly names?: readonly string[]
  /** Days from now; default -1 and 1. */
  readonly validDays?: readonly [number, number]
}

/** Makes X.509 certificates (ECDSA P-256) for tests, valid for a day: nothing to install, nothing that expires here. */
export class TestAuthority {
  readonly #name: string
  readonly #key: string
  readonly certificate: string

  constructor(name = 'test authority') {
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    this.#name = name
    this.#key = privateKey.export({ type: 'pkcs8', format: 'pem' }) as string
    const spki = publicKey.export({ type: 'spki', format: 'der' })
    this.certificate = this.#issue({ name }, spki, [
      extension('2.5.29.19', true, sequence(tlv(0x01, Buffer.from([0xff])))),
      extension('2.5.29.15', true, tlv(0x03, Buffer.from([1, 0x06]))),
    ])
  }

  issue(subject: Subject): Certified {
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const spki = publicKey.export({ type: 'spki', format: 'der' })
    const certificate = this.#issue(subject, spki, [
      extension('2.5.29.17', false, sequence(...(subject.names ?? ['unnamed.invalid']).map(generalName))),
    ])
    return { certificate, key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string }
  }

  #issue(subject: Subject, spki: Buffer, extensions: readonly Buffer[]): string {
    const [from, to] = subject.validDays ?? [-1, 1]
    const algorithm = sequence(oid('1.2.840.10045.4.3.2'))
    const body = sequence(
      tlv(0xa0, tlv(0x02, Buffer.from([2]))),
      tlv(0x02, Buffer.concat([Buffer.from([1]), randomBytes(8)])),
      algorithm,
      distinguishedName({ name: this.#name }),
      sequence(time(from), time(to)),
      distinguishedName(subject),
      spki,
      tlv(0xa3, sequence(...extensions)),
    )
    const signature = sign('sha256', body, createPrivateKey(this.#key))
    const der = sequence(body, algorithm, tlv(0x03, Buffer.concat([Buffer.from([0]), signature])))
    const lines = der.toString('base64').match(/.{1,64}/g) ?? []
    return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`
  }
}

function tlv(tag: number, content: Buffer): Buffer {
  const { length } = content
  const head =
    length < 128
      ? [tag, length]
      : length < 256
        ? [tag, 0x81, length]
        : [tag, 0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from(head), content])
}

function sequence(...parts: readonly Buffer[]): Buffer {
  return tlv(0x30, Buffer.concat(parts))
}

function oid(text: string): Buffer {
  const [first = 0, second = 0, ...rest] = text.split('.').map(Number)
  const bytes = [first * 40 + second]
  for (const part of rest) {
    const groups = [part & 0x7f]
    for (let value = part >> 7; value > 0; value >>= 7) groups.unshift((value & 0x7f) | 0x80)
    bytes.push(...groups)
  }
  return tlv(0x06, Buffer.from(bytes))
}

function distinguishedName(subject: Subject): Buffer {
  const attribute = (id: string, value: string): Buffer =>
    tlv(0x31, sequence(oid(id), tlv(0x0c, Buffer.from(value))))
  const organisation = subject.organisation === undefined ? [] : [attribute('2.5.4.10', subject.organisation)]
  return sequence(...organisation, attribute('2.5.4.3', subject.name))
}

function generalName(name: string): Buffer {
  if (isIP(name) === 0) return tlv(0x82, Buffer.from(name))
  return tlv(0x87, Buffer.from(ipToBytes(parseIp(name)!)))
}

function extension(id: string, critical: boolean, value: Buffer): Buffer {
  return sequence(oid(id), ...(critical ? [tlv(0x01, Buffer.from([0xff]))] : []), tlv(0x04, value))
}

function time(daysFromNow: number): Buffer {
  const date = new Date(Date.now() + daysFromNow * 86_400_000)
  const text = `${date.toISOString().slice(2, 19).replaceAll(/[-:T]/g, '')}Z`
  return tlv(0x17, Buffer.from(text))
}
