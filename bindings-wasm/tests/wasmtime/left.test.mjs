// Calls of a component of WASI 0.3 that a plugin leaves off waiting for, and guards that it drops: tests/wasmtime/plugin.rs.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'

import { connect } from '../../../bindings-node/dist/index.mjs'
import { stopAll } from '../edge_host.mjs'
import { at, ETCD, REDIS, REDIS_TLS, served } from './calls.mjs'

const TTL = 1000

after(stopAll)

for (const [kind, server] of Object.entries({ REDIS, REDIS_TLS, ETCD })) describe(kind, () => play(server))

function play(server) {
  const address = at(server, { prefix: `left-${process.pid}:`, ttl: `${TTL}ms` })
  let host, native

  before(async () => {
    host = await served(server.plugin, address)
    native = await connect(address)
  })

  after(() => native?.close())

  const said = (what, name, ms) => host.call(what, name, ms)
  const waiters = async name => (await native.inspect(name)).waiters

  test('a call that is left gives up its place, with the next call where it was alone', async () => {
    await native.lock('held').using(async () => {
      assert.equal(await said('leave', 'held', TTL / 4), 'left')
      assert.equal(await said('look-away', 'held', TTL / 4), 'left')
      assert.equal(await waiters('held'), 0)
    })
    assert.equal(await said('leave', 'held', TTL), 'granted')
  })

  // One that asks once, and one that asks again and again.
  for (const what of ['leave', 'look-away']) {
    test(`a call that is left does not take the renewal of what others hold along: ${what}`, async () => {
      await native.lock('held').using(async () => {
        // The first of an instance works for the others.
        await sleep(2 * TTL)
        const left = said(what, 'held', TTL / 2)
        await sleep(TTL / 4)
        assert.equal(await said('hold', 'kept', 3 * TTL), 'held')
        assert.equal(await left, 'left')
        assert.equal(await waiters('held'), 0)
      })
    })
  }

  test('a call that is left does not leave those alone who wait beside it', async () => {
    await native.lock('held').using(async () => {
      let waits
      await native.lock('other').using(async () => {
        await sleep(2 * TTL)
        const left = said('leave', 'held', TTL / 2)
        await sleep(TTL / 4)
        waits = said('hold', 'other')
        assert.equal(await left, 'left')
        assert.equal(await waiters('other'), 1)
      })
      assert.equal(await Promise.race([waits, sleep(TTL, 'nothing')]), 'held')
    })
  })

  test('what is dropped is given back', async () => {
    assert.equal(await said('drop', 'dropped'), 'dropped')
    await native.lock('dropped').using(() => undefined, { timeout: `${TTL / 2}ms` })
  })

  test('many calls of an instance are left, beside others', async () => {
    await native.lock('held').using(async () => {
      const all = []
      for (let n = 0; n < 240; n++) {
        const time = 1 + ((n * 37) % 400)
        const calls = [
          () => said('leave', 'held', time),
          () => said('look-away', 'held', time),
          () => said('drop', `drop-${n % 8}`),
          () => said('hold', `hold-${n}`, 2 * TTL),
        ]
        all.push(calls[n % 4]())
        await sleep(n % 10)
      }
      const count = {}
      for (const word of await Promise.all(all)) count[word] = (count[word] ?? 0) + 1
      assert.deepEqual(count, { left: 120, dropped: 60, held: 60 }, host.said())
      assert.equal(await waiters('held'), 0)
    })
    await native.lock('held').using(() => undefined, { timeout: `${TTL / 2}ms` })
  })
}
