// What a component of WASI 0.3 makes of each kind of server: a lock is handed over by what the server tells, connections that end are
// made anew, and what is wrong with a server is told.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createServer as createSilent } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createServer as createSecure } from 'node:tls'

import { connect } from '../../../bindings-node/dist/index.mjs'
import { stopAll } from '../edge_host.mjs'
import { at, Between, ETCD, REDIS, REDIS_TLS, served } from './calls.mjs'

const TTL = 2000
const SHORT = { ttl: `${TTL}ms`, connect_timeout: '500ms', response_timeout: '300ms', store_timeout: '1s' }

after(stopAll)

for (const [kind, server] of Object.entries({ REDIS, REDIS_TLS, ETCD })) describe(kind, () => play(server))

function play(server) {
  const prefix = `servers-${process.pid}:`
  const between = new Between(server)
  let host, native, port

  before(async () => {
    port = await between.listen()
    host = await served(server.plugin, at(server, { prefix, ...SHORT }, port))
    native = await connect(at(server, { prefix }))
  })

  after(async () => {
    await native?.close()
    await between.close()
  })

  const waits = async name => {
    while ((await native.inspect(name)).waiters < 1) await sleep(10)
  }

  test('a lock is handed over when the server tells, not when it is asked again', async () => {
    const took = []
    for (let n = 0; n < 5; n++) {
      let waiting
      const released = await native.lock('handed').using(async () => {
        waiting = host.call('hold', 'handed')
        await waits('handed')
      }).then(() => Date.now())
      assert.equal(await waiting, 'held', host.said())
      took.push(Date.now() - released)
    }
    assert.ok(Math.min(...took) < 200, `it took ${took} ms`)
  })

  test('a lock is held for longer than its ttl, until an operator breaks it', async () => {
    const held = host.call('hold', 'own', 3 * TTL)
    let holder
    while (holder === undefined) ({ holder } = await native.inspect('own'))
    assert.equal(holder.language, 'wasm')
    await sleep(1.5 * TTL)
    assert.equal(await native.lock('own').tryAcquire(), null)
    assert.equal(await native.breakLock('own', holder.firstToken), true)
    await native.lock('own').using(() => undefined, { timeout: `${TTL}ms` })
    assert.equal(await held, 'lost')
  })

  test('who waits for a latch goes on once it is counted down', async () => {
    const waiting = host.call('latch', 'ready')
    await waits('ready')
    await native.latch('ready', 1, { idle: 60_000 }).countDown()
    assert.equal(await waiting, 'open')
  })

  test('who waits while all connections end has the lock when it is free', async () => {
    let waiting
    await native.lock('cut').using(async () => {
      waiting = host.call('hold', 'cut')
      await waits('cut')
      const again = between.next()
      between.cut()
      await again
    })
    assert.equal(await waiting, 'held', host.said())
  })

  test('while the server is away nothing is held for longer than its ttl, and whoever asks is told; then all goes on', async () => {
    const held = host.call('hold', 'held', 2 * TTL)
    // Whom the server has as holder may not have read it yet.
    while ((await host.call('knows', 'held')) !== 'known') await sleep(10)
    await between.close()
    assert.match(await host.call('hold', 'asked'), /code: "unavailable", retryable: true/)
    await native.lock('held').using(() => undefined, { timeout: `${2 * TTL}ms` })
    assert.equal(await held, 'lost')
    await between.listen(port)
    assert.equal(await host.call('hold', 'held'), 'held')
  })

  test('a server that is not there is told', async () => {
    const nowhere = new Between(server)
    const closed = await nowhere.listen()
    await nowhere.close()
    assert.match(await refused(server, at(server, SHORT, closed)), /nothing listens there.*code: "unavailable", retryable: true/)
  })
}

/** What whoever wants a lock is told there. */
async function refused({ plugin }, address, how) {
  const { call } = await served(plugin, address, how)
  return await call('hold', 'x')
}

describe('TLS', () => {
  const file = name => new URL(REDIS_TLS.address).searchParams.get(name)

  test('a server that is not trusted is told, and one that wants a certificate', async () => {
    const address = at(REDIS_TLS, SHORT)
    const strange = { certificates: { ca: file('cert') } }
    assert.match(await refused(REDIS_TLS, address, strange), /authority that is not trusted.*code: "auth", retryable: false/)
    const bare = new URL(address)
    for (const name of ['ca', 'cert', 'key']) bare.searchParams.delete(name)
    assert.match(await refused(REDIS_TLS, bare.href), /authority that is not trusted.*code: "auth"/)
    const unknown = { certificates: { ca: file('ca') } }
    assert.match(await refused(REDIS_TLS, bare.href, unknown), /cert and key in the options of connect-with.*code: "auth"/)
  })

  test('a server that is not trusted hears why', async () => {
    const site = createSecure({ cert: readFileSync(file('cert')), key: readFileSync(file('key')) })
    site.listen(0, '127.0.0.1')
    await once(site, 'listening')
    const heard = once(site, 'tlsClientError')
    assert.match(await refused(REDIS_TLS, at(REDIS_TLS, SHORT, site.address().port)), /code: "auth"/)
    const [{ code }] = await heard
    assert.match(code, /ALERT/)
    site.close()
  })

  test('a server without TLS is told, and one with it', async () => {
    const plain = at(REDIS_TLS, SHORT, new URL(REDIS.address).port)
    assert.match(await refused(REDIS_TLS, plain), /redis:\/\/ for rediss:\/\/.*code: "(protocol|unavailable)"/)
    const secure = at(REDIS, SHORT, new URL(REDIS_TLS.address).port)
    assert.match(await refused(REDIS, secure), /rediss:\/\//)
  })

  test('a host that grants no network is told', async () => {
    assert.match(await refused(REDIS_TLS, at(REDIS_TLS, SHORT), { tcp: false }), /grant.*code: "auth", retryable: false/)
  })

  test('without TLS the component names the other', async () => {
    const bare = 'rediss://user:hunter2@h'
    const told = await refused(REDIS, bare)
    assert.match(told, /lockwright-tls\.async\.component\.wasm.*code: "unsupported"/)
    assert.ok(!told.includes('hunter2'))
  })
})

describe('HTTP', () => {
  test('what is no etcd is told', async () => {
    const site = createServer((_, answer) => answer.writeHead(404).end('none'))
    site.listen(0, '127.0.0.1')
    await once(site, 'listening')
    assert.match(await refused(ETCD, at(ETCD, SHORT, site.address().port)), /no etcd with a JSON gateway.*code: "protocol"/)
    site.close()
  })

  test('a server that keeps silent is told', async () => {
    const silent = createSilent()
    silent.listen(0, '127.0.0.1')
    await once(silent, 'listening')
    assert.match(await refused(ETCD, at(ETCD, SHORT, silent.address().port)), /code: "unavailable", retryable: true/)
    silent.close()
  })

  test('a host needs no sockets for it, and certificates are its own', async () => {
    const module = readFileSync(ETCD.plugin)
    assert.deepEqual(['wasi:http/client', 'wasi:sockets/'].map(name => module.includes(name)), [true, false])
    const file = new URL(REDIS_TLS.address).searchParams.get('ca')
    assert.match(await refused(ETCD, 'etcds://h', { certificates: { ca: file } }), /TLS is the host's.*code: "invalid_config"/)
  })
})
