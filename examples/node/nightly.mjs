// A job for the crontab of every host, which one of them does: `node nightly.mjs LOG`.

import { writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'

import { connect } from 'lockwright'

// Longer than the clocks of the hosts differ, so that a late one finds the lock taken.
const AT_LEAST = Number(process.env.AT_LEAST ?? 60_000)

const [log] = process.argv.slice(2)
const client = await connect()
const guard = await client.lock('nightly-report', { ttl: 30_000, label: 'nightly' }).tryAcquire()
if (guard === null) {
  console.log('another host does it')
} else {
  try {
    const over = sleep(AT_LEAST)
    // Ends early if the lock is lost: then another host may do it, too.
    await writeFile(log, `report under token ${guard.token}\n`, { flag: 'a', signal: guard.signal })
    await over
    console.log('done')
  } finally {
    await guard.release()
  }
}
await client.close()
