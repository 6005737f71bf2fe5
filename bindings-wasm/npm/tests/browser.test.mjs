// What browsers load, where the module comes by `fetch`.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'

import { connect, LockError, rest } from '../dist/browser.js'

test('a module that could not be loaded is told as unavailable, and loaded by the next connect', async context => {
  const answers = [
    () => new Response('no', { status: 500 }),
    () => new Response(readFileSync(new URL('../wasm/lockwright_bg.wasm', import.meta.url)), { headers: { 'content-type': 'application/wasm' } }),
  ]
  const fetched = context.mock.method(globalThis, 'fetch', async () => answers.shift()())
  // Nothing is sent before the first use.
  const client = () => connect('redis://gateway', { transport: rest('http://gateway.invalid') })

  for (const { status, reason } of await Promise.allSettled([client(), client()])) {
    assert.equal(status, 'rejected')
    assert.ok(reason instanceof LockError)
    assert.equal(reason.code, 'unavailable')
    assert.equal(reason.retryable, true)
    assert.match(reason.message, /^unavailable: connect: could not load .*\/wasm\/lockwright_bg\.wasm \(.+\); see that the site serves this file/)
    assert.ok(reason.cause instanceof Error)
  }
  assert.equal(fetched.mock.callCount(), 1)

  await (await client()).close()
  await (await client()).close()
  assert.equal(fetched.mock.callCount(), 2)
})
