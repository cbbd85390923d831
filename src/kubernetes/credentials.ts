import type { Clock } from '../shared/clock.ts'
import type { ClusterAccess, Pem } from './access.ts'
import { runExecPlugin } from './exec-plugin.ts'
import type { ExecCredential } from './exec-plugin.ts'
import { WatchedFile } from './watched-file.ts'

/** What one request and its connection present: everything already read, nothing to resolve. */
export interface Credential {
  /** Value of the Authorization header; null for none. */
  readonly authorization: string | null
  readonly certificate: string | null
  readonly key: string | null
  /** PEM of the trusted authorities; null means those the machine trusts. */
  readonly authority: string | null
  /** Where it comes from, for messages. */
  readonly source: string
}

export interface CredentialOptions {
  readonly clock: Clock
  /** How long a file's content is believed without a look at the file. */
  readonly maxAgeMs: number
  readonly execTimeoutMs: number
  /** After a refusal a program is not run again sooner: a server that refuses for ever must not start one a second. */
  readonly execMinIntervalMs: number
}

/** A little before its end an expiring credential is renewed, so that it does not end under way. */
const RENEW_BEFORE_MS = 10_000

/** The credentials of a user, kept fresh: files are read again, programs run again, when due or when refused. */
export class Credentials {
  readonly #access: ClusterAccess
  readonly #options: CredentialOptions
  readonly #files = new Map<string, WatchedFile>()
  #exec: ExecCredential | null = null
  #execRun: Promise<ExecCredential> | null = null
  #execRanAt = -Infinity

  constructor(access: ClusterAccess, options: CredentialOptions) {
    this.#access = access
    this.#options = options
  }

  /** The credential to use now. */
  async current(): Promise<Credential> {
    const { user, tls } = this.#access
    const authority = await this.#pem(tls.authority, 'certificate-authority')
    const exec = user.exec === null ? null : await this.#fromExec(authority)
    const certificate = await this.#pem(user.certificate?.certificate ?? null, 'client-certificate')
    const key = await this.#pem(user.certificate?.key ?? null, 'client-key')
    return {
      source: this.#access.source,
      authority,
      authorization: await this.#authorization(exec),
      certificate: exec?.certificate ?? certificate,
      key: exec?.key ?? key,
    }
  }

  /**
   * The server answered 401 to `used`: forget what may be stale. True if {@link current} may now give something else,
   * so that one more try is worth it.
   */
  refused(): boolean {
    const { user } = this.#access
    for (const file of this.#files.values()) file.expire()
    if (
      user.exec !== null &&
      this.#options.clock.monotonic() - this.#execRanAt >= this.#options.execMinIntervalMs
    ) {
      this.#exec = null
      return true
    }
    return user.tokenFile !== null || this.#files.size > 0
  }

  async #authorization(exec: ExecCredential | null): Promise<string | null> {
    const { user } = this.#access
    if (user.tokenFile !== null) {
      const token = await this.#tokenFromFile(user.tokenFile)
      if (token !== null) return `Bearer ${token}`
    }
    if (user.token !== null) return `Bearer ${user.token}`
    if (exec?.token != null) return `Bearer ${exec.token}`
    if (user.basic === null) return null
    const { username, password } = user.basic
    return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
  }

  async #tokenFromFile(path: string): Promise<string | null> {
    try {
      return (await this.#file(path, 'tokenFile').read()).trim()
    } catch (error) {
      if (this.#access.user.token === null) throw error
      return null
    }
  }

  async #pem(pem: Pem | null, what: string): Promise<string | null> {
    if (pem === null) return null
    return pem.kind === 'data' ? pem.text : this.#file(pem.path, what).read()
  }

  #file(path: string, what: string): WatchedFile {
    let file = this.#files.get(path)
    if (file === undefined) {
      const { clock, maxAgeMs } = this.#options
      file = new WatchedFile(path, `${what} of ${this.#access.source}`, clock, maxAgeMs)
      this.#files.set(path, file)
    }
    return file
  }

  /** Callers that come while the program runs wait for that run. */
  async #fromExec(authority: string | null): Promise<ExecCredential> {
    const { clock, execTimeoutMs } = this.#options
    const due = this.#exec?.expiresAt != null && this.#exec.expiresAt - RENEW_BEFORE_MS <= clock.now()
    if (this.#exec !== null && !due) return this.#exec
    this.#execRun ??= runExecPlugin(this.#access.user.exec!, this.#access, {
      authority,
      timeoutMs: execTimeoutMs,
      clock,
    })
    try {
      this.#exec = await this.#execRun
      return this.#exec
    } finally {
      this.#execRun = null
      this.#execRanAt = clock.monotonic()
    }
  }
}
