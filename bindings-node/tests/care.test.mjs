// What a program does around its locks: ping, drain, a least time, options of what is resumed, leadership that comes again.

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'

import { Closed, connect, InvalidConfig, LockLost, NotOwned, Unavailable, Unsupported } from '../dist/index.mjs'
import { aLossThatTheEventLoopHadNoTimeToTell, anExportThatFindsItLost } from './failing_guards.mjs'
import { client, inMemory, program, sleep, stores, until } from './lib.mjs'

for (const [store, uri] of Object.entries(stores())) {
  describe(store, { concurrency: true }, () => {
    test('a store that serves is well', async t => {
      const here = await client(t, uri)
      const { took, eviction, mayEvict } = await here.ping()
      assert.ok(took > 0 && took < 5_000, took)
      assert.deepEqual([eviction, mayEvict], [store === 'redis' ? 'noeviction' : undefined, false])
    })

    test('an export that finds the lock lost tells all of it', async t => {
      await anExportThatFindsItLost(await client(t, uri), await client(t, uri))
    })

    test('a loss that the event loop had no time to tell is seen by whoever asks', async t => {
      await aLossThatTheEventLoopHadNoTimeToTell(await client(t, uri))
    })

    test('a drained client begins nothing and waits for what is held', async t => {
      const here = await client(t, uri)
      const guard = await here.lock('held').acquire()
      const waits = assert.rejects(here.lock('held').acquire(), Closed)
      await until(() => here.metrics().waiting > 0)
      assert.deepEqual(await here.drain(30), ['held'])
      await waits
      await assert.rejects(here.lock('other').tryAcquire(), Closed)
      const done = here.drain('9s')
      assert.ok(guard.isHeld)
      await guard.release()
      assert.deepEqual(await done, [])
      await assert.rejects(here.drain('soon'), InvalidConfig)
    })

    test('what is released early stays taken for its least time', async t => {
      const [here, other] = [await client(t, uri), await client(t, uri)]
      const least = 900
      const freeAfter = async began => {
        assert.equal(await other.lock('least').tryAcquire(), null)
        await (await other.lock('least').acquire({ timeout: 9_000 })).release()
        const after = performance.now() - began
        assert.ok(after >= least && after < least + 4_000, after)
      }
      let began = performance.now()
      await here.lock('least', { atLeastFor: least }).using(() => {})
      await freeAfter(began)
      began = performance.now()
      const guard = await here.lock('least').acquire()
      guard.holdAtLeastFor('900ms')
      assert.equal(await guard.release(), 'released')
      await freeAfter(began)
      assert.throws(() => guard.holdAtLeastFor(900), NotOwned)
      assert.throws(() => here.lock('least', { atLeastFor: '25h' }), { code: 'invalid_config' })
      await here.rwlock('parts').write.using(writes => {
        assert.throws(() => writes.holdAtLeastFor(900), Unsupported)
      })
    })

    test('an exported lock is resumed with other options', async t => {
      const [here, there] = [await client(t, uri), await client(t, uri)]
      const secret = await (await here.lock('moved').acquire()).export('20s')
      const guard = await there.resume(secret, { ttl: '500s', label: 'mine' })
      const { holder } = await here.inspect('moved')
      assert.ok(holder.remaining > 400_000 && holder.label === 'mine', holder)
      await guard.release()
      await assert.rejects(there.resume(secret, { tll: 5 }), InvalidConfig)
    })

    test('who loses leadership leads again, and resigns when its work is done', async t => {
      const [here, operator] = [await client(t, uri), await client(t, uri)]
      let reigns = 0
      const done = await here.election('reigns', { ttl: 300 }).run('me', async (guard, signal) => {
        reigns++
        if (reigns > 1) return guard.name
        assert.equal(await operator.breakLock('reigns', guard.token), true)
        // What is held keeps no process alive: this does until it is lost.
        await until(() => signal.aborted)
        assert.ok(signal.reason instanceof LockLost)
        throw signal.reason
      })
      assert.deepEqual([done, reigns], ['reigns', 2])
      await (await operator.lock('reigns').tryAcquire()).release()
    })

    test('leadership ends with its work, as that ends, or by a signal', async t => {
      const [here, operator] = [await client(t, uri), await client(t, uri)]
      const election = here.election('ends')
      const broken = new Error('the work failed')
      await assert.rejects(election.run('me', () => Promise.reject(broken)), broken)
      assert.equal(await election.run('me', async guard => (await guard.release(), 'resigned early')), 'resigned early')
      const stop = new AbortController()
      const leads = election.run('me', async (_, signal) => {
        stop.abort()
        await sleep(60_000, undefined, { signal })
      }, { signal: stop.signal })
      await assert.rejects(leads, { name: 'AbortError' })
      await operator.lock('ends').using(async () => {
        const stands = election.run('me', () => assert.fail('another leads'), { signal: AbortSignal.timeout(100) })
        await assert.rejects(stands, { name: 'TimeoutError' })
      })
      await assert.rejects(election.run('me', () => {}, { signal: 5 }), InvalidConfig)
    })
  })
}

test('a store that nobody serves is not well, at once', async t => {
  const here = await client(t, 'redis://127.0.0.1:1')
  const began = performance.now()
  await assert.rejects(here.ping(), Unavailable)
  assert.ok(performance.now() - began < 4_000)
})

test('leadership is not given up for a store that does not answer', async t => {
  const here = await client(t, 'redis://127.0.0.1:1', { storeTimeout: 100 })
  const stands = here.election('x').run('me', () => {}, { signal: AbortSignal.timeout(1_500) })
  await assert.rejects(stands, { name: 'TimeoutError' })
})

test('locks that are had at once, one after another, leave timers and sockets their turn', async () => {
  const text = `
    const lock = (await lw.connect('memory://tight')).lock('x')
    let fired = false
    setTimeout(() => (fired = true), 20)
    let locks = 0
    while (!fired && locks < 200_000) await lock.using(() => { locks++ })
    console.log(fired)
    process.exit()`
  const { stdout, stderr } = await program(text)
  assert.equal(stdout, 'true\n', stderr)
})
