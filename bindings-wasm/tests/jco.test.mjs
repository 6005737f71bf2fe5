// The component on Node, by jco, on a real Redis, beside the native Node package.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import { connect } from '../../bindings-node/dist/index.mjs'
import { command } from '../npm/tests/redis.mjs'

const run = promisify(execFile)
const TOOLS = fileURLToPath(new URL('tools/node_modules/', import.meta.url))
const PROGRAM = fileURLToPath(new URL('jco_program.mjs', import.meta.url))
const ADDRESS = `${process.env.LOCKWRIGHT_TEST_REDIS}?prefix=jco-${process.pid}:`
const ROUNDS = 10

let made, native

before(async () => {
  // Where it finds the shim of WASI.
  made = mkdtempSync(join(TOOLS, '.jco-'))
  writeFileSync(join(made, 'package.json'), '{ "type": "module" }')
  await run(join(TOOLS, '.bin/jco'), ['transpile', process.env.LOCKWRIGHT_TEST_COMPONENT, '-o', made, '--name', 'lockwright', '--quiet'])
  native = await connect(ADDRESS)
})

after(async () => {
  await native?.close()
  rmSync(made, { recursive: true, force: true })
})

test('a host needs no HTTP for it', () => {
  const module = readFileSync(process.env.LOCKWRIGHT_TEST_COMPONENT)
  assert.deepEqual(['wasi:sockets/tcp', 'wasi:http/'].map(name => module.includes(name)), [true, false])
})

test('two programs with the component and native tasks share one lock, exactly', async () => {
  const counter = `jco-${process.pid}-counter`
  await command('SET', counter, '0')
  const lock = native.lock('hot')
  const tasks = Array.from({ length: 2 }, async () => {
    for (let left = ROUNDS; left > 0; left--) {
      await lock.using(async () => await command('SET', counter, String(Number(await command('GET', counter)) + 1)))
    }
  })
  const module = join(made, 'lockwright.js')
  const programs = Array.from({ length: 2 }, () => run('node', [PROGRAM, module, ADDRESS, counter, String(ROUNDS)]))
  for (const { stdout } of await Promise.all(programs)) assert.equal(stdout, 'all is well\n')
  await Promise.all(tasks)
  assert.equal(await command('GET', counter), String(4 * ROUNDS))
  await command('DEL', counter)
})
