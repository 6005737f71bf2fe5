// The plugin of plugin.rs, composed with the component for each kind of server, that server, and what may be between them.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createConnection, createServer } from 'node:net'

import { serve } from '../edge_host.mjs'

const { LOCKWRIGHT_TEST_REDIS, LOCKWRIGHT_TEST_REDIS_TLS, LOCKWRIGHT_TEST_ETCD } = process.env
const { LOCKWRIGHT_TEST_CALLS_PLUGIN, LOCKWRIGHT_TEST_CALLS_PLUGIN_TLS, LOCKWRIGHT_TEST_CALLS_PLUGIN_ETCD } = process.env

export const REDIS = { address: LOCKWRIGHT_TEST_REDIS, plugin: LOCKWRIGHT_TEST_CALLS_PLUGIN }
export const REDIS_TLS = { address: LOCKWRIGHT_TEST_REDIS_TLS, plugin: LOCKWRIGHT_TEST_CALLS_PLUGIN_TLS }
export const ETCD = { address: LOCKWRIGHT_TEST_ETCD, plugin: LOCKWRIGHT_TEST_CALLS_PLUGIN_ETCD }

/** An address of that server with these options more, or at another port. */
export function at({ address }, options, port) {
  const url = new URL(address)
  if (port !== undefined) url.port = String(port)
  for (const [name, value] of Object.entries(options)) url.searchParams.set(name, value)
  return url.href
}

/** What the plugin reads of an address: it has no files, so those of TLS are given as text. */
function environment(address, certificates) {
  const url = new URL(address)
  const given = {}
  for (const name of ['ca', 'cert', 'key']) {
    const file = certificates[name] ?? url.searchParams.get(name)
    if (file) given[name.toUpperCase()] = readFileSync(file, 'utf8')
    url.searchParams.delete(name)
  }
  return { ...given, LOCKWRIGHT_URL: url.href }
}

/** Has Wasmtime serve all requests by one instance. */
export const SHARED = ['--max-instance-reuse-count', '100000', '--max-instance-concurrent-reuse-count', '1000']

/** Serves the plugin, one instance of it for all calls: how it is called, and what the host says. */
export async function served(plugin, address, { certificates = {}, tcp = true } = {}) {
  const host = await serve(plugin, environment(address, certificates), { words: SHARED, tcp })
  const call = async (what, name, ms = 0) => {
    const answer = await fetch(`${host.url}/${what}/${name}/${ms}`, { method: 'POST' })
    return await answer.text()
  }
  return { call, said: host.said }
}

/** Between a host and a server: each connection of the one to the other goes through it, for as long as it lets them. */
export class Between {
  open = new Set()
  dialled = 0
  #listening = createServer()

  constructor({ address }) {
    const { hostname, port } = new URL(address)
    this.#listening.on('connection', socket => {
      this.dialled++
      this.open.add(socket)
      const server = createConnection(Number(port), hostname)
      for (const end of [socket, server]) end.on('error', () => undefined)
      socket.on('close', () => {
        this.open.delete(socket)
        server.destroy()
      })
      socket.pipe(server).pipe(socket)
    })
  }

  /** Begins, or begins again where it was; the port. */
  async listen(port = 0) {
    this.#listening.listen(port, '127.0.0.1')
    await once(this.#listening, 'listening')
    return this.#listening.address().port
  }

  /** The next connection of the host's. */
  next() {
    return once(this.#listening, 'connection')
  }

  cut() {
    for (const socket of this.open) socket.destroy()
  }

  async close() {
    const closed = once(this.#listening, 'close')
    this.#listening.close()
    this.cut()
    await closed
  }
}
