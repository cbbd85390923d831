// Runs every tier in order and ends with the line `N passed, N failed, N skipped`. A skipped test that
// test/skips.json does not list with a reason counts as failed.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

const ROOT = resolve(import.meta.dirname, '..')
const TIERS = ['unit', 'kernel', 'lab']
const CHECKS = [
  ['types', ['npx', 'tsc', '-p', 'tsconfig.json', '--noEmit']],
  ['lint', ['npx', 'oxlint', '--deny-warnings']],
  ['format', ['npx', 'prettier', '--check', '--log-level', 'warn', '.']],
]

const reports = mkdtempSync(join(tmpdir(), 'switchback-test-'))
const listedSkips = JSON.parse(readFileSync(join(ROOT, 'test', 'skips.json'), 'utf8'))
const total = { passed: 0, failed: 0, skipped: 0 }

function execute(argv) {
  return (
    spawnSync(argv[0], argv.slice(1), { cwd: ROOT, stdio: ['ignore', 'inherit', 'inherit'] }).status === 0
  )
}

function runCheck([name, argv]) {
  console.log(`\n== ${name}: ${argv.join(' ')}`)
  const ok = execute(argv)
  total[ok ? 'passed' : 'failed']++
  if (!ok) console.log(`${name}: FAILED`)
}

/** A skip may be listed for where something is missing; where that is at hand, the test must run. */
function isListed(fullName) {
  return listedSkips.some(({ test, onlyWithout }) => {
    return fullName.includes(test) && !(onlyWithout !== undefined && existsSync(join(ROOT, onlyWithout)))
  })
}

function reasonOf(fullName) {
  return listedSkips.find(({ test }) => fullName.includes(test)).reason
}

function runTier(tier) {
  console.log(`\n== tier ${tier}`)
  const file = join(reports, `${tier}.json`)
  const ok = execute([
    'npx',
    'vitest',
    'run',
    '--project',
    tier,
    '--reporter=default',
    '--reporter=json',
    `--outputFile.json=${file}`,
  ])
  if (!existsSync(file)) {
    total.failed++
    return
  }
  const failedBefore = total.failed
  for (const suite of JSON.parse(readFileSync(file, 'utf8')).testResults) countSuite(suite)
  if (!ok && total.failed === failedBefore) total.failed++
}

function countSuite(suite) {
  for (const { fullName, status } of suite.assertionResults) {
    if (status === 'passed') total.passed++
    else if (status === 'failed') total.failed++
    else if (isListed(fullName)) {
      total.skipped++
      console.log(`skipped: ${fullName} (${reasonOf(fullName)})`)
    } else {
      total.failed++
      console.log(`skipped without a reason in test/skips.json: ${fullName}`)
    }
  }
  if (suite.assertionResults.length === 0 && suite.status === 'failed') total.failed++
}

CHECKS.forEach(runCheck)
TIERS.forEach(runTier)
rmSync(reports, { recursive: true })
console.log(`\n${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`)
process.exitCode = total.failed === 0 && total.passed > 0 ? 0 : 1
