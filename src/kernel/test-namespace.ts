import { execFileSync } from 'node:child_process'

/** A network namespace of its own for a test, with its loopback up; removed by `close`. */
export interface TestNamespace {
  readonly name: string
  /** For the `netns` option of the ports. */
  readonly path: string
  /** Runs a program inside and returns what it prints. */
  run(argv: readonly string[], input?: string): string
  close(): void
}

/** Needs root. Names are unique per process. */
export function makeNamespace(label: string): TestNamespace {
  const name = `sb-${label}-${process.pid}`
  const ip = (...args: readonly string[]): string => execFileSync('ip', args, { encoding: 'utf8' })
  ip('netns', 'add', name)
  ip('-n', name, 'link', 'set', 'lo', 'up')
  return {
    name,
    path: `/run/netns/${name}`,
    run: (argv, input = '') =>
      execFileSync('ip', ['netns', 'exec', name, ...argv], { encoding: 'utf8', input, maxBuffer: 1 << 28 }),
    close: () => void ip('netns', 'delete', name),
  }
}
