// How processes end, and what a busy event loop does to what is held.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { bare, client, ENTRY, FULL, inMemory, program, shared, sleep } from './lib.mjs'

const fine = ({ status, signal, stdout, stderr }, said = '') => assert.deepEqual([status, signal, stdout, stderr], [0, null, said, ''])
/** For programs that lose a lock on purpose. */
const QUIET = `lw.onEvent('off')\n`

test('a held guard does not keep the process alive', async () => {
  for (const uri of [inMemory(), ...Object.values(shared())]) {
    fine(await program(`const client = await lw.connect(process.argv[1]); globalThis.held = await client.lock('x').acquire(); held.signal`, uri))
  }
})

test('a pending acquire does', async () => {
  const late = `${QUIET}const client = await lw.connect(process.argv[1])
    globalThis.held = await client.lock('x', { ttl: '300ms', renew: false }).acquire()
    client.lock('x').acquire().then(guard => { globalThis.next = guard; console.log('granted') })`
  for (const uri of [inMemory(), ...Object.values(shared())]) fine(await program(late, uri), 'granted\n')
})

test('importing and connecting keep nothing alive', async () => fine(await program(`await lw.connect('memory://')`)))

test('a restored process believes no guard made before', async () => {
  const restored = `${QUIET}const client = await lw.connect(process.argv[1])
    const guard = await client.lock('x', { ttl: 1_000 }).acquire()
    lw.restored()
    console.log(guard.isHeld, await guard.release().catch(error => error.code), (await client.lock('x').acquire()).isHeld)
    await client.close()`
  for (const uri of Object.values(shared())) fine(await program(restored, uri), 'false forked true\n')
})

test('an event loop that is blocked for three ttls loses no lock', async t => {
  for (const uri of Object.values(shared())) {
    const here = await client(t, uri)
    const guard = await here.lock('x', { ttl: 1000 }).acquire()
    const renewed = here.metrics().renewals
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3_000)
    assert.ok(guard.isHeld && guard.whyLost === undefined, uri)
    assert.ok(here.metrics().renewals >= renewed + 3, uri)
    assert.equal(await guard.release(), 'released')
  }
})

const RUNS = FULL ? 50 : 3

test('process.exit in the middle of anything crashes nothing and leaves nothing after the ttl', async t => {
  for (const uri of Object.values(shared())) {
    const middle = `const client = await lw.connect(process.argv[1])
      const lock = client.lock('x', { ttl: '500ms' })
      globalThis.held = await lock.acquire()
      held.signal
      for (let i = 0; i < 20; i++) lock.acquire().catch(() => {})
      for (let i = 0; i < 20; i++) client.lock('other' + i, { ttl: '500ms' }).acquire().then(guard => guard.release())
      client.inspect('x').catch(() => {})
      await sleep(Number(process.argv[2]))
      process.exit(7)`
    const runs = Array.from({ length: RUNS }, (_, i) => program(middle, uri, String(i % 3)))
    for (const { status, signal, stderr } of await Promise.all(runs)) assert.deepEqual([status, signal, stderr], [7, null, ''])
    const here = await client(t, uri)
    const asked = Date.now()
    await (await here.lock('x').acquire({ timeout: 20_000 })).release()
    assert.ok(Date.now() - asked < 10_000)
  }
})

test('an error that nobody catches ends the process as ever', async () => {
  const { status, signal, stderr } = await program(`const client = await lw.connect('memory://')
    globalThis.held = await client.lock('x').acquire()
    client.lock('x').acquire({ timeout: 10 })
    await sleep(10_000)`)
  assert.deepEqual([status, signal], [1, null])
  assert.match(stderr, /LockTimeout: timeout: acquire lock "x"/)
})

test('acquisitions that come and go keep the process alive each time', async () => {
  fine(await program(`${QUIET}const client = await lw.connect('memory://')
    for (let i = 0; i < 3; i++) {
      const lock = client.lock('x', { ttl: '100ms', renew: false })
      globalThis.held = await lock.acquire()
      const next = await lock.acquire()
      await next.release()
    }
    console.log('done')`), 'done\n')
})

test('the loop goes on while others wait', async t => {
  const here = await client(t, inMemory())
  const guard = await here.lock('x').acquire()
  const waiting = here.lock('x').acquire()
  let turns = 0
  for (const end = Date.now() + 100; Date.now() < end; turns++) await sleep(1)
  assert.ok(turns > 2)
  await guard.release()
  await (await waiting).release()
})

test('a listener that throws is an uncaught error, and keeps nobody from being told', async () => {
  fine(await program(`const told = new Promise(tell => process.on('uncaughtException', tell))
    const alive = setInterval(() => {}, 1_000)
    lw.onEvent('warn', () => { throw new Error('of the listener') })
    const client = await lw.connect('memory://')
    globalThis.held = await client.lock('x', { ttl: '50ms', renew: false }).acquire()
    const { signal } = held
    await (await client.lock('x').acquire()).release()
    console.log((await told).message, signal.aborted)
    clearInterval(alive)`), 'of the listener true\n')
})

test('fake timers of a test hold nothing back, whether they are there first or come later', async () => {
  const fake = `const real = globalThis.queueMicrotask
    for (const name of ['setTimeout', 'setInterval', 'setImmediate', 'queueMicrotask']) globalThis[name] = () => {}`
  const use = `const lock = client.lock('x')
    await (await lock.acquire()).release()
    const election = client.election('boss')
    const changed = election.changed(undefined, { every: 5 })
    const lead = await election.campaign('me')
    console.log((await changed).proclaims)
    await lead.release()
    globalThis.queueMicrotask = real
    await lock.using(() => {})`
  const connect = 'const client = await lw.connect(process.argv[1])'
  for (const uri of Object.values(shared())) {
    fine(await bare(`${fake}; const lw = await import(${ENTRY}); ${connect}; ${use}`, uri), 'me\n')
    fine(await program(`import timers from 'node:timers'; ${connect}; ${fake}; timers.setTimeout = () => {}; ${use}`, uri), 'me\n')
  }
})

test('a runtime that cannot read sockets by their descriptors has them read in turns', { skip: !('redis' in shared()) }, async () => {
  const { redis } = shared()
  fine(await bare(`globalThis.process = Object.create(process, { versions: { value: { ...process.versions, bun: '1.4.5' } } })
    const { connect } = await import(${ENTRY})
    const client = await connect(process.argv[1])
    let counter = 0
    const task = () => client.lock('x').using(async () => { const seen = counter; await null; counter = seen + 1 })
    await Promise.all(Array.from({ length: 20 }, task))
    console.log(counter)
    await client.close()`, redis), '20\n')
})
