import { valueOf } from './assemble.ts'
import { formatDuration } from './duration.ts'
import { FIELDS } from './fields.ts'
import { API_VERSION, KIND } from './file.ts'
import type { LoadedConfiguration } from './load.ts'
import type { FieldValue } from './values.ts'

/** The effective configuration as a file that loads again with the same effect (`--write-config-to`). */
export async function writeConfig(loaded: LoadedConfiguration): Promise<string> {
  const { stringify } = await import('yaml')
  const root: Record<string, unknown> = { apiVersion: API_VERSION, kind: KIND }
  const { healthzBindAddress, metricsBindAddress } = loaded.configuration
  const effective: Readonly<Record<string, FieldValue>> = { healthzBindAddress, metricsBindAddress }
  for (const { path, kind } of FIELDS) {
    const value = effective[path] ?? valueOf<FieldValue>(loaded.values, path)
    if (value === null) continue
    const [section, name] = path.split('.') as [string, string | undefined]
    const shown = kind === 'duration' ? formatDuration(value as number) : value
    if (name === undefined) root[section] = shown
    else root[section] = { ...(root[section] as object | undefined), [name]: shown }
  }
  return stringify(root)
}
