// The programs of README.md run as they are typed.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'

import ts from 'typescript'

import { client, until } from './lib.mjs'

const here = fileURLToPath(new URL('..', import.meta.url))
const place = mkdtempSync(join(tmpdir(), 'lockwright-readme-'))
mkdirSync(join(place, 'node_modules'))
symlinkSync(here, join(place, 'node_modules', 'lockwright'))
after(() => rmSync(place, { recursive: true }))

const compiled = text => ts.transpileModule(text, { compilerOptions: { target: 'es2022', module: 'esnext' } }).outputText

const programs = readFileSync(join(here, 'README.md'), 'utf8').matchAll(/^```(js|ts)\n([^]*?)^```$/gm)
const [first, typed, onlyOne, stops, ...more] = [...programs].map(([, language, text]) => (language === 'ts' ? compiled(text) : text))

/** A program that runs, its output so far, and how it ends. */
function start(text) {
  const file = join(place, `${Math.random()}.mjs`)
  writeFileSync(file, text)
  const env = { ...process.env, XDG_STATE_HOME: place, NODE_ENV: 'test' }
  delete env.LOCKWRIGHT_URL
  const child = spawn(process.execPath, [file], { cwd: place, env })
  const said = { text: '', wrong: '' }
  child.stdout.on('data', some => (said.text += some))
  child.stderr.on('data', some => (said.wrong += some))
  return { child, said, end: once(child, 'close') }
}

async function says(text) {
  const { said, end } = start(text)
  const [code] = await end
  assert.deepEqual([code, said.wrong], [0, ''])
  return said.text
}

test('the first locks are taken', async () => {
  assert.match(await says(first), /^fencing token \d+n\n$/)
  assert.equal(await says(typed), 'ordered\n')
  assert.equal(await says(onlyOne), 'doing it\nreleased\n')
  assert.deepEqual(more, [])
})

test('a process that is told to stop gives its locks back', async t => {
  const observer = await client(t, `sqlite://${join(place, 'lockwright', 'locks.db')}`)
  const { child, said, end } = start(stops)
  await until(async () => (await observer.inspect('orders:42')).holder !== undefined)
  child.kill('SIGTERM')
  assert.deepEqual([await end, said], [[0, null], { text: '', wrong: '' }])
  assert.equal((await observer.inspect('orders:42')).holder, undefined)
})
