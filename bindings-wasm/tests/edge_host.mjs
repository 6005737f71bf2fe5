// What is around the plugin in its test: hosts that serve it, its origin, and other languages that claim as it does.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

import { Origin } from '../../examples/edge/origin.mjs'
import { freePort } from '../npm/tests/workerd.mjs'

const HERE = fileURLToPath(new URL('.', import.meta.url))
const JCO = join(HERE, 'tools/node_modules/@bytecodealliance/jco/dist/jco.js')
const DENIED = join(HERE, 'edge_denied.mjs')

/**
 * The command that serves at a port: jco's, unless Wasmtime is asked for, with words of its own. That has an instance for each
 * request of WASI 0.2 anyway, and for many of WASI 0.3.
 */
function command(plugin, port, folder, environment, { tcp = true, isolated = false, words = [] }) {
  if (process.env.LOCKWRIGHT_TEST_EDGE_HOST === 'wasmtime') {
    const given = Object.keys(environment).flatMap(name => ['--env', name])
    const granted = tcp ? 'cli,inherit-network,tcp,allow-ip-name-lookup' : 'cli'
    return ['wasmtime', 'serve', '--addr', `127.0.0.1:${port}`, '-S', granted, ...given, ...words, plugin]
  }
  const those = ['--host', '127.0.0.1', '--port', String(port), '--jco-dir', folder]
  if (isolated) those.push('--isolate-requests', 'instance')
  if (!tcp) those.push('--jco-import', DENIED)
  return [process.execPath, JCO, 'serve', ...those, plugin]
}

const hosts = new Set()

/** Serves `plugin` with what is in `environment`, until all are stopped. */
export async function serve(plugin, environment, how = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'lockwright-edge-'))
  const port = await freePort()
  const [program, ...words] = command(plugin, port, folder, environment, how)
  // What serves is a child of jco's: a group of their own ends both.
  const host = spawn(program, words, { env: { ...process.env, ...environment }, detached: true, stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  host.stderr.on('data', bytes => (said += bytes))
  const ended = once(host, 'close')
  hosts.add(async () => {
    try {
      process.kill(-host.pid, 'SIGKILL')
    } catch (error) {
      // It ended by itself.
      if (error.code !== 'ESRCH') throw error
    }
    await ended
    rmSync(folder, { recursive: true, force: true })
  })
  while (!/listening|Serving/.test(said)) {
    const heard = await Promise.race([once(host.stderr, 'data'), ended.then(() => undefined)])
    if (heard === undefined) throw new Error(`nothing is served: ${said}`)
  }
  return { url: `http://127.0.0.1:${port}`, said: () => said, rests: () => rests(host.pid) }
}

/** Waits until no thread of that process computes, or wants to. */
async function rests(pid) {
  const computes = task => {
    try {
      return / R /.test(readFileSync(`/proc/${pid}/task/${task}/stat`, 'utf8'))
    } catch {
      // It ended meanwhile.
      return false
    }
  }
  while (readdirSync(`/proc/${pid}/task`).some(computes)) await sleep(5)
}

/** Those that could not be begun, too. */
export const stopAll = () => Promise.all(Array.from(hosts, stop => stop()))

/** An origin that tells what was written at it. */
export class Watched extends Origin {
  tokens = []
  refused = 0
  /** Whether it leaves whoever writes without an answer. */
  silent = false
  /** What whoever writes one of these coupons waits for. */
  waits = new Map()

  async write(name, left, token) {
    if (this.silent) await new Promise(() => undefined)
    await this.waits.get(name)
    this.tokens.push(token)
    const status = super.write(name, left, token)
    if (status === 409) this.refused++
    return status
  }
}

/** Claims a coupon as the plugin does, for whoever has the lock with this token; whether one was claimed. */
export async function claim(origin, name, token) {
  const url = `${origin}/coupons/${name}`
  const left = Number(await (await fetch(url)).text())
  if (left === 0) return false
  const { status } = await fetch(`${url}?fence=${token}`, { method: 'PUT', body: String(left - 1) })
  return status === 204
}

/** A client in another language: one of the shims of the conformance suite, whose README has the commands. */
export class Shim {
  #process
  #waiting = new Map()
  #last = 0

  constructor(...command) {
    this.#process = spawn(command[0], command.slice(1), { stdio: ['pipe', 'pipe', 'inherit'] })
    createInterface(this.#process.stdout).on('line', line => {
      const { id, ok, error } = JSON.parse(line)
      this.#waiting.get(id)?.(ok === undefined ? Promise.reject(new Error(error.message)) : ok)
    })
    this.#process.on('close', code => {
      for (const settle of this.#waiting.values()) settle(Promise.reject(new Error(`${command[0]} ended with ${code}`)))
    })
  }

  async ask(command, words) {
    const id = ++this.#last
    const answer = new Promise(settle => this.#waiting.set(id, settle))
    this.#process.stdin.write(`${JSON.stringify({ id, do: command, ...words })}\n`)
    return await answer.finally(() => this.#waiting.delete(id))
  }

  async stop() {
    const ended = once(this.#process, 'close')
    this.#process.stdin.end()
    await ended
  }
}
