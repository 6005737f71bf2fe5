// The package on a real Redis, beside the native Node package.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createConnection, createServer } from 'node:net'
import { after, before, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'

import { connect as native } from '../../../bindings-node/dist/index.mjs'
import { aLossThatTheEventLoopHadNoTimeToTell, anExportThatFindsItLost } from '../../../bindings-node/tests/failing_guards.mjs'
import { atOnce } from '../../../bindings-node/tests/at_once.mjs'
import { allRefused, rows } from '../../../bindings-node/tests/wrong_arguments.mjs'
import * as wasm from '../dist/index.js'

const REDIS = process.env.LOCKWRIGHT_TEST_REDIS
const PREFIX = `wasm-npm-${process.pid}:`
const ADDRESS = `${REDIS}?prefix=${PREFIX}`

let client, other

before(async () => {
  client = await wasm.connect(ADDRESS)
  other = await native(ADDRESS)
})

after(async () => {
  await client.close()
  await other.close()
})

async function until(isSo) {
  for (let left = 2_000; !(await isSo()); left--) {
    assert.ok(left > 0, 'it did not happen')
    await pause(5)
  }
}

/** The server's answer to a command, without any library. */
async function redis(...words) {
  const { hostname, port } = new URL(REDIS)
  const socket = createConnection(Number(port), hostname)
  socket.write(`*${words.length}\r\n${words.map(word => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join('')}`)
  const [answer] = await once(socket, 'data')
  socket.destroy()
  return answer.toString()
}

test('what a method cannot use it refuses by name, at once, and leaves nothing', async () => {
  await allRefused(client, wasm, rows(client, wasm))
})

test('of several changes of one guard at once none ends half', () => atOnce(client))

test('an export that finds the lock lost tells all of it', () => anExportThatFindsItLost(client, other))

test('a loss that the event loop had no time to tell is seen by whoever asks', () => aLossThatTheEventLoopHadNoTimeToTell(client))

test('what came while the event loop was busy is no silence', async () => {
  const patient = await wasm.connect(`${ADDRESS}&response_timeout=200ms`)
  for (let i = 0; i < 3; i++) {
    const guard = await patient.lock('busy').acquire()
    const released = guard.release()
    // It is sent at once; the answer comes while nothing here runs.
    for (const until = performance.now() + 400; performance.now() < until;);
    assert.equal(await released, 'released')
  }
  await patient.close()
})

test('a leader that the store lost at the end of its work campaigns again', async () => {
  let terms = 0
  const lead = async guard => {
    if (++terms === 1) await redis('DEL', `lw:{${PREFIX}boss}`)
    return terms
  }
  assert.equal(await client.election('boss').run('me', lead), 2)
})

test('it excludes and is excluded', async () => {
  const lock = client.lock('orders:42', { label: 'edge' })
  const guard = await lock.acquire()
  assert.ok(guard.isHeld && guard.remaining() > 29_000)
  assert.equal(await lock.tryAcquire(), null)
  assert.equal(await other.lock('orders:42').tryAcquire(), null)
  const { holder } = await other.inspect('orders:42')
  assert.deepEqual([holder.language, holder.label], ['wasm-js', 'edge'])
  assert.equal(await guard.release(), 'released')
  assert.equal(guard.remaining(), 0)
  const held = await other.lock('orders:42').acquire()
  assert.ok(held.token > guard.token)
  await assert.rejects(lock.acquire({ timeout: 50 }), error => error instanceof wasm.LockTimeout && error.code === 'timeout' && error.retryable)
  await assert.rejects(guard.release(), wasm.NotOwned)
  await held.release()
})

test('an operator lists locks, breaks one and asks whether any can be had', async () => {
  const mine = await client.lock('of mine').acquire()
  const theirs = await other.lock('of theirs', { ttl: 1_500 }).acquire()
  const names = await client.list()
  assert.deepEqual(names, await other.list())
  assert.deepEqual(names.filter(name => name.startsWith('of ')), ['of mine', 'of theirs'])
  assert.equal(await client.breakLock('of theirs', theirs.token + 1_000n), false)
  assert.equal(await client.breakLock('of theirs', theirs.token), true)
  // By a push, or by its next renewal.
  await until(() => !theirs.isHeld)
  // Who broke it holds it itself, and looks at once.
  assert.equal(await client.lock('of mine').breakLock(mine.token), true)
  await until(() => !mine.isHeld)
  assert.equal(mine.whyLost, 'broken')
  for (const token of [1, '1', -1n, 1n << 64n]) await assert.rejects(client.breakLock('of mine', token), wasm.InvalidConfig)
  const { took, eviction, mayEvict } = await client.ping()
  assert.ok(took > 0)
  assert.deepEqual({ eviction, mayEvict }, { eviction: 'noeviction', mayEvict: false })
  assert.equal((await other.inspect('lockwright-ping')).holder, undefined)
})

for (const layout of ['native', 'string', 'redisson']) {
  test(`a counter shared with the native package is exact, in the layout ${layout}`, async () => {
    const options = layout === 'string' ? { layout, format: 'redis-py' } : { layout }
    const key = `${PREFIX}${layout}-counter`
    await redis('SET', key, '0')
    const count = async lock => {
      for (let left = 25; left > 0; left--) {
        await lock.using(async () => {
          const seen = Number((await redis('GET', key)).split('\r\n')[1])
          await redis('SET', key, String(seen + 1))
        })
      }
    }
    const clients = await Promise.all([wasm.connect(ADDRESS), wasm.connect(ADDRESS)])
    await Promise.all([...clients, other].map(each => count(each.lock(key, options))))
    assert.match(await redis('GET', key), /\r\n75\r\n/)
    await Promise.all(clients.map(each => each.close()))
    await redis('DEL', key)
  })
}

test('a waiter is handed the lock by a push', async () => {
  const held = await other.lock('push').acquire()
  const waiting = client.lock('push', { fair: true }).acquire({ timeout: 20_000 })
  await until(async () => (await other.inspect('push')).waiters === 1)
  const { ahead, queue: [{ waited, ...shown }] } = await client.inspect('push')
  assert.deepEqual(ahead, [0])
  const [{ waited: before, ...told }] = (await other.inspect('push')).queue
  assert.deepEqual(shown, told)
  assert.ok(waited <= before && before < 20_000)
  await held.release()
  const released = performance.now()
  const guard = await waiting
  assert.ok(performance.now() - released < 500, 'it polls')
  assert.equal(await guard.release(), 'released')
})

test('what is held is renewed by itself', async () => {
  const guard = await client.lock('renewed', { ttl: 600 }).acquire()
  for (const begun = performance.now(); performance.now() - begun < 2_000; await pause(20)) {
    assert.ok(guard.isHeld)
    assert.equal(await other.lock('renewed').tryAcquire(), null)
  }
  assert.equal(await guard.release(), 'released')
})

test('a lock that is lost is told of by its signal', async () => {
  const guard = await client.lock('lost', { ttl: 60, renew: false }).acquire()
  const { signal } = guard
  // What is held keeps no program running, and nor does a wait for its loss.
  const program = setInterval(() => undefined, 1_000)
  if (!signal.aborted) await once(signal, 'abort')
  clearInterval(program)
  assert.ok(signal.reason instanceof wasm.LockLost)
  assert.equal(guard.whyLost, 'not_renewed')
  await assert.rejects(guard.extend(100), wasm.LockLost)
  await assert.rejects(async () => { await guard[Symbol.asyncDispose]() }, wasm.LockLost)
})

test('a block ends with the loss that the store finds when the lock is given back', async () => {
  const gone = name => redis('DEL', `lw:{${PREFIX}${name}}`)
  await assert.rejects(client.lock('m2').using(() => gone('m2')), wasm.LockLost)
  await assert.rejects(client.multiLock(['m1', 'm2']).using(() => gone('m2')), error => error instanceof wasm.LockLost && error.lock === 'm2')
  await client.multiLock(['m1', 'm2']).using(() => undefined)
})

test('a signal that aborts while it is asked for a lock is heeded', async () => {
  const held = await other.lock('busy').acquire()
  const guard = await client.lock('short', { ttl: 60, renew: false }).acquire()
  const { signal } = guard
  // Nobody hears of the loss before the lock is asked for.
  for (const until = performance.now() + 100; performance.now() < until;);
  await assert.rejects(client.lock('busy').acquire({ signal, timeout: '20s' }), wasm.LockLost)
  assert.equal((await other.inspect('busy')).waiters, 0)
  await held.release()
})

test('what is asked of a guard while it is given back is answered', async () => {
  const lock = client.lock('asked')
  const guard = await lock.acquire()
  const [extended, released] = await Promise.allSettled([guard.extend('9s'), guard.release()])
  assert.ok(extended.reason instanceof wasm.LockLost && /released meanwhile/.test(extended.reason.message), extended.reason)
  assert.equal(released.value, 'released')
  const left = await lock.acquire()
  const exporting = left.export('9s')
  for (const refused of [left.extend('9s'), left.export('9s')]) await assert.rejects(refused, wasm.Unavailable)
  const [exported, ended] = await Promise.allSettled([exporting, left.release()])
  assert.ok(exported.reason instanceof wasm.NotOwned && /released while it was exported/.test(exported.reason.message), exported.reason)
  assert.equal(ended.value, 'released')
  // What the secret had is given back by then.
  await (await other.lock('asked').acquire({ timeout: 0 })).release()
  await left[Symbol.asyncDispose]()
  const { write } = client.rwlock('asked-rw')
  const writer = await write.acquire()
  const [, given] = await Promise.allSettled([writer.downgrade(), writer.release()])
  assert.equal(given.value, 'released')
  await (await write.acquire({ timeout: 0 })).release()
})

test('what a silent server does not answer before its client is closed is not known', async () => {
  const [sockets, proxy] = [[], createServer()]
  let silent = false
  proxy.on('connection', socket => {
    const server = createConnection(Number(new URL(REDIS).port), new URL(REDIS).hostname)
    sockets.push(socket, server)
    for (const [from, to] of [[socket, server], [server, socket]]) from.on('error', () => undefined).on('data', bytes => silent || to.write(bytes))
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  const closing = await wasm.connect(`redis://127.0.0.1:${proxy.address().port}`, { prefix: PREFIX })
  const guards = await Promise.all(['s1', 's2', 's3', 's4'].map(name => closing.lock(name, { ttl: '1s' }).acquire()))
  silent = true
  const ends = Promise.allSettled([guards[0].release(), guards[1].export('5s'), guards[2].extend('5s'), guards[3][Symbol.asyncDispose]()])
  await closing.close()
  const [released, exported, extended, disposed] = await ends
  assert.equal(released.value, 'unknown')
  assert.ok(exported.reason instanceof wasm.Unavailable, exported.reason)
  assert.ok(extended.reason instanceof wasm.LockLost, extended.reason)
  assert.equal(disposed.status, 'fulfilled')
  for (const socket of sockets) socket.destroy()
  proxy.close()
})

test('whoever aborts leaves the line', async () => {
  const held = await other.lock('left').acquire()
  const giveUp = new AbortController()
  const waiting = client.lock('left', { fair: true }).acquire({ signal: giveUp.signal })
  await until(async () => (await other.inspect('left')).waiters === 1)
  giveUp.abort(new Error('enough'))
  await assert.rejects(waiting, /enough/)
  await until(async () => (await other.inspect('left')).waiters === 0)
  await held.release()
})

test('a lock goes from one package to the other', async () => {
  const guard = await client.lock('handed').acquire()
  const resumed = await other.resume(await guard.export('5s'))
  assert.ok(resumed.token > guard.token)
  const back = await client.resume(await resumed.export('5s'))
  assert.ok(back.token > resumed.token)
  assert.equal(back.name, 'handed')
  await back.release()
  await assert.rejects(guard.release(), wasm.NotOwned)
})

test('a store that is down, silent, or no Redis server is told', async () => {
  const limits = '?connect_timeout=200ms&response_timeout=100ms&store_timeout=500ms'
  const failure = async address => {
    const away = await wasm.connect(address + limits)
    const error = await away.lock('x').acquire({ timeout: 5_000 }).then(() => assert.fail('granted'), error => error)
    await away.close()
    return error
  }
  const server = createServer()
  const open = async () => {
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return `redis://127.0.0.1:${server.address().port}`
  }
  const sockets = new Set()
  server.on('connection', socket => {
    sockets.add(socket)
    socket.on('error', () => undefined)
  })
  const silent = await failure(await open())
  assert.ok(silent instanceof wasm.Unavailable, silent)
  server.on('connection', socket => socket.write('HTTP/1.1 400 Bad Request\r\n\r\n'))
  const address = `redis://127.0.0.1:${server.address().port}`
  assert.ok((await failure(address)) instanceof wasm.ProtocolError)
  for (const socket of sockets) socket.destroy()
  server.close()
  await once(server, 'close')
  const down = await failure(address)
  assert.ok(down instanceof wasm.Unavailable && /nothing listens there/.test(down.message), down.message)
  const stranger = await wasm.connect(ADDRESS.replace('redis://', 'redis://nobody:hunter2@'))
  await assert.rejects(stranger.lock('x').acquire(), error => error instanceof wasm.AuthFailed && !error.message.includes('hunter2'))
  await stranger.close()
})

test('what cannot be honoured is refused at once', async () => {
  for (const address of ['', 'localhost:6379', 'redis://h?tll=5s', 'redis://h?ttl=1ms']) {
    await assert.rejects(wasm.connect(address), wasm.InvalidConfig, address)
  }
  for (const address of ['rediss://h', 'redis+unix:///s', 'sqlite://', 'redis://a redis://b redis://c']) {
    await assert.rejects(wasm.connect(address), wasm.Unsupported, address)
  }
  for (const options of [{ ttl: 0 }, { ttl: '1y' }, { ttl: NaN }, { tll: 5 }, { rank: 3 }, { rank: 1.5, fair: true }, { fair: 'yes' }, { timeout: -1 }]) {
    assert.throws(() => client.lock('x', options), wasm.InvalidConfig, JSON.stringify(options))
  }
  for (const name of ['', 'a\0b', '\ud800', 7]) assert.throws(() => client.lock(name), wasm.InvalidConfig)
  assert.throws(() => client.latch('x', 1, { idle: -5 }), wasm.InvalidConfig)
  assert.throws(() => client.barrier('x', 1, { ttl: -5 }), wasm.InvalidConfig)
  for (const names of [null, undefined, 'ab', 7, ['a', 7]]) assert.throws(() => client.multiLock(names), wasm.InvalidConfig, JSON.stringify(names))
  for (const options of [{ every: NaN }, { every: -1 }, { every: 0 }, { every: Infinity }, { signal: { aborted: false } }]) {
    await assert.rejects(client.election('x').changed(1n, options), wasm.InvalidConfig, JSON.stringify(options))
  }
  for (const address of [5, new URL('redis://h')]) await assert.rejects(wasm.connect(address), wasm.InvalidConfig)
  for (const options of [{ layout: 'nothing' }, { reentrant: true }, { atLeastFor: '5s' }, { revocable: true }]) {
    assert.throws(() => client.lock('x', options), wasm.Unsupported, JSON.stringify(options))
  }
})

test('options of connect are those of the address, or refused', async () => {
  for (const options of [null, 5, { ttl: '5s' }, { transprt: {} }, { transport: 1 }, { transport: {} }, { prefix: 7 }, { prefix: 'a\0' }, { storeTimeout: 'soon' }, { connectTimeout: -1 }, { ca: 'x' }]) {
    await assert.rejects(wasm.connect(REDIS, options), wasm.InvalidConfig, JSON.stringify(options))
  }
  await assert.rejects(wasm.connect(REDIS, { credentials: () => ({}) }), wasm.Unsupported)
  await assert.rejects(wasm.connect('rediss://h', { ca: 'x' }), wasm.Unsupported)
  await assert.rejects(wasm.connect('lockwright://orders'), error => error instanceof wasm.Unsupported && /webSocket/.test(error.message))
  const [one, beside] = [await wasm.connect(REDIS, { prefix: PREFIX }), await wasm.connect(ADDRESS, { prefix: 'another:' })]
  const guard = await one.lock('prefixed').acquire()
  for (const same of [other, beside]) assert.equal(await same.lock('prefixed').tryAcquire(), null)
  await guard.release()
  await Promise.all([one.close(), beside.close()])
  const silent = createServer().listen(0, '127.0.0.1')
  await once(silent, 'listening')
  const limited = await wasm.connect(`redis://127.0.0.1:${silent.address().port}`, { storeTimeout: 200, connectTimeout: '100ms', responseTimeout: 100 })
  const began = performance.now()
  await assert.rejects(limited.lock('x').acquire(), wasm.Unavailable)
  assert.ok(performance.now() - began < 4_000, 'the limits are heeded')
  await limited.close()
  silent.close()
})

test('the environment may have the address', () => {
  const program = `
    import { connect } from ${JSON.stringify(new URL('../dist/index.js', import.meta.url))}
    console.log(await connect().then(({ address }) => address, ({ code }) => code))
  `
  const { LOCKWRIGHT_URL: _, ...env } = process.env
  const says = more => spawnSync(process.execPath, ['--input-type=module', '-e', program], { env: { ...env, ...more }, encoding: 'utf8' }).stdout.trim()
  assert.equal(says({}), 'unsupported')
  assert.equal(says({ LOCKWRIGHT_URL: 'redis://somewhere?prefix=x:' }), 'redis://somewhere:6379/0')
})

test('what is packed has its types, its licences and a page', () => {
  const packed = spawnSync('npm', ['pack', '--dry-run', '--json'], { cwd: new URL('..', import.meta.url), encoding: 'utf8' })
  const files = JSON.parse(packed.stdout)[0].files.map(({ path }) => path)
  for (const file of ['README.md', 'LICENSE-MIT', 'LICENSE-APACHE', 'THIRD-PARTY-NOTICES.txt', 'dist/index.d.ts', 'wasm/lockwright_bg.wasm', 'wasm/server_bg.wasm']) {
    assert.ok(files.includes(file), file)
  }
})

test('a client that is closed gives all back', async () => {
  const closing = await wasm.connect(ADDRESS)
  const lock = closing.lock('closed')
  const guard = await lock.acquire()
  const waiting = lock.acquire().catch(error => error)
  await closing.close()
  assert.ok((await waiting) instanceof wasm.Closed)
  assert.equal(guard.whyLost, 'closed')
  await assert.rejects(lock.acquire(), wasm.Closed)
  await (await other.lock('closed').acquire({ timeout: 0 })).release()
})

test('what is held keeps no program running', () => {
  const program = `import { connect } from ${JSON.stringify(new URL('../dist/index.js', import.meta.url).href)}
    const guard = await (await connect(${JSON.stringify(ADDRESS)})).lock('ended', { ttl: 1000 }).acquire()
    console.log(guard.isHeld)`
  const ran = spawnSync(process.execPath, ['--input-type=module', '--eval', program], { encoding: 'utf8', timeout: 20_000 })
  assert.deepEqual([ran.status, ran.stdout], [0, 'true\n'], ran.stderr)
})
