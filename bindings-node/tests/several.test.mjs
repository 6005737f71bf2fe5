// Several locks together, one of several, and a lock that moves.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect } from 'node:util'

import { kit, MultiGuard, MultiLock, Segment, Striped } from '../dist/index.mjs'
import { atOnce } from './at_once.mjs'
import { client, program, shared, sleep, stores } from './lib.mjs'

for (const [store, uri] of Object.entries(stores())) {
  test(`several locks of ${store} are held together or not at all`, async t => {
    const here = await client(t, uri)
    const both = here.multiLock(['b', 'a', 'b'], { ttl: 5_000 })
    assert.ok(both instanceof MultiLock)
    assert.deepEqual(both.names, ['a', 'b'])
    const guard = await both.acquire()
    assert.ok(guard instanceof MultiGuard && guard.isHeld && guard.remaining() > 3_000)
    assert.deepEqual([...guard.tokens.keys()], ['a', 'b'])
    assert.equal(guard.tokens.get('b'), guard.guards[1].token)
    assert.equal(await here.lock('b').tryAcquire(), null)
    await guard.extend(60_000)
    assert.ok(guard.remaining() > 50_000)
    assert.equal(await guard.release(), 'released')
    const taken = await here.lock('b').acquire()
    assert.equal(await both.tryAcquire(), null)
    await assert.rejects(both.acquire({ timeout: 30 }), { code: 'timeout' })
    await assert.rejects(both.acquire({ signal: AbortSignal.timeout(30) }), { name: 'TimeoutError' })
    await taken.release()
    assert.equal(await both.using(held => held.guards.length), 2)
    await assert.rejects(both.using(async held => {
      const { signal } = held
      await here.breakLock('a', held.tokens.get('a'))
      assert.equal(held.whyLost === undefined || signal.aborted, true)
    }), { code: 'lost', lock: 'a' })
    assert.notEqual(await both.tryAcquire(), null)
  })

  test(`a free segment of a lock of ${store} is found, until all are sold out`, async t => {
    const here = await client(t, uri)
    const sale = here.striped('sale', 3, { ttl: 5_000 })
    assert.ok(sale instanceof Striped && sale.count === 3)
    const taken = await Promise.all([sale.any(), sale.any(), sale.any()])
    assert.ok(taken.every(segment => segment instanceof Segment))
    assert.deepEqual(taken.map(({ index }) => index).sort(), [0, 1, 2])
    await assert.rejects(sale.any({ timeout: 30 }), { code: 'timeout' })
    const [first, second, third] = taken
    assert.equal(await first.soldOut(), 'released')
    assert.equal(await second.release(), 'released')
    const again = await sale.any()
    assert.equal(again.index, second.index)
    await again.soldOut()
    await third.soldOut()
    assert.equal(await sale.any(), null)
    sale.restock()
    assert.notEqual(await sale.any(), null)
    assert.equal(sale.forKey('customer-7').name, `sale#${sale.indexFor('customer-7')}`)
  })

  test(`segments of a lock lie with ${store} and another store`, async t => {
    const [here, there] = [await client(t, uri), await client(t, stores().memory)]
    const sale = here.striped('sale', 4, { ttl: 5_000 }).across(there)
    const taken = []
    for (let i = 0; i < 4; i++) taken.push(await sale.any())
    taken.sort((a, b) => a.index - b.index)
    const held = async (where, index) => (await where.inspect(`sale#${index}`)).holder !== undefined
    assert.deepEqual(await Promise.all([0, 1, 2, 3].map(index => held(here, index))), [true, false, true, false])
    assert.deepEqual(await Promise.all([0, 1, 2, 3].map(index => held(there, index))), [false, true, false, true])
    assert.ok(inspect(sale).endsWith(`on ${here.address}, ${there.address}>`), inspect(sale))
    await there.breakLock('sale#1', taken[1].guard.token)
    await assert.rejects(taken[1].guard.extend(1_000), { code: 'lost' })
    assert.equal(await sale.segment(1).using(() => 'had again'), 'had again')
    for (const index of [0, 2, 3]) assert.equal(await taken[index].release(), 'released')
    assert.throws(() => sale.across(there, here, there), { code: 'invalid_config', message: /4 segments cannot be at 5 stores/ })
    for (const wrong of [uri, {}, undefined]) assert.throws(() => sale.across(wrong), { code: 'invalid_config' })
  })

  test(`a held lock of ${store} moves by a secret, once`, async t => {
    const here = await client(t, uri)
    const guard = await here.lock('x').acquire()
    const secret = await guard.export(30_000)
    assert.deepEqual([guard.isHeld, guard.whyLost], [false, undefined])
    await assert.rejects(guard.release(), { code: 'not_owned', message: /this guard was exported/ })
    assert.equal(await here.lock('x').tryAcquire(), null)
    const next = await here.resume(secret)
    assert.ok(next.token > guard.token && next.name === 'x')
    await assert.rejects(here.resume(secret), { code: 'not_owned' })
    const again = await here.lock('x').resume(await next.export(30_000))
    assert.equal(await again.release(), 'released')
    assert.doesNotMatch(inspect(guard) + inspect(here), new RegExp(secret))
  })
}

test('what several locks cannot be is refused, and what cannot be exported stays held', async t => {
  const here = await client(t, stores().memory)
  for (const names of [[], [''], [5], ['a\0'], 'ab', null, 7]) assert.throws(() => here.multiLock(names), { code: 'invalid_config' }, inspect(names))
  for (const segments of [0, 257, 1.5, -1, NaN, '3']) assert.throws(() => here.striped('x', segments), { code: 'invalid_config' })
  assert.throws(() => here.multiLock(['a'], { reentrant: true }), { code: 'unsupported' })
  for (const index of [2, -1, -0.5, 0.5, NaN, Infinity, 2 ** 32 + 1, '1', null, undefined]) {
    assert.throws(() => here.striped('a', 2).segment(index), { code: 'invalid_config' }, inspect(index))
  }
  for (const secret of ['', 'secret', 7]) await assert.rejects(here.resume(secret), { code: 'invalid_config' })
  const guard = await here.lock('x').acquire()
  await assert.rejects(guard.export(5), { code: 'invalid_config' })
  await assert.rejects(guard.export('long'), { code: 'invalid_config' })
  assert.ok(guard.isHeld)
  assert.equal(await guard.release(), 'released')
  const lock = here.lock('y', { reentrant: true })
  await lock.using(async outer => {
    const inner = await lock.acquire()
    await assert.rejects(inner.export(30_000), { code: 'unsupported' })
    assert.ok(outer.isHeld && inner.isHeld)
    assert.equal(await inner.release(), 'kept')
  })
})

test('that this process has one of several locks says nothing of the store', async () => {
  for (const uri of Object.values(shared())) {
    const text = `
      const client = await lw.connect(process.argv[1])
      const held = await client.lock('a').acquire()
      console.log(await client.multiLock(['a', 'b']).tryAcquire())
      await client.multiLock(['a', 'b']).acquire({ signal: AbortSignal.timeout(20) }).catch(error => console.log(error.name))
      const gone = new AbortController()
      const waits = Array.from({ length: 50 }, (_, i) => client.multiLock(['c' + i, 'd' + i]).acquire({ signal: gone.signal }).then(guard => guard.release(), () => {}))
      await null
      await null
      gone.abort()
      await Promise.all(waits)
      await held.release()
      await client.close()`
    const { stdout, stderr } = await program(text, uri)
    assert.deepEqual([stdout, stderr], ['null\nTimeoutError\n', ''])
  }
})

test('another process takes a lock over', async t => {
  for (const uri of Object.values(shared())) {
    const here = await client(t, uri)
    const secret = await (await here.lock('x').acquire()).export(30_000)
    const text = `const client = await lw.connect(process.argv[1]); console.log(await (await client.resume(process.argv[2])).release())`
    const { stdout, stderr, status } = await program(text, uri, secret)
    assert.deepEqual([stdout, stderr, status], ['released\n', '', 0])
  }
})

test('of many callers one rebuilds, and the others wait or go on with what is stale', async t => {
  for (const uri of Object.values(stores())) {
    const here = await client(t, uri)
    let [cache, made] = [undefined, 0]
    const job = {
      look: async () => cache,
      make: async token => {
        made++
        assert.equal(typeof token, 'bigint')
        await sleep(20)
        cache = { value: made, fresh: true }
        return made
      },
    }
    const once = here.once('cache:page', job, { ttl: 5_000 })
    assert.deepEqual(new Set(await Promise.all(Array.from({ length: 20 }, () => once.get()))), new Set([1]))
    cache.fresh = false
    const [first, ...rest] = [once.get(), ...Array.from({ length: 20 }, () => once.get())]
    assert.deepEqual(new Set(await Promise.all(rest)), new Set([1]))
    assert.deepEqual([await first, made], [2, 2])
    cache = undefined
    const fails = here.once('cache:page', { ...job, make: () => { throw new RangeError('mine') } })
    await assert.rejects(fails.get(), RangeError)
    assert.equal(await here.once('cache:page', { ...job, waits: true }).get({ timeout: 5_000 }), 3)
  }
  const here = await client(t, stores().memory)
  for (const job of [{ look() {}, make() {}, wait: true }, { look() {} }, {}, undefined]) assert.throws(() => here.once('x', job), { code: 'invalid_config' })
})

test('one of many leads, and others see who', async t => {
  for (const uri of Object.values(stores())) {
    const here = await client(t, uri)
    const election = here.election('scheduler', { ttl: 5_000 })
    assert.equal(await election.leader(), undefined)
    const watching = election.changed(undefined, { every: 5 })
    const first = await election.campaign('node-1')
    const seen = await watching
    assert.deepEqual([seen.proclaims, seen.pid, seen.language], ['node-1', process.pid, 'node'])
    const second = election.campaign('node-2')
    await assert.rejects(election.changed(seen.token, { every: 5, signal: AbortSignal.timeout(30) }), { name: 'TimeoutError' })
    await first.release()
    await (await second).release()
    assert.equal(await election.changed(seen.token, { every: 5 }), undefined)
    for (const options of [{ every: NaN }, { every: 0 }, { every: -1 }, { every: Infinity }, { signal: { aborted: false } }]) {
      await assert.rejects(election.changed(1n, options), { code: 'invalid_config' })
    }
  }
})

test('of several changes of one guard at once none ends half', async t => {
  for (const uri of Object.values(stores())) await atOnce(await client(t, uri))
})

test('the kit refuses tokens that come too late', () => {
  const fence = new kit.Fence()
  fence.admit({ token: 7n })
  fence.admit({ token: 7n })
  assert.throws(() => fence.admit({ token: 6n }), kit.Stale)
  fence.admit({ token: 1n, epoch: 1n })
  assert.throws(() => fence.admit({ token: 8n }), { name: 'Stale', message: /token 8 is stale/ })
  assert.deepEqual(fence.highest, { token: 1n, epoch: 1n })
  assert.deepEqual(kit.keyRange('orders:42'), ['orders:42/', 'orders:420'])
  assert.equal(kit.advisoryKey('zürich'), -8876762214372858569n)
  assert.equal(kit.sqlCondition('fence'), '(fence IS NULL OR fence <= ?)')
  assert.equal(kit.HEADER, 'If-Fence')
  assert.match(kit.SET_SCRIPT, /KEYS\[2\]/)
  assert.equal(kit.headerValue({ token: 42n, epoch: 1n }), '1.42')
  assert.deepEqual(kit.readHeader(kit.headerValue({ token: 1n << 60n })), { epoch: 0n, token: 1n << 60n })
  assert.equal(kit.readHeader('none'), undefined)
})

test('readers share a lock that a writer has alone, and change their part', async t => {
  for (const uri of Object.values(stores())) {
    const here = await client(t, uri)
    const both = here.rwlock('catalog', { ttl: 5_000 })
    const [one, other] = [await both.read.acquire(), await both.read.acquire()]
    assert.equal(await both.write.tryAcquire(), null)
    const { shared: sharing } = await here.inspect('catalog')
    assert.deepEqual([sharing.primitive, sharing.holders.map(({ holds }) => holds)], ['rwlock', ['read', 'read']])
    assert.equal(await one.tryUpgrade(), false)
    await other.release()
    const before = one.token
    assert.equal(await one.tryUpgrade(), true)
    assert.ok(one.token > before)
    assert.equal(await both.read.tryAcquire(), null)
    await one.downgrade()
    await (await both.read.acquire()).release()
    assert.equal(await one.release(), 'released')
    await both.write.using(guard => assert.ok(guard.isHeld))
  }
})

test('a semaphore has so many permits, and may be resized', async t => {
  for (const uri of Object.values(stores())) {
    const here = await client(t, uri)
    const [one, two] = [here.semaphore('pool', 3, { ttl: 5_000 }), here.semaphore('pool', 3, { take: 2 })]
    const guards = [await one.acquire(), await two.acquire()]
    assert.equal(await one.tryAcquire(), null)
    await one.resize(4)
    guards.push(await one.acquire())
    assert.equal(await two.tryAcquire(), null)
    for (const guard of guards) assert.equal(await guard.release(), 'released')
    assert.throws(() => here.semaphore('pool', 0), { code: 'invalid_config' })
    assert.throws(() => here.semaphore('pool', 1.5), { code: 'invalid_config' })
    assert.throws(() => here.semaphore('pool', 3, { take: '2' }), { code: 'invalid_config' })
    assert.throws(() => here.semaphore('pool', 3, { reentrant: true }))
  }
})

for (const [store, uri] of Object.entries(stores())) {
  test(`several locks of ${store} are given back in one write, all of them, whatever fails`, async t => {
    const here = await client(t, uri)
    const names = ['one', 'two', 'three', 'four']
    const many = here.multiLock(names)
    const guard = await many.acquire()
    const before = here.metrics()
    assert.equal(await guard.release(), 'released')
    const after = here.metrics()
    if (store === 'redis') assert.deepEqual([after.requests - before.requests, after.roundTrips - before.roundTrips], [4, 1])
    await assert.rejects(guard.release(), ({ code, lock, cause }) => {
      assert.deepEqual([code, lock], ['not_owned', many.names[0]])
      assert.ok(cause instanceof AggregateError)
      assert.deepEqual(cause.errors.map(({ code, lock }) => [code, lock]), many.names.slice(1).map(name => ['not_owned', name]))
      return true
    })
    const again = await many.acquire()
    await again.guards[1].release()
    await assert.rejects(again.release(), ({ code, lock, cause }) => code === 'not_owned' && lock === many.names[1] && cause === undefined)
    for (const name of names) assert.equal(await (await here.lock(name).tryAcquire()).release(), 'released')
    await many.using(({ guards }) => guards[0].release())
    await assert.rejects(many.using(async held => {
      for (const name of ['one', 'two']) await here.breakLock(name, held.tokens.get(name))
    }), ({ code, cause }) => code === 'lost' && cause instanceof AggregateError && cause.errors[0].code === 'lost')
    await (await many.tryAcquire()).release()
  })
}
