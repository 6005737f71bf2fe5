// What comes of several changes of one guard at once: the same for whatever speaks for the library here.

import assert from 'node:assert/strict'

const TTL = 10_000

/** How the first of two ended that were asked at once; a store in this process may have done it before the second was asked. */
function isOneOf(client, code, seen) {
  assert.ok(seen === code || (seen === 'ok' && !client.address.startsWith('redis')), `${seen} for ${code} on ${client.address}`)
}

/** How each ended: `ok`, or the code of its error. */
async function codes(...asked) {
  const ended = await Promise.allSettled(asked)
  return ended.map(({ status, reason }) => (status === 'fulfilled' ? 'ok' : reason.code ?? reason.stack))
}

/** A release wins over an export under way, whatever becomes of that, and the lock is free when it says so. */
async function releaseWins(client) {
  const lock = client.lock('one')
  for (const [ttl, code] of [[TTL, 'not_owned'], [1, 'invalid_config']]) {
    const guard = await lock.acquire()
    const exporting = guard.export(ttl)
    const [releasing, again] = [guard.release(), guard.release()]
    assert.deepEqual(await codes(exporting, releasing, again), [code, 'ok', 'not_owned'])
    assert.equal(await releasing, 'released')
    await (await lock.acquire({ timeout: 0 })).release()
  }
  const all = await client.multiLock(['one', 'two']).acquire()
  assert.deepEqual(await codes(all.guards[0].export(TTL), all.release()), ['not_owned', 'ok'])
  await (await client.multiLock(['one', 'two']).acquire({ timeout: 0 })).release()
  const extended = await lock.acquire()
  const [extending, released] = await codes(extended.extend(TTL), extended.release())
  isOneOf(client, 'lost', extending)
  assert.equal(released, 'ok')
  await (await lock.acquire({ timeout: 0 })).release()
}

/** All else is refused while it is exported, and the export goes on. */
async function exportGoesOn(client) {
  const guard = await client.lock('one').acquire()
  const exporting = guard.export(TTL)
  assert.deepEqual(await codes(guard.export(TTL), guard.extend(TTL)), ['unavailable', 'unavailable'])
  const resumed = await client.resume(await exporting)
  assert.deepEqual(await codes(guard.release(), guard.extend(TTL)), ['not_owned', 'not_owned'])
  assert.equal(await resumed.release(), 'released')
  const left = await client.lock('one').using(guard => [guard.export(TTL)])
  await (await client.resume(await left[0])).release()
}

/** One change of part at a time; an export that is refused leaves the guard, and its token, as the change made them. */
async function oneChange(client) {
  const both = client.rwlock('both')
  const writer = await both.write.acquire()
  const [first, second] = await codes(writer.downgrade(), writer.tryUpgrade())
  assert.equal(first, 'ok')
  isOneOf(client, 'unavailable', second)
  await writer.downgrade()
  const before = writer.token
  assert.deepEqual(await codes(writer.tryUpgrade(), writer.export(TTL)), ['ok', 'unsupported'])
  assert.ok(writer.token > before && writer.isHeld)
  const [changed, released] = await codes(writer.downgrade(), writer.release())
  isOneOf(client, 'lost', changed)
  assert.equal(released, 'ok')
  await (await both.write.acquire({ timeout: 0 })).release()
}

export async function atOnce(client) {
  await releaseWins(client)
  await exportGoesOn(client)
  await oneChange(client)
}
