// Adds to a counter that only the lock keeps exact, by the component as jco made it JavaScript: `jco_program.mjs MODULE ADDRESS COUNTER ROUNDS`.
import assert from 'node:assert/strict'

import { command } from '../npm/tests/redis.mjs'

const [module, address, counter, rounds] = process.argv.slice(2)
const { locks } = await import(module)
const client = locks.Client.connect(address)
const lock = client.lock('hot', {})
let last = 0n
for (let left = Number(rounds); left > 0; left--) {
  const guard = lock.acquire(60_000n)
  assert.ok(guard.token() > last && guard.remaining() > 25_000n)
  last = guard.token()
  await command('SET', counter, String(Number(await command('GET', counter)) + 1))
  assert.deepEqual(guard.release(), { tag: 'released' })
}
const latch = client.latch('done', 1)
assert.equal(latch.countDown(), 0)
assert.ok(latch.wait(undefined))
const writer = client.rwlock('rw', {}).write()
const reads = client.rwlock('rw', {}).read().tryAcquire()
// Whoever else reads or writes just now is another of these programs.
if (reads !== undefined && reads.tryUpgrade()) {
  assert.equal(writer.tryAcquire(), undefined)
  reads.downgrade()
}
reads?.release()
try {
  client.lock('x', { ttl: 1n })
  assert.fail('the ttl is too short')
} catch (error) {
  assert.equal(error.payload.tag, 'invalid-config')
  assert.equal(error.payload.val.code, 'invalid_config')
}
client.close()
console.log('all is well')
// The worker that waits for sockets does not end by itself.
process.exit()
