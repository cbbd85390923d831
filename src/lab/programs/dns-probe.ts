/**
 * Asks a DNS server for a name until it answers with an address, and prints the address.
 * Arguments: SERVER NAME. Ends with status 1 after PROBE_TIMEOUT_MS (default 30 000).
 */
import { Resolver } from 'node:dns/promises'
import { setTimeout as sleep } from 'node:timers/promises'

const PAUSE_MS = 50
const [server = '', name = ''] = process.argv.slice(2)
const deadline = performance.now() + Number(process.env['PROBE_TIMEOUT_MS'] ?? '30000')
const resolver = new Resolver({ timeout: 500, tries: 1 })
resolver.setServers([server.includes(':') ? `[${server}]` : server])

async function ask(): Promise<string | null> {
  try {
    return (await resolver.resolve4(name))[0] ?? null
  } catch (error) {
    if (performance.now() < deadline) return null
    process.stderr.write(`${server} does not answer for ${name}: ${(error as Error).message}\n`)
    process.exit(1)
  }
}

for (;;) {
  const address = await ask()
  if (address !== null) {
    process.stdout.write(`${address}\n`)
    break
  }
  await sleep(PAUSE_MS)
}
