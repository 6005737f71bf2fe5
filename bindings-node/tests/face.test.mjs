// What the face is like: names, types, errors, blocks.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'

import * as lockwright from '../dist/index.mjs'
import { native } from '../dist/native.js'
import { CLASSES } from '../dist/errors.js'
import { client, inMemory, program, sleep, stores } from './lib.mjs'

const { Client, Guard, Lock, LockError, LockLost, LockTimeout, NotOwned, Owner } = lockwright

for (const [store, uri] of Object.entries(stores())) {
  test(`a lock of ${store} is acquired, tried, inspected, extended and released`, async t => {
    const here = await client(t, uri)
    const lock = here.lock('orders:42', { ttl: 5_000, label: 'checkout' })
    const guard = await lock.acquire()
    assert.ok(guard instanceof Guard && lock instanceof Lock && here instanceof Client)
    assert.equal(typeof guard.token, 'bigint')
    assert.ok(guard.isHeld && guard.remaining() > 3_000 && guard.remaining() <= 5_000)
    assert.equal(guard.whyLost, undefined)
    assert.equal(await lock.tryAcquire(), null)
    await assert.rejects(lock.acquire({ timeout: 30 }), { name: 'LockTimeout', code: 'timeout', retryable: true, lock: 'orders:42' })
    const { holder, waiters, layout } = await here.inspect('orders:42')
    assert.deepEqual([holder.label, holder.language, holder.pid, waiters, layout], ['checkout', 'node', process.pid, 0, 'native'])
    assert.ok(holder.firstToken <= guard.token && guard.token <= holder.lastToken)
    await guard.extend(60_000)
    assert.ok(guard.remaining() > 50_000)
    assert.deepEqual(await here.list(), ['orders:42'])
    assert.equal(await guard.release(), 'released')
    assert.deepEqual([guard.isHeld, guard.remaining()], [false, 0])
    const next = await lock.tryAcquire()
    assert.ok(next.token > guard.token)
    assert.equal(await here.breakLock('orders:42', next.token + 1_000n), false)
    assert.equal(await lock.breakLock(next.token), true)
    await assert.rejects(async () => next[Symbol.asyncDispose](), { code: 'lost' })
  })

  test(`who waits in line for a lock of ${store} is told how many are ahead`, async t => {
    const [here, there] = [await client(t, uri), await client(t, uri)]
    const guard = await here.lock('x').acquire()
    const waiting = [0, 1].map(() => there.lock('x', { fair: true }).using(async () => {}))
    while ((await there.inspect('x')).ahead.join() !== '0,1') await sleep(2)
    assert.deepEqual((await here.inspect('x')).ahead, [])
    await guard.release()
    await Promise.all(waiting)
  })
}

describe('errors', () => {
  test('have the codes that the core has', () => {
    const ours = Object.values(CLASSES).map(Class => new Class('')).map(({ code, retryable }) => ({ code, retryable }))
    assert.deepEqual(ours, native.manifest().errors.map(({ code, retryable }) => ({ code, retryable })))
    for (const [code, Class] of Object.entries(CLASSES)) assert.equal(new Class('').code, code)
  })

  test('of a loss have the reasons that the core has', async t => {
    const types = readFileSync(fileURLToPath(new URL('../dist/records.d.ts', import.meta.url)), 'utf8')
    const [line] = types.match(/type LossReason = .*/)
    for (const reason of Object.keys((await client(t, inMemory())).metrics().lost)) assert.ok(line.includes(`'${reason}'`), reason)
  })

  test('say what was done, to what lock, where, and from where it was called', async t => {
    const uri = inMemory()
    const here = await client(t, uri)
    const guard = await here.lock('x').acquire()
    const error = await here.lock('x').acquire({ timeout: 0 }).catch(error => error)
    assert.ok(error instanceof LockTimeout && error instanceof LockError && error instanceof Error)
    assert.deepEqual([error.operation, error.lock, error.store], ['acquire', 'x', uri])
    assert.match(error.stack, /face\.test\.mjs/)
    await guard.release()
    await assert.rejects(guard.release(), NotOwned)
    await assert.rejects(guard.release(), { lock: 'x', store: uri, operation: 'release' })
    await assert.rejects(guard.extend(1_000), NotOwned)
  })

  test('come of whatever cannot be honoured', async t => {
    const here = await client(t, inMemory())
    const invalid = { name: 'InvalidConfig', code: 'invalid_config' }
    for (const name of ['', 'a\0b', 'a\uD800', 42, undefined, null, {}]) assert.throws(() => here.lock(name), invalid, inspect(name))
    const wrong = [
      { ttl: '5' }, { ttl: '5 s' }, { ttl: '5d' }, { ttl: '' }, { ttl: '-1s' }, { ttl: NaN }, { ttl: 19 }, { ttl: -1 }, { ttl: 10n }, { timeout: -1 }, { renew: 1 }, { fair: 'yes' }, { tll: 5 },
      { label: 'a\uDFFF' }, { layout: null }, { retry: 5 }, { retry: { min: 0 } }, { retry: { most: 5 } }, { constructor: 1 }, 'ttl', 5,
    ]
    for (const options of wrong) assert.throws(() => here.lock('x', options), invalid, inspect(options))
    for (const options of [{ timeout: '1' }, { timeout: NaN }, { timeout: -1 }, { signal: {} }, { signal: 5 }, { ttl: 5 }, AbortSignal.abort(), new Map([['timeout', 0]]), [0]]) {
      await assert.rejects(here.lock('x').acquire(options), invalid, inspect(options))
    }
    for (const token of [1, '1', -1n, 1n << 64n]) await assert.rejects(here.breakLock('x', token), invalid, inspect(token))
    const addresses = [[42], [''], ['nonsense'], ['memory://x', { timeout: 5 }], ['memory://x', { credentials: 'me' }], ['memory://x', { prefix: '\uD800' }]]
    for (const words of addresses) await assert.rejects(lockwright.connect(...words), invalid, inspect(words))
    await assert.rejects(here.inspect(7), invalid)
    assert.throws(() => here.require({ failover: true }), invalid)
    await assert.rejects(lockwright.connect('mysql://x'), invalid)
  })

  test('name the option, and how to write it', t => client(t, inMemory()).then(here => {
    const said = options => {
      try {
        here.lock('x', options)
      } catch (error) {
        return error.message
      }
    }
    assert.match(said({ ttl: '10' }), /ttl must be .*"10s".*it is "10"/)
    assert.match(said({ timeout: '5 parsecs' }), /timeout must be .*it is "5 parsecs"/)
    assert.match(said({ maxHold: true }), /maxHold must be a number of milliseconds/)
    assert.match(said({ retry: { min: '1x' } }), /retry\.min must be /)
    assert.match(said({ retry: { most: 1 } }), /there is no option "retry\.most"/)
  }))

  test('quote no more than a line, and no secret', async t => {
    const here = await client(t, 'redis://me:hunter2@127.0.0.1:1', { storeTimeout: 50 })
    const error = await here.lock('x').acquire().catch(error => error)
    assert.equal(error.code, 'unavailable')
    for (const shown of [inspect(here), inspect(here.lock('x')), inspect(error), here.address]) assert.doesNotMatch(shown, /hunter2/)
  })
})

test('times may be texts with their unit', async t => {
  const here = await client(t, inMemory(), { storeTimeout: '2s' })
  const lock = here.lock('x', { ttl: '1.5m', timeout: '20ms', maxHold: '1h', retry: { min: '1ms', max: '20ms' } })
  const guard = await lock.acquire({ timeout: '5s' })
  assert.ok(guard.remaining() > 60_000 && guard.remaining() <= 90_000)
  await assert.rejects(lock.acquire(), { code: 'timeout', message: /within 20ms/ })
  await assert.rejects(lock.acquire({ timeout: '10ms' }), { message: /within 10ms/ })
  await guard.extend('2h')
  assert.ok(guard.remaining() > 3_600_000)
  await here.resume(await guard.export('5s'))
  assert.equal(await here.latch('open', 2, { idle: '48h' }).wait({ timeout: '0s' }), false)
  assert.equal(await here.barrier('step', 2, { ttl: '10s' }).wait({ timeout: '10ms' }), null)
})

test('a ttl that may have been meant in another unit is warned of, once in a process', async () => {
  const uses = `const client = await lw.connect('memory://')
    client.lock('x', { ttl: '20ms' })
    client.lock('x', { ttl: 1_000 })
    client.lock('x', { ttl: 3_600_000 })
    client.lock('x', { timeout: 2 })
    await sleep(5)
    console.log('so far')`
  for (const [ttl, said] of [[30, /the ttl 30 is .* less than a second\. Write "30s" .* "30ms"/], [10_000_000, /more than an hour\. Write "10000ms", or "10000000ms"/]]) {
    const { stdout, stderr, status } = await program(`process.on('warning', ({ name, code, message }) => console.log(name, code, message))
      ${uses}
      client.lock('x', { ttl: ${ttl} })
      client.lock('x', { ttl: ${ttl} })
      await (await client.lock('x').acquire()).extend(${ttl})
      await sleep(5)`)
    assert.equal(status, 0, stderr)
    const [before, warning, ...more] = stdout.trim().split('\n')
    assert.deepEqual([before, more], ['so far', []])
    assert.match(warning, /^LockwrightWarning lockwright::ttl /)
    assert.match(warning, said)
  }
})

test('what only the library makes says where it comes from', () => {
  const made = ['Client', 'Lock', 'RwLock', 'Semaphore', 'Guard', 'MultiLock', 'MultiGuard', 'Striped', 'Segment', 'Once', 'Election', 'Latch', 'Barrier', 'Histogram']
  for (const name of made) {
    const error = { name: 'TypeError', code: 'ERR_ILLEGAL_CONSTRUCTOR', message: new RegExp(`^a ${name} is not made by new ${name}\\(\\): it comes from `) }
    for (const words of [[], ['x'], [Symbol('lockwright'), 'x']]) assert.throws(() => new lockwright[name](...words), error)
  }
})

test('whatever has a token can be printed as JSON, the token as a text', async t => {
  const here = await client(t, inMemory())
  const json = value => JSON.parse(JSON.stringify(value))
  const guard = await here.lock('x').acquire()
  const token = String(guard.token)
  assert.deepEqual(json({ guard }).guard, { name: 'x', token, epoch: '0', depth: 1, isHeld: true })
  const seen = await here.inspect('x')
  assert.deepEqual([json(seen).holder.lastToken, json(seen.holder).firstToken], [String(seen.holder.lastToken), String(seen.holder.firstToken)])
  assert.deepEqual(Object.keys(json(await here.lock('x').inspect())), Object.keys(json(seen)))
  const both = await here.multiLock(['a', 'b']).acquire()
  assert.deepEqual(json(both).map(({ name }) => name), ['a', 'b'])
  const segment = await here.striped('sale', 1).any()
  assert.deepEqual([json(segment).index, json(segment).token], [0, String(segment.token)])
  await here.semaphore('some', 3).acquire()
  assert.match(json(await here.inspect('some')).shared.holders[0].holder.firstToken, /^\d+$/)
  await here.election('boss').campaign('me')
  assert.match(json(await here.election('boss').leader()).token, /^\d+$/)
  assert.deepEqual(json(await here.barrier('alone', 1).wait()), { index: 0, generation: '1' })
  const metrics = json(here.metrics())
  assert.deepEqual(Object.keys(metrics.wait), ['count', 'sum', 'max', 'p50', 'p90', 'p99'])
  assert.equal(metrics.wait.count, metrics.acquired)
  assert.match(inspect(here.metrics().wait), /^<Histogram of \d+: p50 [\d.]+ ms, p99 [\d.]+ ms, max [\d.]+ ms>$/)
})

describe('blocks', () => {
  test('give the lock back however they end', async t => {
    const lock = (await client(t, inMemory())).lock('x')
    assert.equal(await lock.using(guard => `${guard.name} ${guard.isHeld}`), 'x true')
    await assert.rejects(lock.using(async () => { throw new RangeError('mine') }), RangeError)
    await lock.using(async guard => { await guard.release() })
    assert.notEqual(await lock.tryAcquire(), null)
  })

  test('raise a loss, unless they have an error of their own', async t => {
    const here = await client(t, inMemory())
    const lock = here.lock('x')
    const broken = async guard => { await here.breakLock('x', guard.token); await sleep(1) }
    await assert.rejects(lock.using(broken), LockLost)
    await assert.rejects(lock.using(async guard => { await broken(guard); throw new RangeError('mine') }), RangeError)
  })

  test('are told of a loss by a signal, whose reason is the error', async t => {
    const here = await client(t, inMemory())
    const kept = setInterval(() => {}, 1_000)
    t.after(() => clearInterval(kept))
    const guard = await here.lock('x', { ttl: 300, renew: false }).acquire()
    const { signal } = guard
    assert.equal(guard.signal, signal)
    assert.equal(signal.aborted, false)
    await new Promise(lost => signal.addEventListener('abort', lost))
    assert.ok(signal.reason instanceof LockLost)
    assert.match(signal.reason.message, /renewal is off/)
    assert.equal(guard.whyLost, 'not_renewed')
    await assert.rejects(async () => guard[Symbol.asyncDispose](), error => error === signal.reason)
    const late = await here.lock('x', { ttl: 50, renew: false }).acquire()
    await sleep(80)
    assert.equal(late.signal.aborted, true)
    assert.equal(await late.release(), 'expired')
    assert.equal(late.whyLost, 'not_renewed')
  })

  test('hear nothing of a lock that they gave back', async t => {
    const guard = await (await client(t, inMemory())).lock('x', { ttl: 400, renew: false }).acquire()
    const { signal } = guard
    await guard.release()
    await sleep(450)
    assert.equal(signal.aborted, false)
  })
})

describe('a reentrant lock', () => {
  test('is acquired again by whatever its owner begins', async t => {
    const lock = (await client(t, inMemory())).lock('x', { reentrant: true })
    await lock.using(async outer => {
      await sleep(1)
      await lock.using(inner => assert.deepEqual([outer.depth, inner.depth], [1, 2]))
      const again = await lock.acquire()
      assert.equal(await again.release(), 'kept')
    })
  })

  test('keeps owners apart', async t => {
    const lock = (await client(t, inMemory())).lock('x', { reentrant: true })
    const [one, other] = [new Owner(), new Owner()]
    const guard = await one.run(() => lock.acquire())
    assert.equal(await other.run(() => lock.tryAcquire()), null)
    const again = await one.run(() => lock.tryAcquire())
    assert.equal(again.depth, 2)
    assert.deepEqual([await again.release(), await guard.release()], ['kept', 'released'])
    let inside = 0
    const work = () => lock.using(async () => {
      assert.equal(++inside, 1)
      await sleep(1)
      inside--
    })
    await Promise.all([work(), other.run(work), work()])
  })

  test('asks for an owner where there is none', async t => {
    const lock = (await client(t, inMemory())).lock('x', { reentrant: true })
    await assert.rejects(lock.acquire(), { code: 'invalid_config', message: /owner/ })
    assert.equal(Owner.current, undefined)
  })
})

test('a client promises, counts and closes', async t => {
  const uri = inMemory()
  const here = await lockwright.connect(uri)
  assert.equal(here.guarantees().token, 'while the process lives')
  assert.equal(here.lock('x').guarantees().fair, true)
  here.require({ fenced: true, fair: true })
  here.require({ rwlock: true, semaphore: true, latch: true, barrier: true, fenced: true, fair: true, push: true })
  assert.throws(() => here.require({ rwlock: true, reentrant: true }), { code: 'unsupported', message: /reentrant of a rwlock/ })
  assert.throws(() => here.require({ shared: true }), { code: 'unsupported', message: /shared/ })
  await here.lock('x').using(() => {})
  const { acquired, held, lost, wait } = here.metrics()
  assert.deepEqual([acquired, held, lost.expired, wait.count], [1, 0, 0, 1])
  assert.ok(wait.max > 0 && wait.sum > 0 && wait.quantile(0.5) > 0 && wait.atMost(60_000) === 1 && wait.buckets().length === 1)
  assert.throws(() => wait.quantile(2), { code: 'invalid_config' })
  const guard = await here.lock('x').acquire()
  const waiting = here.lock('x').acquire()
  await Promise.all([assert.rejects(waiting, { code: 'closed' }), here.close()])
    assert.equal(guard.whyLost, 'closed')
  await assert.rejects(here.inspect('x'), { code: 'closed' })
  assert.throws(() => here.lock('x'), { code: 'closed' })
  const next = await client(t, uri)
  assert.notEqual(await next.lock('x').tryAcquire(), null)
})

test('`import` and `require` give the same library', () => {
  const required = createRequire(import.meta.url)('../dist/index.js')
  assert.deepEqual(Object.keys(lockwright), Object.keys(required).sort())
  for (const name of Object.keys(lockwright)) assert.equal(lockwright[name], required[name], name)
})
