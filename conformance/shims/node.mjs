// The shim of the Node face, and with the argument `wasm` that of the npm package for WebAssembly, which has its names. The README of
// this folder's parent says what a shim does.

import { closeSync, existsSync, openSync, readFileSync, writeSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setImmediate as tick, setTimeout as sleep } from 'node:timers/promises'
import { inspect } from 'node:util'

import { countUp, now, replace, say } from './node_common.mjs'

const isWasm = process.argv[2] === 'wasm'
const { connect: dial, LockError, onEvent, Owner, webSocket } = await import(isWasm ? '../../bindings-wasm/npm/dist/index.js' : '../../bindings-node/dist/index.mjs')

const milliseconds = seconds => Number(seconds === 'nan' ? NaN : seconds === 'inf' ? Infinity : seconds) * 1000
// JSON has no infinity.
const seconds = milliseconds => Math.min(milliseconds / 1000, Number.MAX_SAFE_INTEGER)

/** A client; the name of a lock server is its port. */
function connect(uri) {
  return uri.startsWith('lockwright://') ? dial(uri, { transport: webSocket(port => new WebSocket(`ws://127.0.0.1:${port}/`)) }) : dial(uri)
}

const clients = new Map()
const uris = new Map()
const guards = new Map()
const owners = new Map()
const waiting = new Map()
const running = new Map()
const stocks = new Map()
const segments = new Map()

const SPANS = { timeout: 'timeout', ttl: 'ttl', max_hold: 'maxHold', at_least_for: 'atLeastFor' }
const OPTIONS = ['renew', 'fair', 'rank', 'revocable', 'label', 'layout', 'format']

function optionsOf(command) {
  const options = {}
  for (const name of OPTIONS) if (command[name] != null) options[name] = command[name]
  for (const [name, ours] of Object.entries(SPANS)) if (command[name] != null) options[ours] = milliseconds(command[name])
  if (command.owner != null) options.reentrant = true
  return options
}

/** A promise that is kept from outside. */
function deferred() {
  const made = {}
  made.promise = new Promise(done => (made.done = done))
  return made
}

let resetting = deferred()

const nameOf = ({ lock, lock_utf16 }) => (lock_utf16 == null ? lock : String.fromCharCode(...lock_utf16))
const lockOf = command => madeBy(clients.get(command.client), command)

/** The lock, several locks, read/write lock's part or semaphore that a command names. */
function madeBy(client, command) {
  const [name, options] = [nameOf(command), optionsOf(command)]
  if (command.with != null) return client.multiLock([...command.with, name], options)
  if (command.permits != null) return client.semaphore(name, command.permits, { ...options, take: command.take ?? 1 })
  if (command.share != null) return client.rwlock(name, options)[command.share]
  return client.lock(name, options)
}

/** Keeps the guard under the command's name. */
function keep(command, guard) {
  const at = now()
  guards.set(command.guard, guard)
  const { depth = 1 } = guard
  return { at, token: tokenOf(guard, command), depth, remaining: seconds(guard.remaining()) }
}

/** The token, of several locks that of the one that the command names. */
const tokenOf = (guard, command) => guard.token ?? guard.tokens.get(nameOf(command))

/** The same one for each command: what is sold out is known to it alone. */
function stripedOf(command) {
  const { client, lock, segments: count } = command
  const key = JSON.stringify([client, lock, count])
  if (!stocks.has(key)) stocks.set(key, clients.get(client).striped(lock, count, optionsOf(command)))
  return stocks.get(key)
}

const electionOf = command => clients.get(command.client).election(command.lock, optionsOf(command))

function leaderOf(leader) {
  if (leader === undefined) return { leader: null }
  const { proclaims, pid, language, token } = leader
  return { leader: { proclaims, pid, language, token } }
}

async function ownClient(command, i) {
  const name = `${command.client}/${i}`
  if (!clients.has(name)) clients.set(name, await connect(uris.get(command.client)))
  return clients.get(name)
}

const does = {
  async open({ client, uri }) {
    clients.set(client, await connect(uri))
    uris.set(client, uri)
    return { shown: inspect(clients.get(client)) }
  },
  async guarantees({ client }) {
    const snake = name => name.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)
    const promised = Object.entries(clients.get(client).guarantees())
    return Object.fromEntries(promised.map(([name, value]) => [snake(name), value]))
  },
  async require({ client, wants }) {
    const camel = name => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase())
    clients.get(client).require(Object.fromEntries(wants.map(name => [camel(name), true])))
    return {}
  },
  async acquire(command) {
    const giveUp = new AbortController()
    waiting.set(command.id, giveUp)
    const guard = await lockOf(command)
      .acquire({ signal: giveUp.signal })
      .finally(() => waiting.delete(command.id))
    return keep(command, guard)
  },
  async try(command) {
    const guard = await lockOf(command).tryAcquire()
    return guard === null ? { taken: true } : keep(command, guard)
  },
  async cancel({ command }) {
    waiting.get(command)?.abort()
    return {}
  },
  async release(command) {
    const guard = guards.get(command.guard)
    const outcome = await guard.release()
    return outcome === 'kept' ? { outcome, kept: guard.depth - 1 } : { outcome }
  },
  async extend({ guard, ttl }) {
    await guards.get(guard).extend(milliseconds(ttl))
    return {}
  },
  async downgrade({ guard }) {
    await guards.get(guard).downgrade()
    return {}
  },
  async upgrade({ guard }) {
    return { upgraded: await guards.get(guard).tryUpgrade() }
  },
  async resize(command) {
    await clients.get(command.client).semaphore(nameOf(command), 1).resize(command.permits)
    return {}
  },
  async export({ guard, ttl }) {
    return { secret: await guards.get(guard).export(milliseconds(ttl)) }
  },
  async resume(command) {
    const { client, lock, secret } = command
    const resumed = lock == null ? clients.get(client).resume(secret, optionsOf(command)) : lockOf(command).resume(secret)
    return keep(command, await resumed)
  },
  async hold_at_least_for({ guard, span }) {
    guards.get(guard).holdAtLeastFor(milliseconds(span))
    return {}
  },
  async ping({ client }) {
    const { took, mayEvict } = await clients.get(client).ping()
    return { took: seconds(took), may_evict: mayEvict }
  },
  async drain({ client, limit }) {
    return { held: await clients.get(client).drain(milliseconds(limit)) }
  },
  async state(command) {
    const guard = guards.get(command.guard)
    const { isHeld: held, whyLost: why = null, token, depth = 1 } = guard
    return { held, why, token, depth, remaining: seconds(guard.remaining()) }
  },
  async lost(command) {
    const guard = guards.get(command.guard)
    const { signal } = guard
    // Whoever waits for the loss of a guard that was released would do so for ever.
    const lost = new Promise(lost => signal.addEventListener('abort', lost, { once: true }))
    if (!signal.aborted) await Promise.race([lost, resetting.promise])
    return { why: guard.whyLost }
  },
  async abandon({ guard }) {
    guards.delete(guard)
    // A finalizer runs in a task of its own, some time after the collector.
    collect()
    return {}
  },
  async inspect(command) {
    const { layout, waiters, holder, primitive, shared, latch } = await clients.get(command.client).inspect(nameOf(command))
    const holders = shared?.holders.map(part => ({ holds: part.holds, ...holderOf(part.holder) }))
    const sharing = shared === undefined ? null : { primitive: shared.primitive, permits: shared.permits ?? null, holders }
    const seen = { layout, waiters, primitive: primitive ?? null, shared: sharing, latch: latch ?? null }
    return { ...seen, holder: holder === undefined ? null : holderOf(holder) }
  },
  async list({ client }) {
    return { names: await clients.get(client).list() }
  },
  async break(command) {
    return { broken: await clients.get(command.client).breakLock(nameOf(command), BigInt(command.token)) }
  },
  async request_release(command) {
    return { asked: await lockOf(command).requestRelease(BigInt(command.token)) }
  },
  async requested({ guard }) {
    const held = guards.get(guard)
    await Promise.race([new Promise(asked => held.onReleaseRequested(asked)), resetting.promise])
    return { requested: held.releaseRequested }
  },
  async close({ client }) {
    await clients.get(client).close()
    return {}
  },
  /** Ends all that is in hand, and has nothing any more but the process itself. */
  async reset({ id }) {
    for (const client of clients.values()) await client.close()
    resetting.done()
    resetting = deferred()
    await Promise.all([...running].map(([number, command]) => (number === id ? undefined : command)))
    for (const kept of [clients, uris, guards, owners, stocks, segments]) kept.clear()
    return {}
  },
  async work(command) {
    const tasks = Array.from({ length: command.tasks }, async (_, i) => {
      const client = command.own_clients ? await ownClient(command, i) : clients.get(command.client)
      return work(`${command.name}-${i}`, madeBy(client, command), command)
    })
    return { retries: (await Promise.all(tasks)).flat() }
  },
  async count(command) {
    const log = openSync(command.log, 'a', 0o600)
    increment(guards.get(command.guard), command.asked, noter(log, command.name, command), command.name, command)
    closeSync(log)
    return {}
  },
  async segment(command) {
    const striped = stripedOf(command)
    if (command.key != null) {
      const guard = await striped.forKey(command.key).acquire()
      return { ...keep(command, guard), index: striped.indexFor(command.key) }
    }
    const segment = await striped.any(command.timeout == null ? undefined : { timeout: milliseconds(command.timeout) })
    if (segment === null) return { none: true }
    segments.set(command.guard, segment)
    return { ...keep(command, segment.guard), index: segment.index }
  },
  async sold_out({ guard }) {
    return { outcome: await segments.get(guard).soldOut() }
  },
  async restock(command) {
    stripedOf(command).restock()
    return {}
  },
  async once(command) {
    const client = clients.get(command.client)
    const gate = command.gate == null ? undefined : client.lock(command.gate, optionsOf(command))
    let made = false
    const make = async () => {
      made = true
      await gate?.using(async () => {})
      const value = (look(command.value)?.value ?? 0) + 1
      replace(command.value, 'making', value)
      return value
    }
    const job = { look: () => look(command.value), make, waits: command.waits === true }
    const value = await client.once(command.lock, job, optionsOf(command)).get()
    return { value, made }
  },
  async campaign(command) {
    return keep(command, await electionOf(command).campaign(command.proclaims))
  },
  async lead(command) {
    const gate = clients.get(command.client).lock(command.gate)
    let reigns = 0
    const token = await electionOf(command).run(command.proclaims, async guard => {
      reigns++
      while (guard.isHeld) {
        const passed = await gate.tryAcquire()
        await passed?.release()
        if (passed !== null) break
        await sleep(20)
      }
      return guard.token
    })
    return { token, reigns }
  },
  async latch(command) {
    const latch = clients.get(command.client).latch(nameOf(command), command.count)
    const timeout = command.timeout == null ? undefined : milliseconds(command.timeout)
    const answers = {
      wait: () => latch.wait({ timeout }),
      count_down: () => latch.countDown(),
      count: () => latch.count(),
      try_set_count: () => latch.trySetCount(command.to),
    }
    return { answer: await answers[command.asks]() }
  },
  async barrier(command) {
    const ttl = command.ttl == null ? undefined : milliseconds(command.ttl)
    const barrier = clients.get(command.client).barrier(nameOf(command), command.parties, { ttl })
    if (command.asks === 'waiting') return { waiting: await barrier.waiting() }
    const timeout = command.timeout == null ? undefined : milliseconds(command.timeout)
    const arrivals = []
    for (let time = 0; time < (command.times ?? 1); time++) {
      const arrival = await barrier.wait({ timeout })
      if (arrival === null) return { passed: false }
      arrivals.push(arrival)
    }
    return { passed: true, index: arrivals.at(-1).index, generations: arrivals.map(({ generation }) => Number(generation)) }
  },
  async leader(command) {
    return leaderOf(await electionOf(command).leader())
  },
  async changed(command) {
    const known = command.known == null ? undefined : BigInt(command.known)
    return leaderOf(await electionOf(command).changed(known, { every: milliseconds(command.every) }))
  },
}

function holderOf({ firstToken: first_token, lastToken: last_token, heldFor, remaining, host, pid, language, label }) {
  const held_for = heldFor === undefined ? null : seconds(heldFor)
  return { first_token, last_token, remaining: seconds(remaining), held_for, host, pid, language, label }
}

function collect() {
  let rounds = 20
  const again = () => {
    globalThis.gc?.()
    if (--rounds > 0) setTimeout(again, 5)
  }
  setImmediate(again)
}

/** Appends what a task says of itself. */
function noter(log, task, command) {
  return (guard, at, event) => {
    const token = Number(tokenOf(guard, command))
    writeSync(log, `${JSON.stringify({ at, pid: process.pid, task, token, ...event })}\n`)
  }
}

/** The value that jobs make: a number, and whether it is good. */
function look(file) {
  if (!existsSync(file)) return undefined
  const [number, stale] = readFileSync(file, 'utf8').split(' ')
  return { value: Number(number), fresh: stale === undefined }
}

async function work(task, lock, command) {
  const log = openSync(command.log, 'a', 0o600)
  const note = noter(log, task, command)
  const retries = []
  for (let done = 0; done < command.increments; ) {
    try {
      // In a tick of its own: what is asked goes out when all have had their say that run in the same one.
      await tick()
      const asked = now()
      const guard = await lock.acquire()
      increment(guard, asked, note, task, command)
      const outcome = await guard.release()
      note(guard, now(), { event: 'released', outcome })
      done++
    } catch (error) {
      if (!(error instanceof LockError && error.retryable)) throw error
      retries.push(error.code)
    }
  }
  closeSync(log)
  return retries
}

function increment(guard, asked, note, task, { counter, share, take = 1 }) {
  const units = share === 'write' ? 2 ** 30 : take
  const until = at => at + Math.floor(guard.remaining() * 1e6)
  let at = now()
  note(guard, at, { event: 'grant', asked, until: until(at), units })
  const begin = now()
  const value = countUp(task, counter)
  // The guard is asked after the clock: what it still says then was true at that time.
  at = now()
  note(guard, at, { event: 'increment', begin, value, held: guard.isHeld, until: until(at) })
  if (guard.whyLost !== undefined) note(guard, now(), { event: 'lost', why: guard.whyLost })
}

/** The commands of one owner begin one after another, as those of a task do. */
function ownerOf(number) {
  if (!owners.has(number)) owners.set(number, { owner: new Owner(), last: Promise.resolve() })
  return owners.get(number)
}

async function answer(command) {
  const { id } = command
  try {
    const { at = now(), ...ok } = await does[command.do](command)
    say({ id, at, ok })
  } catch (error) {
    const code = error instanceof LockError ? error.code : error.name === 'AbortError' ? 'cancelled' : error.name
    say({ id, at: now(), error: { code, retryable: error.retryable === true, message: error.message, debug: inspect(error) } })
  }
}

function dispatch(command) {
  const done = begin(command)
  running.set(command.id, done)
  void done.finally(() => running.delete(command.id))
}

function begin(command) {
  if (command.owner == null) return answer(command)
  const place = ownerOf(command.owner)
  place.last = place.last.then(() => place.owner.run(() => answer(command)))
  return place.last
}

if (process.env.LOCKWRIGHT_SHIM_LOGS && !isWasm) onEvent('trace', event => console.error(inspect(event, { breakLength: Infinity })))
say({ pid: process.pid, language: isWasm ? 'wasm-js' : 'node', resets: true })
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line)
  if (command.do === 'exit') break
  dispatch(command)
}
process.stdin.destroy()
// Nothing else may keep the process alive; what still works does, for a while.
for (const giveUp of waiting.values()) giveUp.abort()
setTimeout(() => process.exit(), 1_000).unref()
