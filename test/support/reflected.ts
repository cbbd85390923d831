import { anonymousAccess } from '../../src/kubernetes/access.ts'
import type { ClusterAccess } from '../../src/kubernetes/access.ts'
import { ApiClient } from '../../src/kubernetes/client.ts'
import type { ClientTiming } from '../../src/kubernetes/client.ts'
import { Reflector } from '../../src/kubernetes/reflector.ts'
import type { ReflectorOptions, ReflectorTiming } from '../../src/kubernetes/reflector-options.ts'

export interface Thing {
  readonly key: string
  readonly value: unknown
}

/** A reflector of a fake collection, its sink as a map, and what happened to it. */
export interface Reflected extends AsyncDisposable {
  readonly reflector: Reflector<Thing>
  readonly items: ReadonlyMap<string, unknown>
  /** Sizes of the lists that the sink was given. */
  readonly replaced: readonly number[]
  readonly logged: readonly string[]
  stop(): Promise<void>
}

export interface ReflectedOptions extends Partial<Omit<ReflectorOptions<Thing>, 'timing'>> {
  readonly access?: Partial<ClusterAccess>
  readonly timing?: Partial<ReflectorTiming>
  readonly clientTiming?: Partial<ClientTiming>
}

/** Periods a hundred times shorter than the real ones, so that a test of seconds covers minutes. */
export const FAST: Partial<ReflectorTiming> = {
  backoffStartMs: 8,
  backoffMaxMs: 300,
  backoffResetMs: 600,
  initialIdleMs: 150,
  shortWatchMs: 100,
  watchHeadersMs: 300,
  missingRetryMs: 100,
}

/** Value `bad` makes an object undecodable, `unwanted` makes it none of ours, `poison` makes the sink throw. */
export function reflect(server: string, options: ReflectedOptions = {}): Reflected {
  const stop = new AbortController()
  const client = new ApiClient({
    access: { ...anonymousAccess(server, 'test'), ...options.access },
    userAgent: 'test',
    qps: -1,
    env: {},
    timing: options.clientTiming ?? {},
  })
  const replaced: number[] = []
  const logged: string[] = []
  const items = new Map<string, unknown>()
  const keep = (message: string): void => void logged.push(message)
  const reflector = new Reflector<Thing>({
    client,
    path: '/things',
    decode: decodeThing,
    sink: {
      replace(all) {
        items.clear()
        for (const { key, value } of all) items.set(key, value)
        replaced.push(all.length)
      },
      upsert({ key, value }) {
        if (value === 'poison') throw new Error('the sink cannot take this')
        items.set(key, value)
      },
      remove: (key) => void items.delete(key),
    },
    log: {
      info: keep,
      warning: keep,
      error: (error, message) =>
        keep(`${message}: ${error instanceof Error ? error.message : String(error)}`),
    },
    signal: stop.signal,
    ...options,
    timing: { ...FAST, ...options.timing },
  })
  const run = reflector.run()
  return {
    reflector,
    items,
    replaced,
    logged,
    async stop() {
      stop.abort()
      await run
    },
    async [Symbol.asyncDispose]() {
      stop.abort()
      await run
      client.close()
    },
  }
}

function decodeThing(object: unknown): Thing | null {
  const { metadata, value } = object as { metadata: { namespace: string; name: string }; value: unknown }
  if (value === 'bad') throw new Error('it is bad')
  return value === 'unwanted' ? null : { key: `${metadata.namespace}/${metadata.name}`, value }
}
