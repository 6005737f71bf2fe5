import { DurableObject } from 'cloudflare:workers'

import { Server, initSync } from '../wasm/server.js'
import module from '../wasm/server_bg.wasm'

initSync({ module })

// By these ways the types are the same as in Cloudflare's own, which have other names for them.
type State = ConstructorParameters<typeof DurableObject>[0]
type ObjectSocket = Parameters<NonNullable<DurableObject['webSocketMessage']>>[0]

/** Where the server has its records. */
interface Disk {
  /** The word and the text of a record. */
  load(key: string): string[] | undefined
  keep(key: string, kind: string, record: string): void
  remove(key: string): void
  /** Of the first so many records above `after` their keys, words and texts, one behind the other. */
  page(after: string, count: number): string[]
}

/** What a socket keeps while the object sleeps. */
interface Known {
  readonly id: number
  readonly channels: string[]
}

/**
 * A lock server in a Durable Object with storage in SQLite: whoever reaches the object shares its locks. Each record is on its disk before any answer leaves it, so
 * an object that is evicted, restarted or moved goes on with the locks that it had; clients connect again.
 *
 * Export the class from the Worker, bind a namespace to it, and connect to `lockwright://NAME` by the transport `lockServer(env.LOCKS)`. Every name is an object of its
 * own. Whom to let in is the Worker's to say: the object asks for no password.
 */
export class LockServer extends DurableObject {
  readonly #server: Server
  readonly #sockets = new Map<number, ObjectSocket>()
  #last = 0
  /** The alarm is known to be set. */
  #wakes = false

  constructor(state: State, env: unknown) {
    super(state, env)
    const { sql } = state.storage
    sql.exec('CREATE TABLE IF NOT EXISTS records (key TEXT PRIMARY KEY, kind TEXT NOT NULL, record TEXT NOT NULL) WITHOUT ROWID')
    const disk: Disk = {
      load: key => sql.exec('SELECT kind, record FROM records WHERE key = ?', key).raw().next().value,
      keep: (key, kind, record) => void sql.exec('INSERT OR REPLACE INTO records VALUES (?, ?, ?)', key, kind, record),
      remove: key => void sql.exec('DELETE FROM records WHERE key = ?', key),
      page: (after, count) => [...sql.exec('SELECT * FROM records WHERE key > ? ORDER BY key LIMIT ?', after, count).raw()].flat(),
    }
    this.#server = new Server(disk)
    for (const socket of state.getWebSockets()) {
      const { id, channels } = socket.deserializeAttachment() as Known
      this.#sockets.set(id, socket)
      this.#last = Math.max(this.#last, id)
      for (const channel of channels) this.#server.listens(id, channel)
    }
  }

  /** Takes a client's WebSocket. */
  override async fetch(request: Request): Promise<Response> {
    if (request.headers.get('Upgrade') !== 'websocket') return new Response('A lock server speaks over WebSockets only.\n', { status: 426 })
    const [theirs, ours] = Object.values(new WebSocketPair()) as [ObjectSocket, ObjectSocket]
    const id = ++this.#last
    this.ctx.acceptWebSocket(ours)
    ours.serializeAttachment({ id, channels: [] } satisfies Known)
    this.#sockets.set(id, ours)
    return new Response(null, { status: 101, webSocket: theirs } as ResponseInit)
  }

  override async webSocketMessage(socket: ObjectSocket, message: ArrayBuffer | string): Promise<void> {
    const { id, channels } = socket.deserializeAttachment() as Known
    // What was sent before its socket was closed by this side is not done.
    if (!this.#sockets.has(id)) return
    const sent = typeof message === 'string' ? undefined : this.#asks(server => server.came(id, new Uint8Array(message), Date.now()))
    if (sent === undefined) {
      this.#forget(socket)
      return socket.close(1003, 'this is no command of a lock server')
    }
    const now = this.#server.channels(id)
    if (String(now) !== String(channels)) socket.serializeAttachment({ id, channels: now } satisfies Known)
    for (let at = 0; at < sent.length; at += 2) this.#send(sent[at] as number, sent[at + 1] as Uint8Array)
    if (!this.#wakes) await this.#wake()
  }

  override async webSocketClose(socket: ObjectSocket): Promise<void> {
    this.#forget(socket)
    // What was closed already throws.
    try {
      socket.close()
    } catch {}
  }

  override async webSocketError(socket: ObjectSocket): Promise<void> {
    this.#forget(socket)
  }

  /** Removes what nobody used for ten minutes, with the leases that ended. */
  override async alarm(): Promise<void> {
    this.#wakes = false
    if (this.#asks(server => server.sweep(Date.now()))) await this.#wake()
  }

  /** What the server answers. Where it throws, as when its disk is full, it stopped in the middle: the next object goes on with what is on the disk. */
  #asks<T>(ask: (server: Server) => T): T {
    try {
      return ask(this.#server)
    } catch (error) {
      this.ctx.abort(`the lock server failed: ${String(error)}`)
      throw error
    }
  }

  async #wake(): Promise<void> {
    const { storage } = this.ctx
    if ((await storage.getAlarm()) === null) await storage.setAlarm(Date.now() + this.#server.idle)
    this.#wakes = true
  }

  #forget(socket: ObjectSocket): void {
    const { id } = socket.deserializeAttachment() as Known
    this.#sockets.delete(id)
    this.#server.ended(id)
  }

  #send(id: number, bytes: Uint8Array): void {
    // Whose socket is ending hears nothing more, and finds out by itself.
    try {
      this.#sockets.get(id)?.send(bytes)
    } catch {}
  }
}
