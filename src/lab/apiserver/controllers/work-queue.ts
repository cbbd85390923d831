/**
 * Keys that wait to be worked on, each once however often it is added; worked off after the change that caused them,
 * so that one request's changes lead to one reconciliation. Work may add keys.
 */
export class WorkQueue {
  readonly #work: (key: string) => void
  #keys = new Set<string>()
  #scheduled = false
  #closed = false

  constructor(work: (key: string) => void) {
    this.#work = work
  }

  add(key: string): void {
    this.#keys.add(key)
    if (this.#scheduled || this.#closed) return
    this.#scheduled = true
    setImmediate(() => this.#run())
  }

  close(): void {
    this.#closed = true
    this.#keys.clear()
  }

  #run(): void {
    this.#scheduled = false
    const keys = this.#keys
    this.#keys = new Set()
    for (const key of keys) if (!this.#closed) this.#work(key)
  }
}
