// Whoever would wait for itself without end is told so, and nobody else is.

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'

import { Deadlock, LockTimeout, Owner } from '../dist/index.mjs'
import { client, inMemory, program, shared, sleep, stores } from './lib.mjs'

const isDeadlock = says => error => {
  assert.ok(error instanceof Deadlock, error)
  assert.match(error.message, says)
  return true
}

for (const [store, uri] of Object.entries(stores())) {
  describe(store, { concurrency: true }, () => {
    test('a lock in itself is a deadlock', async t => {
      const lock = (await client(t, uri)).lock('in-itself')
      const inner = async () => {
        await sleep(1)
        return lock.using(() => assert.fail('it is held'))
      }
      await assert.rejects(lock.using(() => inner()), isDeadlock(/^deadlock: acquire lock "in-itself" on .*the caller has held it itself for/))
      await lock.using(async () => {})
    })

    test('a write while reading is a deadlock, and a read while writing', async t => {
      const { read, write } = (await client(t, uri)).rwlock('read-then-write')
      await assert.rejects(read.using(() => write.acquire()), isDeadlock(/tryUpgrade|try_upgrade/))
      await assert.rejects(write.using(() => read.acquire()), isDeadlock(/itself/))
      await read.using(() => read.using(async () => {}))
      await write.using(async () => {})
    })

    test('a circle over two locks is broken by one of its waits', async t => {
      const both = await client(t, uri)
      const [a, b] = [both.lock('circle-a'), both.lock('circle-b')]
      let holding = 0
      const nested = (outer, inner) =>
        outer.using(async () => {
          holding++
          while (holding < 2) await sleep(1)
          return inner.using(() => 'both')
        })
      const ends = await Promise.allSettled([nested(a, b), nested(b, a)])
      const refused = ends.filter(end => end.status === 'rejected')
      assert.equal(refused.length, 1)
      isDeadlock(/the circle is "circle-[ab]", then "circle-[ab]"/)(refused[0].reason)
      assert.equal(ends.find(end => end.status === 'fulfilled').value, 'both')
    })
  })
}

test('several locks with one that is held already are a deadlock', async t => {
  const both = await client(t, inMemory())
  await assert.rejects(both.lock('b').using(() => both.multiLock(['a', 'b']).acquire()), isDeadlock(/itself/))
  await assert.rejects(both.multiLock(['a', 'b']).using(() => both.lock('b').acquire()), isDeadlock(/itself/))
  await both.multiLock(['a', 'b']).using(async () => {})
})

test('a job that wants the lock of its own is a deadlock', async t => {
  const own = await client(t, inMemory())
  const job = { look: () => undefined, make: () => own.lock('job').using(() => 1) }
  await assert.rejects(own.once('job', job).get(), isDeadlock(/itself/))
})

test('a wait that is awaited late is found then', async t => {
  const lock = (await client(t, inMemory())).lock('x')
  let isAwaited = false
  const late = lock.using(async () => {
    const waiting = lock.acquire()
    await sleep(2_500)
    isAwaited = true
    await waiting
  })
  await assert.rejects(late, isDeadlock(/itself/))
  assert.ok(isAwaited)
})

// Long enough for a wrong word to be said.
const A_WHILE = 3_500

describe('no deadlock', { concurrency: true }, () => {
  test('two side by side that want the same lock', async t => {
    const lock = (await client(t, inMemory())).lock('x')
    const work = () => lock.using(() => sleep(A_WHILE / 2, 'done'))
    assert.deepEqual(await Promise.all([work(), work(), work()]), ['done', 'done', 'done'])
  })

  test('the same under another lock', async t => {
    const both = await client(t, inMemory())
    const work = () => both.lock('inner').using(() => sleep(A_WHILE / 2, 'done'))
    const end = both.lock('outer').using(() => Promise.all([work(), work()]))
    assert.deepEqual(await end, ['done', 'done'])
  })

  test('a call that nobody awaits', async t => {
    const lock = (await client(t, inMemory())).lock('x')
    let later
    await lock.using(async () => {
      later = lock.using(() => 'after')
      await sleep(A_WHILE)
    })
    assert.equal(await later, 'after')
  })

  test('a call that its block awaits for a while only', async t => {
    const lock = (await client(t, inMemory())).lock('x')
    let later
    await lock.using(async () => {
      later = lock.using(() => 'after')
      await Promise.race([later, sleep(300)])
      await sleep(A_WHILE)
    })
    assert.equal(await later, 'after')
  })

  test('a call that another block awaits', async t => {
    const both = await client(t, inMemory())
    let stored
    const first = both.lock('a').using(async () => {
      stored = both.lock('a').using(() => 'after')
      await sleep(A_WHILE)
    })
    const second = both.lock('b').using(() => stored)
    assert.equal(await second, 'after')
    await first
  })

  test('a reentrant lock in itself', async t => {
    const lock = (await client(t, inMemory())).lock('x', { reentrant: true })
    assert.equal(await lock.using(() => lock.using(({ depth }) => depth)), 2)
    const owner = new Owner()
    const held = await owner.run(() => lock.acquire())
    const work = () => owner.run(() => lock.using(() => sleep(10)))
    await Promise.all([work(), work()])
    await held.release()
  })

  test('a hold that ends by itself', async t => {
    const lock = (await client(t, inMemory())).lock('x', { ttl: 2_500, renew: false })
    await assert.rejects(lock.using(async () => await (await lock.acquire()).release()), { code: 'lost' })
  })

  test('a block that gave its lock back', async t => {
    const lock = (await client(t, inMemory())).lock('x')
    await lock.using(async guard => {
      await guard.release()
      await lock.using(() => sleep(A_WHILE))
    })
  })

  test('a wait that a signal ends', async t => {
    const lock = (await client(t, inMemory())).lock('x')
    const waits = lock.using(() => lock.acquire({ signal: AbortSignal.timeout(A_WHILE) }))
    await assert.rejects(waits, { name: 'TimeoutError' })
  })

  test('permits of a semaphore', async t => {
    const permits = (await client(t, inMemory())).semaphore('x', 1)
    await permits.using(async guard => {
      setTimeout(() => guard.release(), A_WHILE)
      await permits.using(async () => {})
    })
  })
})

test('whoever waits with a limit is told that it is itself in the way', async t => {
  for (const uri of Object.values(shared())) {
    const both = await client(t, uri)
    const lock = both.lock('limit')
    const own = /held by this process for .*the caller's own: an outer async context of it holds the lock/
    const told = says => error => {
      assert.ok(error instanceof LockTimeout, error)
      assert.match(error.message, says)
      return true
    }
    await assert.rejects(lock.using(() => lock.acquire({ timeout: 200 })), told(own))
    await assert.rejects(lock.using(() => Promise.all([lock.using(() => {}, { timeout: 200 })])), told(own))
    const { read, write } = both.rwlock('limit-of-both')
    await assert.rejects(read.using(() => write.acquire({ timeout: 200 })), told(/the caller's own/))
    // Side by side, neither is in the other.
    const work = () => lock.using(() => sleep(600), { timeout: 200 })
    const [, second] = await Promise.allSettled([work(), work()])
    told(/held by this process for/)(second.reason)
    assert.doesNotMatch(second.reason.message, /the caller's own/)
  }
})

test('a wait that only another promise could end is warned of', async () => {
  const text = `
    const lock = (await lw.connect('memory://warned')).lock('x')
    process.on('warning', ({ code, message }) => { console.log(code, message); process.exit() })
    await lock.using(() => Promise.all([lock.using(() => {}), lock.using(() => {})]))`
  const { stdout, status } = await program(text)
  assert.equal(status, 0)
  assert.match(stdout, /^lockwright::deadlock deadlock: acquire lock "x".*only if another of the promises/)
})

test('an error that cannot be looked at hurts nobody', async () => {
  const text = `
    const lock = (await lw.connect('memory://frozen')).lock('x')
    Object.freeze(Error)
    let ended = false
    const waits = lock.using(async () => { setTimeout(() => (ended = true), 2500); while (!ended) await sleep(50); return 'done' })
    await sleep(1)
    await Promise.all([waits, lock.using(() => {})]).then(([done]) => console.log(done))
    process.exit()`
  const { stdout, stderr } = await program(text)
  assert.equal(stdout, 'done\n', stderr)
})
