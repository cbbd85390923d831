import { stat } from 'node:fs/promises'
import type { Clock } from '../shared/clock.ts'
import { readCredentialFile } from './credential-file.ts'

/**
 * A credential file that others replace (projected tokens, rotated certificates). It is looked at again when the last
 * look is `maxAgeMs` old, and read again if it changed; a file that became unreadable keeps its last good content,
 * since rotation replaces files non-atomically in places.
 */
export class WatchedFile {
  readonly #path: string
  readonly #what: string
  readonly #clock: Clock
  readonly #maxAgeMs: number
  #text: string | null = null
  #stamp = ''
  #lookedAt = -Infinity

  constructor(path: string, what: string, clock: Clock, maxAgeMs: number) {
    this.#path = path
    this.#what = what
    this.#clock = clock
    this.#maxAgeMs = maxAgeMs
  }

  /** The content. @throws ProxyError CREDENTIAL_FILE_UNREADABLE if it could never be read. */
  async read(): Promise<string> {
    const now = this.#clock.monotonic()
    if (this.#text !== null && now - this.#lookedAt < this.#maxAgeMs) return this.#text
    this.#lookedAt = now
    const stamp = await stampOf(this.#path)
    if (this.#text !== null && stamp === this.#stamp) return this.#text
    try {
      const text = await readCredentialFile(this.#path, this.#what)
      if (text.trim() !== '' || this.#text === null) this.#text = text
      this.#stamp = stamp
      return this.#text
    } catch (error) {
      if (this.#text === null) throw error
      return this.#text
    }
  }

  /** Looks again at the next read, whatever the age. */
  expire(): void {
    this.#lookedAt = -Infinity
    this.#stamp = ''
  }
}

/** Changes whenever the file is replaced or written; empty when it cannot be looked at. */
async function stampOf(path: string): Promise<string> {
  try {
    const { mtimeMs, ino, size } = await stat(path)
    return `${mtimeMs}/${ino}/${size}`
  } catch {
    return ''
  }
}
