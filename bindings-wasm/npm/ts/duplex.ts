import { closed, type Connection, type Events, type Transport } from './transport.js'

/** A connection as most runtimes have one. */
export interface Duplex {
  /** Sends these bytes after all before. */
  send(bytes: Uint8Array): void | PromiseLike<unknown>
  /** The next bytes that come, some at least; nothing once the other side ended. */
  receive(): PromiseLike<Uint8Array | null | undefined>
  /** Ends it. */
  close?(): unknown
}

/**
 * The transport that opens connections in this way. What `open` or `send` throws ends the connection, with the error's `code` where it has one. The signal aborts
 * when nobody waits for the connection any more.
 */
export function duplex(open: (host: string, port: number, signal: AbortSignal) => Duplex | PromiseLike<Duplex>): Transport {
  return { connect: (host, port, events) => new Wire(signal => open(host, port, signal), events) }
}

class Wire implements Connection {
  #over = false
  readonly #unwanted = new AbortController()
  #stream: Duplex | undefined
  readonly #events: Events

  constructor(open: (signal: AbortSignal) => Duplex | PromiseLike<Duplex>, events: Events) {
    this.#events = events
    void this.#run(open)
  }

  async #run(open: (signal: AbortSignal) => Duplex | PromiseLike<Duplex>): Promise<void> {
    try {
      const stream = await open(this.#unwanted.signal)
      if (this.#over) return void stream.close?.()
      this.#stream = stream
      this.#events.opened()
      for (;;) {
        const bytes = await stream.receive()
        if (this.#over) return
        if (bytes === null || bytes === undefined) return this.#end()
        this.#events.received(bytes)
      }
    } catch (error) {
      this.#end(error)
    }
  }

  #end(error?: unknown): void {
    if (this.#over) return
    this.end()
    const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown }
    if (error === undefined) this.#events.ended()
    else this.#events.ended(typeof code === 'string' ? code : 'EIO', String(message ?? error))
  }

  send(bytes: Uint8Array): void {
    void (async () => this.#stream?.send(bytes))().catch((error: unknown) => this.#end(error))
  }

  end(): void {
    this.#over = true
    this.#unwanted.abort()
    closed(this.#stream)
  }
}
