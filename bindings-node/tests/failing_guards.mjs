// How guards end that do not end well: the same for whatever speaks for the library here.

import assert from 'node:assert/strict'

function busy(ms) {
  for (const until = performance.now() + ms; performance.now() < until;);
}

/** What was lost, and only an export shows it: `other` is another client of the same place. */
export async function anExportThatFindsItLost(client, other) {
  await client.lock('left', { ttl: 5_000 }).using(async guard => {
    const { signal } = guard
    await other.breakLock('left', guard.token)
    await assert.rejects(guard.export(5_000), { code: 'lost' })
    assert.ok(!guard.isHeld && guard.whyLost !== undefined && signal.aborted && guard.signal === signal)
    assert.equal(signal.reason.code, 'lost')
    await assert.rejects(guard.release(), error => error.code === 'not_owned' && !error.message.includes('was exported'))
  })
}

/** Whoever has no time for its event loop learns of the loss by asking. */
export async function aLossThatTheEventLoopHadNoTimeToTell(client) {
  for (const ask of [guard => guard.whyLost, guard => guard.signal]) {
    const guard = await client.lock('late', { ttl: 100, renew: false }).acquire()
    const { signal } = guard
    busy(150)
    ask(guard)
    assert.ok(signal.aborted && signal.reason.code === 'lost')
    await guard.release()
  }
}
