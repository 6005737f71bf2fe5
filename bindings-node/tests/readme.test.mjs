// The tree's README: its program for Node runs as it is typed.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const PACKAGE = dirname(dirname(fileURLToPath(import.meta.url)))

test('the first lock of the README', t => {
  const programs = readFileSync(join(PACKAGE, '..', 'README.md'), 'utf8').match(/(?<=^```js\n)[^]*?(?=^```$)/gm)
  assert.equal(programs.length, 1)
  const project = mkdtempSync(join(tmpdir(), 'lockwright-readme-'))
  t.after(() => rmSync(project, { recursive: true, force: true }))
  mkdirSync(join(project, 'node_modules'))
  symlinkSync(PACKAGE, join(project, 'node_modules', 'lockwright'))
  writeFileSync(join(project, 'first.mjs'), programs[0])
  const { LOCKWRIGHT_URL: _, ...env } = process.env
  const said = execFileSync(process.execPath, ['first.mjs'], { cwd: project, env: { ...env, XDG_STATE_HOME: project }, encoding: 'utf8' })
  assert.match(said, /^fencing token \d+n\n$/)
})
