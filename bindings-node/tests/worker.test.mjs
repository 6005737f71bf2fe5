// Worker threads: each has its own event loop and its own clients, and may be ended at any moment.

import assert from 'node:assert/strict'
import { readdirSync, readlinkSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname } from 'node:path'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'

import { onEvent } from '../dist/index.mjs'
import { client, FULL, inMemory, shared, sleep, until } from './lib.mjs'

const TIMES = FULL ? 50 : 4

const ENTRY = new URL('../dist/index.js', import.meta.url).pathname

/** A worker that does `text`, and what it posts first. */
async function worker(text, uri) {
  const whole = `const lw = require(${JSON.stringify(ENTRY)})
    const { parentPort, workerData: uri } = require('node:worker_threads')
    const sleep = ms => new Promise(done => setTimeout(done, ms))
    ;(async () => { ${text} })().catch(error => parentPort.postMessage(error))`
  const started = new Worker(whole, { eval: true, workerData: uri })
  const said = await new Promise((resolve, reject) => {
    started.once('message', resolve)
    started.once('error', reject)
  })
  assert.ok(!(said instanceof Error), said)
  return started
}

const STATES = {
  'having connected': `await lw.connect(uri); parentPort.postMessage(0); setInterval(() => {}, 1000)`,
  'waiting': `const client = await lw.connect(uri)
    for (let i = 0; i < 10; i++) client.lock('taken', { ttl: 500 }).acquire().catch(() => {})
    parentPort.postMessage(0)`,
  'waiting with signals': `const client = await lw.connect(uri)
    const giveUp = new AbortController()
    for (let i = 0; i < 10; i++) client.lock('taken', { ttl: 500 }).acquire({ signal: giveUp.signal }).catch(() => {})
    parentPort.postMessage(0)
    setTimeout(() => giveUp.abort(), 1)`,
  'holding': `const client = await lw.connect(uri)
    globalThis.held = await client.lock('x', { ttl: 500 }).acquire()
    held.signal.addEventListener('abort', () => {})
    parentPort.postMessage(0); setInterval(() => {}, 1000)`,
  'acquiring and releasing': `const client = await lw.connect(uri)
    const lock = client.lock('x', { ttl: 500 })
    const task = async () => { for (;;) await (await lock.acquire()).release() }
    for (let i = 0; i < 5; i++) task()
    parentPort.postMessage(0)`,
  'aborting': `const client = await lw.connect(uri)
    const task = async () => {
      for (;;) await client.lock('x', { ttl: 500 }).acquire({ signal: AbortSignal.timeout(1) }).then(guard => guard.release(), () => {})
    }
    for (let i = 0; i < 5; i++) task()
    parentPort.postMessage(0)`,
  'losing': `const client = await lw.connect(uri)
    const task = async i => {
      for (;;) {
        const guard = await client.lock('own' + i, { ttl: 20, renew: false }).acquire()
        await new Promise(lost => guard.signal.addEventListener('abort', lost))
      }
    }
    for (let i = 0; i < 5; i++) task(i)
    parentPort.postMessage(0); setInterval(() => {}, 1000)`,
  'asking and closing': `parentPort.postMessage(0)
    for (;;) {
      const client = await lw.connect(uri)
      client.inspect('x').catch(() => {})
      client.list().catch(() => {})
      await client.close()
    }`,
}

for (const [state, text] of Object.entries(STATES)) {
  test(`terminating a worker while it is ${state} crashes nothing, and leaves nothing after the ttl`, async t => {
    for (const uri of [inMemory(), ...Object.values(shared())]) {
      const here = await client(t, uri)
      const taken = await here.lock('taken').acquire()
      for (let i = 0; i < TIMES; i++) {
        const started = await worker(text, uri)
        if (i % 2 === 0) await sleep(Math.random() * 10)
        await started.terminate()
      }
      assert.equal(await taken.release(), 'released')
      for (const name of ['taken', 'x']) {
        const asked = Date.now()
        await (await here.lock(name).acquire({ timeout: 20_000 })).release()
        assert.ok(Date.now() - asked < 10_000, `${name} was taken for too long`)
      }
    }
  })
}

test('many workers count on one counter, in every store that threads share', async t => {
  for (const uri of [inMemory(), ...Object.values(shared())]) {
    const counter = new Int32Array(new SharedArrayBuffer(4))
    const [workers, tasks, times] = [FULL ? 16 : 6, 4, 10]
    const text = `const { parentPort, workerData: { uri, counter } } = require('node:worker_threads')
      const lw = require(${JSON.stringify(ENTRY)})
      const task = async lock => {
        for (let i = 0; i < ${times}; i++) {
          await lock.using(async () => {
            const seen = counter[0]
            await new Promise(setImmediate)
            counter[0] = seen + 1
          })
        }
      }
      const run = async () => {
        const client = await lw.connect(uri)
        await Promise.all(Array.from({ length: ${tasks} }, () => task(client.lock('x'))))
        await client.close()
      }
      run()`
    const ends = Array.from({ length: workers }, () => new Promise((resolve, reject) => {
      const started = new Worker(text, { eval: true, workerData: { uri, counter } })
      started.once('error', reject)
      started.once('exit', resolve)
    }))
    assert.deepEqual(new Set(await Promise.all(ends)), new Set([0]))
    assert.equal(counter[0], workers * tasks * times, uri)
  }
})

test('a worker that is terminated while it connects leaves no descriptor', { skip: !('redis' in shared()) }, async t => {
  const uri = shared().redis
  const sockets = () => readdirSync('/proc/self/fd').filter(isSocket).length
  const isSocket = number => {
    try {
      return readlinkSync(`/proc/self/fd/${number}`).startsWith('socket:')
    } catch {
      return false
    }
  }
  const asks = `const client = await lw.connect(uri)
    client.lock('taken').acquire().catch(() => {})
    parentPort.postMessage(0)
    setInterval(() => {}, 1000)`
  const before = sockets()
  for (let i = 0; i < (FULL ? 300 : 60); i++) {
    const started = await worker(asks, uri)
    await sleep(Math.random() * 4)
    await started.terminate()
  }
  await until(() => sockets() <= before)
})

/** What a thread does that listens to events of `level`, and what it counts. */
const listens = level => `let told = 0
  lw.onEvent(${JSON.stringify(level)}, () => told++)
  const client = await lw.connect(uri)
  for (let i = 0; i < 10; i++) await client.lock('b').using(() => {})
  while (told < 20) await sleep(1)
  parentPort.postMessage(told)`

test('events are told to the threads and copies of the library that listen, each of its own level', async t => {
  const warnings = []
  const keep = warning => warnings.push(warning.message)
  process.on('warning', keep)
  t.after(() => process.off('warning', keep))
  const uri = inMemory()
  const here = await client(t, uri)
  const started = await worker(listens('trace'), uri)
  await here.lock('c').using(() => {})
  await started.terminate()
  await here.lock('c').using(() => {})
  const lose = async name => {
    const guard = await here.lock(name, { ttl: 30, renew: false }).acquire()
    await until(() => guard.whyLost !== undefined)
  }
  await lose('here')
  // Nobody listens any more, so the first thread warns again; what it was not to hear would have come before.
  await until(() => warnings.some(message => /lost lock="here"/.test(message)))
  assert.equal(warnings.length, 1)

  const copy = copyOf()
  const [ours, theirs] = [[], []]
  t.after(() => onEvent('off'))
  onEvent('warn', event => ours.push(event))
  copy.onEvent('debug', event => theirs.push(event))
  await lose('there')
  await until(() => ours.length > 0 && theirs.some(({ target }) => target === 'lockwright::lost'))
  assert.deepEqual(ours.map(({ target }) => target), ['lockwright::lost'])
  assert.ok(theirs.some(({ target }) => target === 'lockwright::grant'))
  assert.equal(warnings.length, 1)
})

/** The library loaded once more, over the same native one, as two versions in `node_modules` may be. */
function copyOf() {
  const require = createRequire(import.meta.url)
  const known = Object.entries(require.cache).filter(([file]) => file.startsWith(dirname(ENTRY)))
  for (const [file] of known) delete require.cache[file]
  const copy = require(ENTRY)
  for (const [file, module] of known) require.cache[file] = module
  assert.notEqual(copy.onEvent, onEvent)
  return copy
}
