// Two copies of the package in one process, each with a native library of its own: two versions in node_modules, or a bundler's.

import assert from 'node:assert/strict'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

import { sleep } from './lib.mjs'

const ROUNDS = 20
const TASKS = 10

const LINUX = { skip: process.platform !== 'linux' && 'locks of an open file are Linux\'s' }

/** Two copies, loaded from a folder that is gone after the test. */
function copies(t) {
  const place = mkdtempSync(join(tmpdir(), 'lockwright-copies-'))
  t.after(() => rmSync(place, { recursive: true }))
  const package_ = fileURLToPath(new URL('..', import.meta.url))
  const { LOCKWRIGHT_NATIVE: given } = process.env
  const load = createRequire(import.meta.url)
  delete process.env.LOCKWRIGHT_NATIVE
  const both = ['one', 'other'].map(name => {
    cpSync(join(package_, 'dist'), join(place, name, 'dist'), { recursive: true })
    cpSync(join(package_, 'package.json'), join(place, name, 'package.json'))
    cpSync(given ?? join(package_, 'lockwright.node'), join(place, name, 'lockwright.node'))
    return load(join(place, name))
  })
  if (given !== undefined) process.env.LOCKWRIGHT_NATIVE = given
  assert.notEqual(both[0], both[1])
  return { place, both }
}

test('copies of the library exclude each other', LINUX, async t => {
  const { place, both } = copies(t)
  const clients = []
  try {
    let [inside, count] = [0, 0]
    const work = async client => {
      for (let round = 0; round < ROUNDS; round++) {
        await client.lock('x', { ttl: 10_000 }).using(async guard => {
          assert.equal(++inside, 1)
          const seen = count
          await sleep(1)
          assert.ok(guard.isHeld)
          count = seen + 1
          inside--
        })
      }
    }
    for (const copy of both) clients.push(await copy.connect(`sqlite://${join(place, 'locks.db')}`))
    await Promise.all(clients.flatMap(client => Array.from({ length: TASKS }, () => work(client))))
    assert.equal(count, clients.length * TASKS * ROUNDS)
  } finally {
    await Promise.all(clients.map(client => client.close()))
  }
})

test('a block of one copy is not taken for one of the other that has its number', async t => {
  const [one, other] = await Promise.all(copies(t).both.map(copy => copy.connect('memory://')))
  const holds = other.lock('x').using(() => sleep(3_500))
  const waits = one.lock('y').using(() => other.lock('x').using(() => 'after'))
  assert.equal(await waits, 'after')
  await Promise.all([holds, one.close(), other.close()])
})
