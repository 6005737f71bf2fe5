// Ways to the server other than a connection of our own, on a real Redis.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { createConnection, createServer as createServerOfSockets } from 'node:net'
import { createRequire } from 'node:module'
import { after, before, test } from 'node:test'

import { bridge, connect, duplex, redis, rest, webSocket } from '../dist/index.js'

const tools = createRequire(new URL('../../tests/tools/package.json', import.meta.url))
const { Redis } = tools('ioredis')
const { createClient } = tools('redis')

const REDIS = process.env.LOCKWRIGHT_TEST_REDIS
const PREFIX = `transports-${process.pid}:`
const ADDRESS = `${REDIS}?prefix=${PREFIX}`

let io, node, direct

before(async () => {
  io = new Redis(REDIS, { autoResendUnfulfilledCommands: false })
  node = createClient({ url: REDIS })
  await node.connect()
  direct = await connect(ADDRESS)
})

after(async () => {
  await direct?.close()
  io?.disconnect()
  node?.destroy()
})

/** `send` and `receive` over Node's sockets. */
const sockets = duplex(async (host, port) => {
  const socket = createConnection({ host, port })
  await once(socket, 'connect')
  const came = socket[Symbol.asyncIterator]()
  return { send: bytes => socket.write(bytes), receive: async () => (await came.next()).value, close: () => socket.destroy() }
})

const ways = {
  'ioredis': () => redis(io),
  'node-redis': () => redis(node),
  'send and receive': () => sockets,
}

for (const [name, way] of Object.entries(ways)) {
  test(`over ${name} locks are shared, and handed over by a push`, async () => {
    const [one, other] = await Promise.all([1, 2].map(() => connect(`redis://${new URL(REDIS).host}?prefix=${PREFIX}`, { transport: way() })))
    const guard = await one.lock(name).acquire()
    assert.ok(guard.remaining() > 25_000)
    assert.equal(await direct.lock(name).tryAcquire(), null)
    const waiting = other.lock(name, { fair: true }).acquire({ timeout: 20_000 })
    while ((await direct.inspect(name)).waiters === 0) await new Promise(next => setTimeout(next, 5))
    const released = performance.now()
    assert.equal(await guard.release(), 'released')
    const next = await waiting
    // Whoever is not told asks each ttl/3.
    assert.ok(performance.now() - released < 5_000)
    assert.ok(next.token > guard.token)
    assert.equal(await next.release(), 'released')
    assert.deepEqual(await Promise.all([one.barrier('b', 2).wait(), other.barrier('b', 2).wait()]).then(all => all.map(({ index }) => index).sort()), [0, 1])
    await Promise.all([one.close(), other.close()])
  })

  test(`over ${name} a byte order mark at the beginning is part of the key`, async () => {
    const host = `redis://${new URL(REDIS).host}`
    const clients = await Promise.all([connect(host, { transport: way() }), connect(host)])
    const [over, beside] = clients.map(client => client.lock(`\ufeff${PREFIX}marked`, { layout: 'string', format: 'redis-py' }))
    const guard = await over.acquire()
    assert.equal(await beside.tryAcquire(), null)
    await guard.release()
    await Promise.all(clients.map(client => client.close()))
  })

  test(`over ${name} what was not heard while the connection for pushes was lost is asked for`, async () => {
    const client = await connect(`redis://${new URL(REDIS).host}?prefix=${PREFIX}`, { transport: way() })
    const guard = await direct.lock('unheard').acquire()
    const waiting = client.lock('unheard').acquire({ timeout: '20s' })
    while ((await direct.inspect('unheard')).waiters === 0) await new Promise(next => setTimeout(next, 5))
    await node.sendCommand(['CLIENT', 'KILL', 'TYPE', 'pubsub'])
    const released = performance.now()
    await guard.release()
    await (await waiting).release()
    assert.ok(performance.now() - released < 5_000, 'it waited for the end of the lease')
    await client.close()
  })
}

test('a connection that is not ours is not logged in, moved or taken where it repeats what it was asked', async () => {
  for (const address of ['redis://:secret@localhost', 'redis://localhost/3']) {
    const client = await connect(address, { transport: redis(io) })
    await assert.rejects(client.lock('x').acquire(), error => ['auth', 'invalid_config'].includes(error.code) && /not ours/.test(error.message))
    await client.close()
  }
  const repeats = new Redis(REDIS, { lazyConnect: true })
  assert.throws(() => redis(repeats), { code: 'invalid_config', message: /autoResendUnfulfilledCommands/ })
  const prefixes = new Redis(REDIS, { lazyConnect: true, autoResendUnfulfilledCommands: false, keyPrefix: 'app:' })
  assert.throws(() => redis(prefixes), { code: 'invalid_config', message: /keyPrefix/ })
  const texts = new Redis(REDIS, { lazyConnect: true, autoResendUnfulfilledCommands: false, stringNumbers: true })
  assert.throws(() => redis(texts), { code: 'invalid_config', message: /stringNumbers/ })
  for (const nothing of [undefined, null, 'redis://h']) assert.throws(() => redis(nothing), { code: 'invalid_config', message: /ioredis or node-redis/ })
})

test('what whoever speaks to the server throws is unavailable, and it is asked again', async () => {
  let broken = 2
  const transport = bridge(() => {
    if (broken-- > 0) throw new Error('not now')
    return { ask: commands => commands.map(words => node.sendCommand(words)) }
  })
  const client = await connect(ADDRESS, { transport })
  const guard = await client.lock('again').acquire()
  await guard.release()
  await client.close()
  const never = await connect(`${ADDRESS}&store_timeout=300ms`, { transport: bridge(() => { throw new Error('never') }) })
  await assert.rejects(never.lock('x').acquire({ timeout: '20s' }), { code: 'unavailable', message: /never/ })
  await never.close()
})

test('what a transport throws where nobody can catch it ends its connection', async () => {
  const broken = () => { throw new Error('broken here') }
  const deaf = { connect: (_host, _port, events) => (queueMicrotask(() => events.opened()), { send: broken, end: broken, keepAlive: broken }) }
  for (const transport of [deaf, bridge(() => ({ ask: broken, close: broken }))]) {
    const client = await connect(ADDRESS, { transport, storeTimeout: 300 })
    await assert.rejects(client.lock('x').acquire({ timeout: '20s' }), { code: 'unavailable', message: /broken here/ })
    await client.close()
  }
})

test('a WebSocket that was not opened in time ends with its client', { skip: typeof WebSocket === 'undefined' }, async () => {
  const [opened, closed] = [[], []]
  const silent = createServerOfSockets(socket => {
    opened.push(socket)
    closed.push(once(socket, 'close'))
    socket.on('error', () => {}).resume()
  }).listen(0, '127.0.0.1')
  await once(silent, 'listening')
  const transport = webSocket(() => new WebSocket(`ws://127.0.0.1:${silent.address().port}`))
  const client = await connect('lockwright://orders', { transport, storeTimeout: 300, connectTimeout: 100 })
  await assert.rejects(client.lock('x').acquire({ timeout: '20s' }), { code: 'unavailable' })
  await client.close()
  assert.ok(opened.length > 0)
  await Promise.all(closed)
  silent.close()
})

test('a request over HTTP ends with its client', async () => {
  let over
  const ended = new Promise(resolve => (over = resolve))
  const gateway = createServer((_request, response) => response.on('close', over)).listen(0, '127.0.0.1')
  await once(gateway, 'listening')
  const client = await connect(ADDRESS, { transport: rest(`http://127.0.0.1:${gateway.address().port}`), storeTimeout: 200 })
  await assert.rejects(client.lock('x').acquire({ timeout: '20s' }), { code: 'unavailable' })
  await client.close()
  await ended
  gateway.close()
})

test('over HTTP waiters ask again, and fair is refused', async () => {
  let asked = 0
  // As much of such a gateway as is asked for.
  const gateway = createServer(async (request, response) => {
    let body = ''
    for await (const part of request) body += part
    if (request.headers.authorization !== 'Bearer let-me') return response.writeHead(401).end()
    if (request.url !== '/redis/pipeline') return response.writeHead(404).end()
    asked++
    const answers = await Promise.all(JSON.parse(body).map(words => node.sendCommand(words).then(result => ({ result }), error => ({ error: error.message }))))
    response.end(JSON.stringify(answers))
  }).listen(0, '127.0.0.1')
  await once(gateway, 'listening')
  const url = `http://127.0.0.1:${gateway.address().port}/redis/`
  const clients = await Promise.all([1, 2].map(() => connect(ADDRESS, { transport: rest(url, { token: 'let-me' }) })))
  assert.throws(() => clients[0].lock('http', { fair: true }), { code: 'unsupported' })
  const { fair, push } = clients[0].guarantees()
  assert.deepEqual([fair, push, asked], [false, false, 0], 'before anything was asked')
  let sum = 0
  await Promise.all([...clients, direct].flatMap(client => Array.from({ length: 2 }, async () => {
    for (let left = 5; left > 0; left--) {
      await client.lock('http').using(async () => {
        const seen = sum
        await new Promise(next => setTimeout(next, 1))
        sum = seen + 1
      })
    }
  })))
  assert.equal(sum, 30)
  assert.ok(asked > 0)
  await Promise.all(clients.map(client => client.close()))
  const stranger = await connect(ADDRESS, { transport: rest(url) })
  await assert.rejects(stranger.lock('x').acquire({ timeout: '20s' }), { code: 'auth', retryable: false, message: /401/ })
  await stranger.close()
  const elsewhere = await connect(ADDRESS, { transport: rest(`${url}/nowhere`, { token: 'let-me' }), storeTimeout: 300 })
  await assert.rejects(elsewhere.lock('x').acquire({ timeout: '20s' }), { code: 'unavailable', message: /404; see that the url is right/ })
  await elsewhere.close()
  gateway.close()
  gateway.closeAllConnections()
})
