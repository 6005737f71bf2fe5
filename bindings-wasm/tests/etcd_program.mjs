// The component for etcd as jco made it JavaScript, with what it is to do:
//   count MODULE ADDRESS FILE ROUNDS   adds to a number in a file that only the lock keeps exact
//   hold MODULE ADDRESS                holds the lock, without another call, until it is killed
//   wait MODULE ADDRESS                waits for the lock, and gives it back
//   fail MODULE ADDRESS                tries the lock, and tells why that cannot be
//   look MODULE ADDRESS                tells what it finds of others' locks, and takes one from its holder
//   lead MODULE ADDRESS                tells who leads, and leads after that one
//   count_down MODULE ADDRESS          counts a latch down to one, and waits until it is open
//   share MODULE ADDRESS               has a part of what can be shared, and several locks
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
    return JSON.stringify(failing(() => lock.tryAcquire()))
  },
  look() {
    const { holder, waiters, layout } = client.inspect('x')
    const { shared } = client.inspect('file')
    const token = BigInt(holder.firstToken)
    const broken = [client.breakLock('x', token + 1n), client.breakLock('x', token), client.inspect('x').holder ?? null]
    return told({ layout, waiters, holder, shared, broken, names: client.list(), free: client.inspect('nobody').holder ?? null })
  },
  lead() {
    const election = client.election('scheduler', {})
    const { proclaims, pid } = election.leader()
    const [refused] = failing(() => election.campaign('edge', 50n))
    const changed = election.changed(undefined, undefined).proclaims
    console.log(told({ proclaims, pid, refused, changed }))
    const guard = election.campaign('edge', 20_000n)
    const own = election.leader()
    return told({ proclaims: own.proclaims, isOwn: own.token === guard.token(), released: guard.release().tag })
  },
  count_down() {
    const latch = client.latch('ready', 3, 60_000n)
    const before = [latch.count(), latch.trySetCount(5)]
    const left = [latch.countDown(), latch.countDown()]
    console.log(told([...before, ...left]))
    return told([latch.wait(20_000n), latch.count(), latch.trySetCount(2)])
  },
  share() {
    const rwlock = client.rwlock('file', {})
    const reader = rwlock.read().acquire(1_000n)
    const writes = rwlock.write().tryAcquire() ?? null
    const permits = client.semaphore('rooms', 2, { lock: {} }).permits()
    const [first, second] = [permits.acquire(1_000n), permits.tryAcquire() ?? null]
    const transfer = client.multiLock(['account:1', 'account:2'], {})
    const held = transfer.tryAcquire() ?? null
    const others = transfer.tryAcquire() ?? null
    const outcomes = [reader, first, held].map(guard => guard.release().tag)
    return told({ writes, second, others, outcomes, names: transfer.names() })
  },
}

const told = object => JSON.stringify(object, (_, value) => (typeof value === 'bigint' ? String(value) : value))

/** What the error of `work` is called, and says. */
function failing(work) {
  try {
    work()
  } catch ({ payload: { tag, val } }) {
    return [tag, val.text]
  }
  return ['nothing fails']
}

const client = locks.Client.connect(address)
const said = await actions[does](client.lock('hot', {}))
client.close()
console.log(String(said))
// The worker that waits for answers does not end by itself.
process.exit()
