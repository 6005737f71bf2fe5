// Barriers.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect } from 'node:util'

import { Barrier } from '../dist/index.mjs'
import { client, stores } from './lib.mjs'

/** Ends once so many wait. */
async function untilWaiting(barrier, wanted) {
  while ((await barrier.waiting()) !== wanted);
}

for (const [store, uri] of Object.entries(stores())) {
  test(`all who wait for a barrier of ${store} go on once they are as many as the parties`, async t => {
    const [here, there] = [await client(t, uri), await client(t, uri)]
    const [mine, theirs] = [here.barrier('step', 3), there.barrier('step', 3, { ttl: 5_000 })]
    assert.ok(mine instanceof Barrier && mine.name === 'step' && mine.parties === 3)
    assert.match(inspect(mine), /^<Barrier "step" of 3 on /)
    assert.equal(await mine.wait({ timeout: 0 }), null)
    let last
    for (let round = 0; round < 3; round++) {
      const first = mine.wait()
      await untilWaiting(theirs, 1)
      const second = theirs.wait()
      await untilWaiting(mine, 2)
      const arrivals = await Promise.all([first, second, mine.wait()])
      assert.deepEqual(arrivals.map(arrival => arrival.index), [0, 1, 2])
      const [{ generation }] = arrivals
      assert.ok(typeof generation === 'bigint' && arrivals.every(arrival => arrival.generation === generation))
      if (last !== undefined) assert.equal(generation, last + 1n)
      last = generation
    }
  })

  test(`a place at a barrier of ${store} that is given up is another's`, async t => {
    const here = await client(t, uri)
    const barrier = here.barrier('step', 2)
    const aborted = new AbortController()
    const gone = assert.rejects(barrier.wait({ signal: aborted.signal }), { name: 'AbortError' })
    await untilWaiting(barrier, 1)
    aborted.abort()
    await gone
    await untilWaiting(barrier, 0)
    assert.equal(await barrier.wait({ timeout: 20 }), null)
    const waits = barrier.wait()
    await untilWaiting(barrier, 1)
    await assert.rejects(here.barrier('step', 3).wait(), { code: 'invalid_config', message: /for 3 parties here, but for 2/ })
    assert.equal((await barrier.wait({ timeout: 0 })).index, 1)
    assert.equal((await waits).index, 0)
  })

  test(`what is no barrier of ${store} is refused`, async t => {
    const here = await client(t, uri)
    for (const wrong of [0, -1, 1.5, 10_001, 2 ** 32, NaN, '3', undefined, 3n]) {
      assert.throws(() => here.barrier('step', wrong), { code: 'invalid_config' }, String(wrong))
    }
    for (const ttl of [0, -1, 19, 86_400_001, NaN, Infinity, '1 hour']) {
      assert.throws(() => here.barrier('step', 1, { ttl }), { code: 'invalid_config' }, String(ttl))
    }
    assert.throws(() => here.barrier('', 1), { code: 'invalid_config' })
    assert.throws(() => here.barrier('step', 1, { idle: 5 }), { code: 'invalid_config' })
    const held = await here.lock('held').acquire()
    await assert.rejects(here.barrier(held.name, 1).wait(), { code: 'foreign_layout' })
    await held.release()
  })
}
