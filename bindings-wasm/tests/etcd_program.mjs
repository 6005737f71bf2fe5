// The component for etcd as jco made it JavaScript, with what it is to do:
//   count MODULE ADDRESS FILE ROUNDS   adds to a number in a file that only the lock keeps exact
//   hold MODULE ADDRESS                holds the lock, without another call, until it is killed
//   wait MODULE ADDRESS                waits for the lock, and gives it back
//   fail MODULE ADDRESS                tries the lock, and tells why that cannot be
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'

const [does, module, address, file, rounds] = process.argv.slice(2)
const { locks } = await import(module)

const actions = {
  count(lock) {
    let last = 0n
    for (let left = Number(rounds); left > 0; left--) {
      const guard = lock.acquire(60_000n)
      assert.ok(guard.token() > last && guard.remaining() > 20_000n)
      last = guard.token()
      writeFileSync(file, String(Number(readFileSync(file, 'utf8')) + 1))
      guard.renew(undefined)
      assert.deepEqual(guard.release(), { tag: 'released' })
    }
    return 'all is well'
  },
  async hold(lock) {
    const guard = lock.acquire(undefined)
    console.log(guard.token())
    await new Promise(() => setTimeout(() => undefined, 1 << 30))
  },
  wait(lock) {
    const guard = lock.acquire(60_000n)
    const token = guard.token()
    guard.release()
    return token
  },
  fail(lock) {
    try {
      lock.tryAcquire()
    } catch ({ payload: { tag, val } }) {
      return JSON.stringify([tag, val.text])
    }
    return 'nothing fails'
  },
}

const client = locks.Client.connect(address)
const said = await actions[does](client.lock('hot', {}))
client.close()
console.log(String(said))
// The worker that waits for answers does not end by itself.
process.exit()
