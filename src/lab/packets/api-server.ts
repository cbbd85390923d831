import type { ChildProcess } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Cidr } from '../../net/cidr.ts'
import { ProxyError } from '../../shared/errors.ts'
import { spawnIn } from '../namespaces.ts'
import { endProcess } from './child.ts'
import { CONTROL_ADDRESS } from './world.ts'

/** The compiled program, also when this module itself runs from source (in tests). */
const PROGRAM = import.meta.url.endsWith('.ts')
  ? '../../../dist/lab/apiserver/main.js'
  : '../apiserver/main.js'

/** The lab's API server with a fixture's objects stored as they are. */
export class FixtureApiServer implements AsyncDisposable {
  readonly #child: ChildProcess
  readonly url: string

  private constructor(child: ChildProcess, url: string) {
    this.#child = child
    this.url = url
  }

  static async start(
    namespace: string,
    directory: string,
    {
      objects,
      serviceCidrs,
    }: { readonly objects: readonly unknown[]; readonly serviceCidrs: readonly Cidr[] },
  ): Promise<FixtureApiServer> {
    const file = join(directory, 'objects.yaml')
    await writeFile(file, objects.map((object) => JSON.stringify(object)).join('\n---\n'))
    const program = fileURLToPath(new URL(PROGRAM, import.meta.url))
    const ranges = serviceCidrs.flatMap((cidr) => ['--service-cidr', cidr])
    const argv = [process.execPath, program, '--listen', `${CONTROL_ADDRESS}:6443`, '--load', file, ...ranges]
    const child = spawnIn(namespace, argv, { stdio: ['ignore', 'pipe', 'inherit'] })
    try {
      return new FixtureApiServer(child, await urlOf(child))
    } catch (error) {
      await endProcess(child)
      throw error
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await endProcess(this.#child)
  }
}

/** The server says where it serves in its first line. */
function urlOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    createInterface({ input: child.stdout! }).once('line', (line) =>
      resolve((JSON.parse(line) as { url: string }).url),
    )
    const fail = (): void =>
      reject(
        new ProxyError(
          'LAB_API_SERVER',
          "The fixture's API server ended before it served. Its reason stands above.",
        ),
      )
    child.once('exit', fail)
    child.once('error', fail)
  })
}
