// The lock server in a Durable Object, in real workerd, with its storage on a disk.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import { Origin } from '../../../examples/edge/origin.mjs'
import { EXPECTED } from './worker/all.js'
import { objects, requests, serve } from './workerd.mjs'

// scripts/full.d plays more.
const COUNT = Number(process.env.LOCKWRIGHT_TEST_REQUESTS ?? 200)
const SCRIPT = fileURLToPath(new URL('worker/object.js', import.meta.url))

let worker, origin, disk
let count = 0
/** Called when somebody wrote the count. */
let counted = () => {}

/** Serves a script whose objects are of this class, on the disk that they had before. */
function begin(port, script = SCRIPT, name = 'Locks', from = `http://127.0.0.1:${origin.address().port}/`) {
  const { bindings, more, services } = objects(name, disk)
  return serve(script, { port, services, bindings: `${bindings}, (name = "ORIGIN", text = "${from}")`, more: `globalOutbound = "internet", ${more}` })
}

before(async () => {
  disk = mkdtempSync(join(tmpdir(), 'lockwright-object-'))
  origin = createServer((request, response) => {
    if (request.method !== 'PUT') return response.end(String(count))
    let text = ''
    request.on('data', bytes => (text += bytes)).on('end', () => {
      response.end(String((count = Number(text))))
      counted()
    })
  }).listen(0, '127.0.0.1')
  await new Promise(listening => origin.once('listening', listening))
  worker = await begin()
})

after(async () => {
  await worker?.stop()
  origin?.close()
  origin?.closeAllConnections()
  rmSync(disk, { recursive: true, force: true })
})

const ask = async path => (await fetch(`${worker.url}${path}`)).json()

/** The requests that were answered with 200, and the others. */
function tally(answers) {
  const done = answers.filter(({ status }) => status === 200)
  return { done, failed: answers.filter(({ status }) => status !== 200) }
}

test('many requests, 32 at once, share one lock of the object, exactly', async () => {
  count = 0
  const { done, failed } = tally(await requests(`${worker.url}/add?lock=hot`, COUNT, 32))
  assert.deepEqual(failed, [], worker.said())
  assert.equal(count, COUNT)
  assert.equal(new Set(done.map(({ token }) => token)).size, COUNT)
})

test('all that is made of locks works with the object', async () => {
  const [answer] = await requests(`${worker.url}/all?lock=all`, 1, 1)
  assert.deepEqual(answer, { status: 200, ...EXPECTED })
})

test('an object that is evicted, again and again, goes on with the locks that it had', async () => {
  count = 0
  const evictions = []
  counted = () => {
    if (count % (COUNT / 10) === 0) evictions.push(ask('/evict'))
  }
  const { done, failed } = tally(await requests(`${worker.url}/add?lock=evicted`, COUNT, 16))
  counted = () => {}
  await Promise.all(evictions)
  assert.ok(evictions.length >= 3, `${evictions.length} evictions`)
  assert.deepEqual(failed, [], worker.said())
  assert.equal(count, done.length)
  assert.equal(new Set(done.map(({ token }) => token)).size, COUNT)
})

test('an object whose disk fails it is begun anew', async () => {
  assert.deepEqual(await ask('/try?lock=damaged'), { got: true, outcome: 'released' })
  await ask('/damage')
  assert.deepEqual(await ask('/try?lock=damaged'), { got: true, outcome: 'released' })
})

test('a server that was killed has its locks when it is there again', async () => {
  const { token, secret } = await ask('/export?lock=killed')
  const { port } = worker
  await worker.stop()
  worker = await begin(port)
  assert.deepEqual(await ask('/try?lock=killed'), { got: false })
  const resumed = await ask(`/resume?secret=${encodeURIComponent(secret)}`)
  assert.equal(resumed.outcome, 'released')
  assert.ok(BigInt(resumed.token) > BigInt(token))
  assert.deepEqual(await ask('/try?lock=killed'), { got: true, outcome: 'released' })
})

test('a program outside shares the locks over a WebSocket that the Worker hands on', async () => {
  count = 0
  const program = fileURLToPath(new URL('web_socket.mjs', import.meta.url))
  const outside = promisify(execFile)(process.execPath, ['--experimental-websocket', '--no-warnings', program, `${worker.url}/connect`, origin.address().port, '40'])
  const { failed } = tally(await requests(`${worker.url}/add?lock=hot`, 40, 8))
  assert.deepEqual(failed, [], worker.said())
  const { stdout } = await outside
  assert.deepEqual(JSON.parse(stdout), { locked: 40, store: 'lock server', foreign: 'unsupported', password: 'invalid_config' })
  assert.equal(count, 80)
})

test('the script of examples/workers claims each coupon once', async () => {
  const stocks = new Origin()
  stocks.stock('summer', COUNT)
  const script = fileURLToPath(new URL('../../../examples/workers/claim.js', import.meta.url))
  const claims = await begin(undefined, script, 'LockServer', await stocks.listen(0))
  try {
    const answers = await requests(`${claims.url}/coupons/summer/claim`, COUNT + 10, 32, { method: 'POST' })
    const claimed = answers.filter(({ status }) => status === 200)
    assert.deepEqual(claimed.map(({ left }) => left).sort((a, b) => a - b), Array.from({ length: COUNT }, (_, left) => left))
    assert.deepEqual(answers.filter(({ status }) => status !== 200), Array(10).fill({ status: 410, claimed: false, left: 0 }))
    assert.equal(stocks.left('summer'), 0)
    const one = name => requests(`${claims.url}/coupons/${name}/claim`, 1, 1, { method: 'POST' }).then(([{ status, code }]) => [status, code])
    assert.deepEqual(await one('winter'), [404, 'not_found'])
    stocks.stock('broken', 'no number')
    assert.deepEqual(await one('broken'), [502, 'origin'])
    assert.equal(stocks.left('broken'), 'no number')
  } finally {
    await claims.stop()
    stocks.close()
  }
})

test('what is no client of a lock server is refused, and leaves the others alone', async () => {
  assert.equal((await fetch(`${worker.url}/connect`)).status, 426)
  assert.deepEqual(await ask('/unbound'), { missing: 'invalid_config', bare: 'unsupported' })
  assert.deepEqual(await ask('/try?lock=after'), { got: true, outcome: 'released' })
})
