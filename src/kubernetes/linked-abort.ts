/**
 * An AbortController that also follows an outer signal until {@link unlink}ed. `AbortSignal.any` would do, but on
 * Node 20 every use of it stays reachable from the outer signal, which here lives as long as the process.
 */
export class LinkedAbort {
  readonly #controller = new AbortController()
  readonly #outer: AbortSignal | undefined
  readonly #follow = (): void => this.#controller.abort(this.#outer?.reason)

  constructor(outer: AbortSignal | undefined) {
    this.#outer = outer
    if (outer?.aborted === true) this.#follow()
    else outer?.addEventListener('abort', this.#follow, { once: true })
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  abort(reason: Error): void {
    this.#controller.abort(reason)
  }

  /** Stops following; the signal stays as it is. */
  unlink(): void {
    this.#outer?.removeEventListener('abort', this.#follow)
  }
}

/** The promise's outcome, or the signal's reason if that aborts first; the promise itself goes on. */
export function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason as Error)
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true })
    const done = (): void => signal.removeEventListener('abort', onAbort)
    promise.then(
      (value) => {
        done()
        resolve(value)
      },
      (error: unknown) => {
        done()
        reject(error as Error)
      },
    )
  })
}
