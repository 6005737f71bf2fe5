// Very many locks, held and renewed by one process; times in seconds, where nothing else is said.
'use strict'

const fs = require('node:fs')
const { setTimeout: sleep } = require('node:timers/promises')

const sum = numbers => numbers.reduce((all, one) => all + one, 0)

/**
 * KiB of the process, once what nobody needs is collected. The pages that V8 finds empty in one collection it gives back in the
 * next.
 */
function memory() {
  require('node:v8').setFlagsFromString('--expose-gc')
  const collect = require('node:vm').runInNewContext('gc')
  collect()
  collect()
  return Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync('/proc/self/status', 'utf8'))[1])
}

/** The median time of a pair of one more lock, in microseconds. */
async function pair(client, pairs) {
  const took = []
  for (let i = 0; i < pairs; i++) {
    const began = process.hrtime.bigint()
    await (await client.lock('pair').acquire()).release()
    took.push(Number(process.hrtime.bigint() - began))
  }
  return took.sort((a, b) => a - b)[pairs >> 1] / 1e3
}

async function steady(client, seconds) {
  const [before, cpu, began] = [client.metrics(), process.cpuUsage(), performance.now()]
  await sleep(seconds * 1000)
  const { user, system } = process.cpuUsage(cpu)
  const [elapsed, after] = [performance.now() - began, client.metrics()]
  const [renewals, requests] = [after.renewals - before.renewals, after.roundTrips - before.roundTrips]
  return {
    cpu_a_minute: ((user + system) / 1e6 / (elapsed / 1000)) * 60,
    renewals,
    round_trips: requests,
    locks_a_request: renewals / Math.max(1, requests),
  }
}

/** Says what it took, as one JSON object. */
exports.hold = async (lockwright, url, locks, ttl, seconds, pairs) => {
  // Each lock that closing the client gives back would be shown.
  process.removeAllListeners('warning')
  const client = await lockwright.connect(url, { prefix: `bench:s11:${process.pid}:` })
  const options = { ttl: `${ttl}s` }
  const first = await client.lock('first', options).acquire()
  const seen = { locks, pair_us_before: await pair(client, pairs), idle_kib: memory() }
  const began = performance.now()
  const held = []
  for (let i = 0; i < locks; i++) held.push(await client.lock(`${i}`.padStart(6, '0'), options).acquire())
  seen.acquire_us_a_lock = ((performance.now() - began) * 1000) / locks
  // By then every lock was renewed at least once, and renewals have found their ticks.
  await sleep((ttl * 2000) / 3)
  seen.held_kib = memory()
  Object.assign(seen, await steady(client, seconds))
  seen.pair_us_held = await pair(client, pairs)
  seen.lost = sum(Object.values(client.metrics().lost))
  seen.threads = fs.readdirSync('/proc/self/task').length
  if (![first, ...held].every(guard => guard.isHeld)) throw new Error('not all are held')
  await client.close()
  process.stdout.write(`${JSON.stringify(seen)}\n`)
}
