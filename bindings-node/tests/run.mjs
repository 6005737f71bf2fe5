// Runs the tests, all or those whose files have one of the words given in their names, and counts them as scripts/test expects it.
// Those of another folder are run with `--in FOLDER` before the words.

import { readdirSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { fileURLToPath } from 'node:url'

const given = process.argv.slice(2)
const here = given[0] === '--in' ? resolve(given[1]) : dirname(fileURLToPath(import.meta.url))
const words = given[0] === '--in' ? given.slice(2) : given
const wanted = name => name.endsWith('.test.mjs') && (words.length === 0 || words.some(word => name.includes(word)))
const files = readdirSync(here).filter(wanted).map(name => join(here, name))

const count = { passed: 0, failed: 0 }
const failed = []
// A suite's own result says nothing that those of its tests do not.
const counts = ({ details, skip }) => details.type !== 'suite' && skip === undefined
const running = run({ files, concurrency: 2, timeout: 300_000 })
running.on('test:pass', told => (count.passed += counts(told)))
running.on('test:fail', told => {
  count.failed += counts(told)
  if (counts(told)) failed.push(told.name)
})
running.compose(new spec()).pipe(process.stdout)
process.on('exit', () => {
  for (const name of failed) console.log(`FAILED ${name}`)
  console.log(`${count.passed} passed, ${count.failed} failed`)
  if (count.failed > 0 || count.passed === 0) process.exitCode = 1
})
