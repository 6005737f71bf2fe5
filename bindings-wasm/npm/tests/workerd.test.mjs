// The package in workerd, on a real Redis, beside the native Node package.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'

import { connect as native } from '../../../bindings-node/dist/index.mjs'
import { command } from './redis.mjs'
import { EXPECTED } from './worker/all.js'
import { requests, serve } from './workerd.mjs'

const REDIS = process.env.LOCKWRIGHT_TEST_REDIS
const ADDRESS = `${REDIS}?prefix=workerd-${process.pid}:`
// scripts/full.d plays more.
const COUNT = Number(process.env.LOCKWRIGHT_TEST_REQUESTS ?? 200)

let worker, other

before(async () => {
  worker = await serve(fileURLToPath(new URL('worker/lock.js', import.meta.url)), { bindings: `(name = "REDIS", text = "${ADDRESS}")` })
  other = await native(ADDRESS)
})

after(async () => {
  await other?.close()
  await worker?.stop()
})

test('many requests, 32 at once, and native tasks share one lock, exactly', async () => {
  const counter = `workerd-${process.pid}-counter`
  await command('SET', counter, '0')
  const lock = other.lock('hot')
  const nativeTasks = Array.from({ length: 4 }, async () => {
    for (let left = COUNT / 20; left > 0; left--) {
      await lock.using(async () => await command('SET', counter, String(Number(await command('GET', counter)) + 1)))
    }
  })
  const answers = await requests(`${worker.url}/add?lock=hot&counter=${counter}`, COUNT, 32)
  await Promise.all(nativeTasks)
  const failed = answers.filter(({ status }) => status !== 200)
  assert.deepEqual(failed, [], worker.said())
  assert.equal(await command('GET', counter), String(COUNT + 4 * Math.ceil(COUNT / 20)))
  assert.equal(new Set(answers.map(({ token }) => token)).size, COUNT)
  await command('DEL', counter)
})

test('all that is made of locks works in a request', async () => {
  const [answer] = await requests(`${worker.url}/all?lock=all`, 1, 1)
  assert.deepEqual(answer, { status: 200, ...EXPECTED })
})
