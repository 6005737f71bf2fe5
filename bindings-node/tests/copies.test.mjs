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

test('copies of the library exclude each other', { skip: process.platform !== 'linux' && 'locks of an open file are Linux\'s' }, async () => {
  const place = mkdtempSync(join(tmpdir(), 'lockwright-copies-'))
  const clients = []
  try {
    const package_ = fileURLToPath(new URL('..', import.meta.url))
    const native = process.env.LOCKWRIGHT_NATIVE ?? join(package_, 'lockwright.node')
    const load = createRequire(import.meta.url)
    delete process.env.LOCKWRIGHT_NATIVE
    const copies = ['one', 'other'].map(name => {
      cpSync(join(package_, 'dist'), join(place, name, 'dist'), { recursive: true })
      cpSync(join(package_, 'package.json'), join(place, name, 'package.json'))
      cpSync(native, join(place, name, 'lockwright.node'))
      return load(join(place, name))
    })
    assert.notEqual(copies[0], copies[1])
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
    for (const copy of copies) clients.push(await copy.connect(`sqlite://${join(place, 'locks.db')}`))
    await Promise.all(clients.flatMap(client => Array.from({ length: TASKS }, () => work(client))))
    assert.equal(count, clients.length * TASKS * ROUNDS)
  } finally {
    await Promise.all(clients.map(client => client.close()))
    rmSync(place, { recursive: true })
  }
})
