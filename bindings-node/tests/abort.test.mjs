// Waits that are given up.

import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'

import { client, FULL, inMemory, nothingIsLeft, shared, sleep, stores } from './lib.mjs'

test('a signal that is aborted already, or aborts, ends the wait with its reason', async t => {
  const here = await client(t, inMemory())
  const lock = here.lock('x')
  await assert.rejects(lock.acquire({ signal: AbortSignal.abort() }), { name: 'AbortError' })
  await assert.rejects(lock.acquire({ signal: AbortSignal.abort('mine') }), reason => reason === 'mine')
  assert.equal(here.metrics().waiting, 0)
  const guard = await lock.acquire({ signal: new AbortController().signal })
  await assert.rejects(lock.acquire({ signal: AbortSignal.timeout(20) }), { name: 'TimeoutError' })
  const late = new AbortController()
  const waiting = lock.acquire({ signal: late.signal })
  await sleep(5)
  late.abort(new RangeError('mine'))
  await assert.rejects(waiting, RangeError)
  assert.equal(await guard.release(), 'released')
  assert.notEqual(await lock.tryAcquire(), null)
})

test('a signal that aborts after the grant changes nothing, and is not listened to', async t => {
  const lock = (await client(t, inMemory())).lock('x')
  const giveUp = new AbortController()
  const guard = await lock.acquire({ signal: giveUp.signal })
  assert.deepEqual(getEventListeners(giveUp.signal, 'abort'), [])
  giveUp.abort()
  assert.ok(guard.isHeld)
  assert.equal(await guard.release(), 'released')
})

test('one signal ends many waits at once, of which Node warns nobody', async t => {
  const here = await client(t, inMemory())
  const lock = here.lock('x')
  const guard = await lock.acquire()
  const warnings = []
  const keep = ({ name }) => name === 'MaxListenersExceededWarning' && warnings.push(name)
  process.on('warning', keep)
  t.after(() => process.off('warning', keep))
  const giveUp = new AbortController()
  const { signal } = giveUp
  const acquisitions = Array.from({ length: 50 }, () => lock.acquire({ signal }))
  const elections = Array.from({ length: 50 }, (_, i) => here.election('boss').changed(undefined, { every: 20 + i, signal }))
  const waits = [...acquisitions, ...elections]
  await sleep(100)
  assert.deepEqual(warnings, [])
  giveUp.abort()
  for (const { status, reason } of await Promise.allSettled(waits)) assert.deepEqual([status, reason.name], ['rejected', 'AbortError'])
  await guard.release()
  assert.notEqual(await lock.tryAcquire(), null)
})

// The counter is read, left for a while, and written: whoever came in meanwhile would lose an increment.
const ABORTED = FULL ? 2_000 : 200
const TASKS = 50

for (const [store, uri] of Object.entries(stores())) {
  test(`acquisitions over ${store} that are aborted at random moments leave nothing and let nobody else in`, async t => {
    const here = await client(t, uri)
    const lock = here.lock('x')
    let [counter, increments, aborted] = [0, 0, 0]
    const task = async () => {
      // Both must have happened, however slow the store is.
      while (aborted < ABORTED || counter < TASKS) {
        const giveUp = new AbortController()
        const timer = setTimeout(() => giveUp.abort(), Math.random() ** 2 * 60)
        try {
          const guard = await lock.acquire({ signal: giveUp.signal })
          const seen = counter
          await new Promise(setImmediate)
          counter = seen + 1
          increments++
          assert.equal(await guard.release(), 'released')
          await sleep(Math.random() * 5)
        } catch (error) {
          assert.equal(error.name, 'AbortError', error)
          aborted++
        } finally {
          clearTimeout(timer)
        }
      }
    }
    await Promise.all(Array.from({ length: TASKS }, task))
    assert.equal(counter, increments)
    await nothingIsLeft(uri, ['x'])
    const { held, waiting } = here.metrics()
    assert.deepEqual([held, waiting], [0, 0])
  })
}

test('a free lock that is not had in a moment is not said to be held', async t => {
  for (const uri of Object.values(shared())) {
    const lock = (await client(t, uri)).lock('free')
    for (let tries = 0; tries < 20; tries++) {
      const told = await lock.acquire({ timeout: 0.1 }).then(guard => guard.release(), error => error)
      if (told instanceof Error) assert.match(told.message, /^timeout: .*: others held it, or the store had not answered by then; raise/)
    }
  }
})
