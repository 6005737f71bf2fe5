// The plugin of WASI 0.3 in `wasmtime serve`, all of whose requests one instance serves: a lock that one of them holds is renewed
// while others run, and goes from one to the next inside the instance.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'

import { connect } from '../../../bindings-node/dist/index.mjs'
import { requests } from '../../npm/tests/workerd.mjs'
import { serve, stopAll, Watched } from '../edge_host.mjs'
import { at, Between, ETCD, REDIS, SHARED } from './calls.mjs'

const POST = { method: 'POST' }
const TTL = 1000
// For how long an instance without a request is kept.
const IDLE = 500

after(stopAll)

// Whoever has a client of Redis has two connections to it, and a host asks etcd by as many as it likes.
const PLAYED = [
  ['Redis', { ...REDIS, plugin: process.env.LOCKWRIGHT_TEST_PLUGIN, connections: 2 }],
  ['etcd', { ...ETCD, plugin: process.env.LOCKWRIGHT_TEST_PLUGIN_ETCD }],
]
for (const [kind, server] of PLAYED) describe(kind, () => play(server))

function play(server) {
  const OPTIONS = { prefix: `instance-${process.pid}:`, ttl: `${TTL}ms` }
  const origin = new Watched()
  // Whoever has no connection through it is gone.
  const between = new Between(server)
  let edge, native

  before(async () => {
    const address = at(server, OPTIONS, await between.listen())
    const words = [...SHARED, '--idle-instance-timeout', `${IDLE}ms`]
    edge = await serve(server.plugin, { LOCKWRIGHT_URL: address, ORIGIN: await origin.listen(0) }, { words })
    native = await connect(at(server, OPTIONS))
  })

  after(async () => {
    await native?.close()
    await stopAll()
    await between.close()
    origin.close()
  })

  const claims = (name, count, atOnce) => requests([`${edge.url}/coupons/${name}/claim`], count, atOnce, POST)

  test('a lock that one request holds for several times its ttl is held, beside others of its instance', async () => {
    const held = 4 * TTL
    origin.stock('long', 1)
    origin.stock('short', 1_000_000)
    let write
    origin.waits.set('long', new Promise(settle => (write = settle)))
    const long = claims('long', 1, 1)
    const begun = Date.now()
    while ((await native.inspect('coupon:long')).holder === undefined) await sleep(10)
    let beside = 0
    while (Date.now() - begun < held) {
      const [one] = await claims('short', 1, 1)
      assert.deepEqual([one.status, one.left], [200, 999_999 - beside], edge.said())
      beside++
      assert.equal(await native.lock('coupon:long').tryAcquire(), null, `free after ${Date.now() - begun} ms`)
    }
    write()
    const [answer] = await long
    assert.deepEqual([answer.status, answer.left], [200, 0], answer.error)
    assert.ok(beside > 2, `${beside} others ran`)
    if (server.connections) assert.ok(between.dialled <= server.connections, `${between.dialled} connections are not those of one client`)
  })

  test('a lock that one request holds for several times its ttl is held, while nothing else runs', async () => {
    origin.stock('alone', 1)
    origin.waits.set('alone', sleep(3 * TTL))
    const alone = claims('alone', 1, 1)
    while ((await native.inspect('coupon:alone')).holder === undefined) await sleep(10)
    await sleep(2 * TTL)
    assert.equal(await native.lock('coupon:alone').tryAcquire(), null)
    const [answer] = await alone
    assert.deepEqual([answer.status, answer.left], [200, 0], answer.error)
  })

  test('requests of one instance wait in it for one lock, and have it one after the other', async () => {
    const count = 32
    origin.stock('queue', count)
    let write
    origin.waits.set('queue', new Promise(settle => (write = settle)))
    const before = between.dialled
    const asked = []
    for (let n = 0; n < count; n++) {
      asked.push(claims('queue', 1, 1))
      // Wasmtime begins another instance for what comes while this one computes.
      await sleep(20)
      await edge.rests()
    }
    const instances = server.connections ? 1 + (between.dialled - before) / server.connections : count / 8
    assert.ok(instances <= count / 8, `${count} requests were served by ${instances} instances`)
    // Those of an instance have one place at the server.
    const { waiters } = await native.inspect('coupon:queue')
    assert.ok(waiters < instances, `${waiters} wait, of ${instances} instances`)
    origin.waits.delete('queue')
    write()
    const answers = (await Promise.all(asked)).flat()
    assert.deepEqual(answers.map(({ left }) => left).sort((a, b) => b - a), Array.from({ length: count }, (_, n) => count - 1 - n))
  })

  test('requests, 32 at once, claim one coupon, exactly', async () => {
    const count = Number(process.env.LOCKWRIGHT_TEST_REQUESTS ?? 320)
    origin.stock('hot', count - 10)
    const answers = await claims('hot', count, 32)
    const odd = answers.filter(({ status }) => status !== 200 && status !== 410)
    assert.deepEqual(odd, [], edge.said())
    const claimed = answers.filter(answer => answer.claimed).length
    assert.deepEqual({ claimed, left: origin.left('hot'), refused: origin.refused }, { claimed: count - 10, left: 0, refused: 0 })
  })

  test('an instance of which nothing is held or asked is let go, and its connections with it', async () => {
    for (const end = Date.now() + 20 * IDLE; between.open.size > 0; ) {
      assert.ok(Date.now() < end, `${between.open.size} connections are open`)
      await sleep(50)
    }
    origin.stock('again', 1)
    const [answer] = await claims('again', 1, 1)
    assert.deepEqual([answer.status, answer.left], [200, 0], answer.error)
  })
}
