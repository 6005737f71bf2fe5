// node-redlock 5 on one server or on several, as a peer: it obeys those commands of a shim that this library can obey, which the README of
// conformance describes. Its locks have no token, so 0 stands for it, and are not renewed.

import { closeSync, openSync, readFileSync, writeSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'

import { countUp, now, say } from '../../shims/node_common.mjs'

// Its type declarations and its ES module disagree about the default export: the CommonJS one is plain.
const { default: Redlock, ExecutionError, ResourceLockedError } = createRequire(import.meta.url)('redlock')
const Redis = createRequire(import.meta.url)('ioredis')

const POLL = 10
const TTL = 30

const clients = new Map()
const guards = new Map()

class Failed extends Error {
  constructor(code, message, retryable = false) {
    super(message)
    Object.assign(this, { code, retryable })
  }
}

/** One hold, and until when it lasts. */
class Held {
  token = 0

  constructor(nodes, lock, asked, ttl) {
    Object.assign(this, { nodes, lock, until: asked + ttl * 1e9 })
  }

  remaining() {
    return Math.max(0, (this.until - now()) / 1e9)
  }
}

/** What its errors hide: each server's vote has the reason. */
async function reasons(error) {
  if (!(error instanceof ExecutionError)) return [error]
  const votes = await Promise.all(error.attempts)
  return votes.flatMap(({ votesAgainst }) => [...votesAgainst.values()])
}

const isTaken = async error => (await reasons(error)).every(reason => reason instanceof ResourceLockedError)

/** Waits for as long as it takes where there is no timeout; null when it is over. */
async function acquire({ client, lock, ttl = TTL }, timeout) {
  const { nodes, redlock } = clients.get(client)
  const giveUp = timeout == null ? Infinity : performance.now() + timeout * 1000
  for (;;) {
    const asked = now()
    try {
      return new Held(nodes, await redlock.acquire([lock], Math.ceil(ttl * 1000)), asked, ttl)
    } catch (error) {
      if (!(await isTaken(error))) throw error
    }
    if (performance.now() >= giveUp) return null
    await pause(POLL)
  }
}

async function release(held) {
  try {
    await held.lock.release()
    return 'released'
  } catch (error) {
    if (await isTaken(error)) return 'stolen'
    throw error
  }
}

function keep(command, held) {
  guards.set(command.guard, held)
  return { token: 0, depth: 1, remaining: held.remaining() }
}

const does = {
  async open({ client, uri }) {
    const nodes = uri.split(' ').map(address => {
      const { hostname, port } = new URL(address)
      return new Redis({ host: hostname, port: Number(port) })
    })
    const redlock = new Redlock(nodes, { retryCount: 0 })
    // Whoever does not listen for its errors is ended by the first lock that is taken.
    redlock.on('error', () => {})
    clients.set(client, { nodes, redlock })
    return {}
  },
  async acquire(command) {
    const held = await acquire(command, command.timeout)
    if (held === null) throw new Failed('timeout', 'node-redlock did not get the lock in time', true)
    return keep(command, held)
  },
  async try(command) {
    const held = await acquire(command, 0)
    return held === null ? { taken: true } : keep(command, held)
  },
  async release({ guard }) {
    return { outcome: await release(guards.get(guard)) }
  },
  async extend({ guard, ttl }) {
    const held = guards.get(guard)
    const asked = now()
    try {
      held.lock = await held.lock.extend(Math.ceil(ttl * 1000))
    } catch (error) {
      throw new Failed('lost', `node-redlock could not extend: ${error.message}`)
    }
    held.until = asked + ttl * 1e9
    return {}
  },
  async state({ guard }) {
    const held = guards.get(guard)
    const values = await Promise.all(held.nodes.map(node => node.get(held.lock.resources[0])))
    const has = values.filter(value => value === held.lock.value).length
    return { held: has > values.length / 2, remaining: held.remaining(), why: null, token: 0, depth: 1 }
  },
  async work(command) {
    await Promise.all(Array.from({ length: command.tasks }, (_, i) => work(`${command.name}-${i}`, command)))
    return {}
  },
}

/** Counts up under the lock, and logs it as a shim's `work` does. */
async function work(task, command) {
  const log = openSync(command.log, 'a', 0o600)
  const note = (at, event) => writeSync(log, `${JSON.stringify({ at, pid: process.pid, task, token: 0, ...event })}\n`)
  for (let done = 0; done < command.increments; done++) {
    const asked = now()
    const held = await acquire(command, null)
    note(now(), { event: 'grant', asked, until: held.until })
    const begin = now()
    const value = countUp(task, command.counter)
    const at = now()
    note(at, { event: 'increment', begin, value, held: at < held.until, until: held.until })
    const outcome = await release(held)
    note(now(), { event: 'released', outcome })
  }
  closeSync(log)
}

async function answer({ id, ...command }) {
  try {
    const ok = await does[command.do](command)
    say({ id, at: now(), ok })
  } catch (error) {
    const { code = error.name, retryable = false, message } = error
    say({ id, at: now(), error: { code, retryable, message } })
  }
}

const { version } = JSON.parse(readFileSync(new URL('node_modules/redlock/package.json', import.meta.url), 'utf8'))
say({ pid: process.pid, language: 'node-redlock', version: version.replace(/^v/, '') })
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line)
  if (command.do === 'exit') break
  void answer(command)
}
process.exit()
