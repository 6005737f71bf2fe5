// Latches.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect } from 'node:util'

import { Latch } from '../dist/index.mjs'
import { client, stores } from './lib.mjs'

for (const [store, uri] of Object.entries(stores())) {
  test(`who waits for a latch of ${store} goes on once all have counted down`, async t => {
    const [here, there] = [await client(t, uri), await client(t, uri)]
    const [mine, theirs] = [here.latch('done', 2), there.latch('done', 2)]
    assert.ok(mine instanceof Latch && mine.name === 'done')
    assert.match(inspect(mine), /^<Latch "done" on /)
    const waiting = [mine.wait(), theirs.wait(), theirs.wait()]
    const aborted = new AbortController()
    const gone = assert.rejects(mine.wait({ signal: aborted.signal }), { name: 'AbortError' })
    aborted.abort()
    await gone
    assert.equal(await mine.count(), 2)
    assert.equal(await theirs.wait({ timeout: 0 }), false)
    assert.equal(await mine.countDown(), 1)
    const { primitive, latch, shared, holder } = await there.inspect('done')
    assert.deepEqual([primitive, latch, shared, holder], ['latch', { count: 1 }, undefined, undefined])
    assert.equal((await there.inspect('nothing')).primitive, undefined)
    assert.equal(await theirs.wait({ timeout: 20 }), false)
    assert.equal(await mine.trySetCount(7), false)
    assert.equal(await theirs.countDown(), 0)
    assert.deepEqual(await Promise.all(waiting), [true, true, true])
    assert.equal(await mine.wait({ timeout: 0 }), true)
    assert.equal(await mine.trySetCount(1), true)
    assert.equal(await theirs.count(), 1)
  })

  test(`what is no latch of ${store} is refused`, async t => {
    const here = await client(t, uri)
    for (const wrong of [0, -1, 1.5, 1_000_001, 2 ** 32, NaN, '3', undefined, 3n]) {
      assert.throws(() => here.latch('done', wrong), { code: 'invalid_config' }, String(wrong))
      await assert.rejects(here.latch('done', 1).trySetCount(wrong), { code: 'invalid_config' }, String(wrong))
    }
    for (const idle of [0, -1, 59_999, 2_592_000_001, NaN, Infinity, '1 hour']) {
      assert.throws(() => here.latch('done', 1, { idle }), { code: 'invalid_config' }, String(idle))
    }
    assert.throws(() => here.latch('', 1), { code: 'invalid_config' })
    assert.throws(() => here.latch('done', 1, { ttl: 5 }), { code: 'invalid_config' })
    const held = await here.lock('held').acquire()
    await assert.rejects(here.latch(held.name, 1).countDown(), { code: 'foreign_layout' })
    await held.release()
  })
}
