import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A directory for one test; gone at the end of its scope. */
export interface TemporaryDirectory extends Disposable {
  readonly path: string
  /** Writes a file and gives its path. */
  write(name: string, text: string, mode?: number): string
}

export function temporaryDirectory(): TemporaryDirectory {
  const path = mkdtempSync(join(tmpdir(), 'switchback-test-'))
  return {
    path,
    write(name, text, mode = 0o600) {
      const file = join(path, name)
      writeFileSync(file, text, { mode })
      return file
    },
    [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
  }
}
