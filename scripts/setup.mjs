// Brings a bare machine (Debian with Node.js and npm) to where the project builds and runs. Plain JavaScript without
// dependencies, because it runs before there are any. Says what it does; does nothing the second time.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, statSync, readdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

const ROOT = resolve(import.meta.dirname, '..')
const STAMPS = join(ROOT, 'node_modules', '.switchback')

/** Programs the product or its tests start, and the Debian package that brings each. */
const DEMO_PROGRAMS = {
  ip: 'iproute2',
  nft: 'nftables',
  unshare: 'util-linux',
  nsenter: 'util-linux',
  mount: 'mount',
  kubectl: 'kubernetes-client',
  curl: 'curl',
}
const TEST_PROGRAMS = { ...DEMO_PROGRAMS, conntrack: 'conntrack', openssl: 'openssl', setpriv: 'util-linux' }

function say(message) {
  process.stderr.write(`[setup] ${message}\n`)
}

function fail(message) {
  say(message)
  process.exit(1)
}

function run(argv, options = {}) {
  const result = spawnSync(argv[0], argv.slice(1), { cwd: ROOT, stdio: ['ignore', 2, 2], ...options })
  if (result.status !== 0)
    fail(
      `"${argv.join(' ')}" failed${result.error ? `: ${result.error.message}` : ` with exit status ${result.status}`}`,
    )
}

function checkNode() {
  const [major, minor] = process.versions.node.split('.').map(Number)
  if (major > 20 || (major === 20 && minor >= 19)) return
  fail(
    `Node.js ${process.versions.node} is too old: Switchback needs 20.19 or newer (Debian: see https://nodejs.org/en/download)`,
  )
}

function hashOf(...files) {
  const hash = createHash('sha256')
  for (const file of files) hash.update(readFileSync(file))
  return hash.digest('hex')
}

function isDone(stamp, value) {
  const file = join(STAMPS, stamp)
  return existsSync(file) && readFileSync(file, 'utf8') === value
}

function markDone(stamp, value) {
  mkdirSync(STAMPS, { recursive: true })
  writeFileSync(join(STAMPS, stamp), value)
}

function installNpmPackages() {
  const wanted = hashOf(join(ROOT, 'package-lock.json'))
  if (isDone('npm', wanted)) return
  say('installing npm packages (npm ci)')
  run(['npm', 'ci', '--no-audit', '--no-fund', '--loglevel=error'])
  markDone('npm', wanted)
}

function isOnPath(program) {
  const dirs = [...(process.env.PATH ?? '').split(':'), '/usr/sbin', '/sbin', '/usr/local/sbin']
  return dirs.some((dir) => dir !== '' && existsSync(join(dir, program)))
}

function installDebianPackages(programs) {
  const missing = Object.keys(programs).filter((program) => !isOnPath(program))
  if (missing.length === 0) return
  const packages = [...new Set(missing.map((program) => programs[program]))]
  const isRoot = process.getuid?.() === 0
  const sudo = isRoot ? [] : ['sudo', '-n']
  if (!isOnPath('apt-get'))
    fail(
      `these programs are missing: ${missing.join(', ')}. Install them with this system's package manager and try again`,
    )
  if (!isRoot && spawnSync('sudo', ['-n', 'true']).status !== 0) {
    fail(
      `Debian packages are missing and need root to install: run "apt-get install ${packages.join(' ')}" as root, then try again`,
    )
  }
  say(`installing Debian packages: ${packages.join(' ')}`)
  run([...sudo, 'apt-get', 'update', '-qq'])
  run([
    ...sudo,
    'env',
    'DEBIAN_FRONTEND=noninteractive',
    'apt-get',
    'install',
    '-y',
    '-qq',
    '--no-install-recommends',
    ...packages,
  ])
}

function newestSource(dir) {
  return readdirSync(dir, { withFileTypes: true }).reduce((newest, entry) => {
    const path = join(dir, entry.name)
    return Math.max(newest, entry.isDirectory() ? newestSource(path) : statSync(path).mtimeMs)
  }, statSync(dir).mtimeMs)
}

function build() {
  const wanted = `${newestSource(join(ROOT, 'src'))} ${hashOf(join(ROOT, 'tsconfig.json'), join(ROOT, 'tsconfig.build.json'))}`
  if (existsSync(join(ROOT, 'dist', 'cli', 'main.js')) && isDone('build', wanted)) return
  say('building (tsc)')
  run(['npm', 'run', '--silent', 'build'])
  markDone('build', wanted)
}

const purpose = process.argv[2] ?? 'demo'
checkNode()
installNpmPackages()
installDebianPackages(purpose === 'test' ? TEST_PROGRAMS : DEMO_PROGRAMS)
build()
