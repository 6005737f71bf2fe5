import { type Duplex, duplex } from './duplex.js'
import type { Transport } from './transport.js'

/** As runtimes have one, as far as it is used; each declares it in types of its own, so these take them all. */
export interface Socket {
  binaryType?: string
  readonly readyState: number
  send(bytes: any): void
  close(): void
  addEventListener(type: string, listener: (event: any) => void): void
}

/** @internal What ends a connection that nobody takes. */
export function refused(message: string): Error {
  return Object.assign(new Error(message), { code: 'ECONNREFUSED' })
}

/** The state of one that is open. */
const OPEN = 1

/**
 * The transport to a lock server, over a WebSocket for each connection: `open` makes one, given the name in the address `lockwright://NAME`. It is waited for until it is
 * open, if it is not.
 */
export function webSocket(open: (name: string) => Socket | PromiseLike<Socket>): Transport {
  return duplex(async (name, _port, unwanted) => {
    const socket = await open(name)
    socket.binaryType = 'arraybuffer'
    const stream = new Stream(socket)
    // One that is not open yet is ended by nobody else.
    const giveUp = (): void => stream.close()
    unwanted.addEventListener('abort', giveUp)
    if (unwanted.aborted) giveUp()
    try {
      await stream.opened
    } finally {
      unwanted.removeEventListener('abort', giveUp)
    }
    return stream
  })
}

class Stream implements Duplex {
  readonly opened: Promise<void>
  readonly #socket: Socket
  readonly #came: (Uint8Array | null)[] = []
  #take: ((bytes: Uint8Array | null) => void) | undefined

  constructor(socket: Socket) {
    this.#socket = socket
    socket.addEventListener('message', ({ data }: { data: ArrayBuffer | string }) => this.#put(typeof data === 'string' ? null : new Uint8Array(data)))
    socket.addEventListener('close', () => this.#put(null))
    this.opened = new Promise((resolve, reject) => {
      if (socket.readyState === OPEN) return resolve()
      const failed = (): void => reject(refused('the WebSocket could not be opened'))
      if (socket.readyState > OPEN) return failed()
      socket.addEventListener('open', () => resolve())
      for (const ending of ['error', 'close']) socket.addEventListener(ending, failed)
    })
    socket.addEventListener('error', () => this.#put(null))
  }

  #put(bytes: Uint8Array | null): void {
    const take = this.#take
    this.#take = undefined
    if (take === undefined) this.#came.push(bytes)
    else take(bytes)
  }

  send(bytes: Uint8Array): void {
    this.#socket.send(bytes)
  }

  receive(): Promise<Uint8Array | null> {
    const came = this.#came.shift()
    return came === undefined ? new Promise(take => (this.#take = take)) : Promise.resolve(came)
  }

  close(): void {
    this.#socket.close()
  }
}
