import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { UsageError } from '../shared/errors.ts'
import type { ObjectFile } from './objects.ts'

const OBJECT_FILE = /\.(ya?ml|json)$/

/** Reads files, and the .yaml, .yml and .json files of directories (with their subdirectories, in order of name). */
export async function readObjectFiles(paths: readonly string[]): Promise<readonly ObjectFile[]> {
  const names = (await Promise.all(paths.map(filesOf))).flat()
  return Promise.all(names.map(async (file) => ({ file, text: await readText(file) })))
}

/** @throws UsageError with the system's reason when the file cannot be read */
export async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new UsageError(
      `The file "${file}" cannot be read: ${reason}. Check the path and its permissions.`,
      { cause },
    )
  }
}

async function filesOf(path: string): Promise<readonly string[]> {
  const info = await stat(path).catch((cause: unknown) => {
    throw new UsageError(
      `There is no file or directory "${path}". Give the paths of YAML or JSON files after --objects.`,
      {
        cause,
      },
    )
  })
  if (!info.isDirectory()) return [path]
  const entries = (await readdir(path, { withFileTypes: true })).sort((a, b) => (a.name < b.name ? -1 : 1))
  const nested = await Promise.all(
    entries.map((entry) => {
      const file = join(path, entry.name)
      if (entry.isDirectory()) return filesOf(file)
      return OBJECT_FILE.test(entry.name) ? [file] : []
    }),
  )
  return nested.flat()
}
