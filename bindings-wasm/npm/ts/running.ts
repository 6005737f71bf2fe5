import { Core } from '../wasm/lockwright.js'
import { errorOf, type Failure, isFailure, type LockError } from './errors.js'
import { type Connection, type Events, said, type Transport } from './transport.js'

/** The longest that a timer takes. */
const LONGEST = 2 ** 31 - 1

/** A timer that comes so many milliseconds late had to wait for the program. */
const LATE = 20

/** @internal The engine in WebAssembly, its two connections, its timer, and whoever waits for a result. */
export class Running {
  readonly #core: Core
  readonly #transport: Transport
  readonly #lines: (Connection | undefined)[] = [undefined, undefined]
  readonly #waiting = new Map<number, () => void>()
  readonly #watching = new Set<() => boolean>()
  readonly #overs: (() => void)[] = []
  #timer: ReturnType<typeof setTimeout> | undefined
  #dueAt = Infinity

  /** `isOwn` says that it is the runtime's own transport. */
  constructor(url: string, options: object, transport: Transport, isOwn: boolean) {
    this.#transport = transport
    const random = (bytes: Uint8Array): unknown => crypto.getRandomValues(bytes)
    this.#core = told(() => new Core(url, options, random, pid(), isOwn, transport.pushes !== false))
  }

  get address(): string {
    return this.#core.address()
  }

  /** Does something with the engine, and then all that follows from it. */
  do<T>(work: (core: Core, now: number) => T): T {
    try {
      return told(() => work(this.#core, performance.now()))
    } finally {
      this.#turn()
    }
  }

  /** Looks at the engine, and changes nothing. */
  see<T>(look: (core: Core, now: number) => T): T {
    return told(() => look(this.#core, performance.now()))
  }

  /** Waits for the result of a ticket. */
  settled(ticket: number): Promise<void> {
    return new Promise(resolve => {
      if (this.#core.is_settled(ticket)) return resolve()
      this.#waiting.set(ticket, resolve)
      this.#keepAlive()
    })
  }

  /** Nobody waits for it any more. */
  forget(ticket: number): void {
    this.#waiting.delete(ticket)
    this.#keepAlive()
  }

  /** Has `look` look after every change, until it has seen enough. */
  watch(look: () => boolean): void {
    if (!look()) this.#watching.add(look)
  }

  /** Gives all back, and waits for that for a second at most. */
  async close(): Promise<void> {
    this.do((core, now) => core.close(now))
    if (!this.#core.is_over()) {
      let limit: ReturnType<typeof setTimeout> | undefined
      await new Promise<void>(resolve => {
        this.#overs.push(resolve)
        limit = setTimeout(resolve, 1_000)
      })
      clearTimeout(limit)
    }
    this.do(core => core.hang_up())
    clearTimeout(this.#timer)
    // Nothing is answered any more: what became of it is not known.
    for (const resolve of this.#waiting.values()) resolve()
    this.#waiting.clear()
  }

  #turn(): void {
    for (let action = this.#core.action(); action !== undefined; action = this.#core.action()) {
      const [line, bytes] = action as [number, (Uint8Array | null)?]
      if (bytes === undefined) this.#dial(line)
      else if (bytes !== null) this.#lines[line]?.send(bytes)
      else this.#end(line)
    }
    for (const [ticket, resolve] of this.#waiting) {
      if (this.#core.is_settled(ticket)) {
        this.#waiting.delete(ticket)
        resolve()
      }
    }
    for (const look of this.#watching) if (look()) this.#watching.delete(look)
    if (this.#overs.length > 0 && this.#core.is_over()) for (const over of this.#overs.splice(0)) over()
    this.#arm()
    this.#keepAlive()
  }

  #dial(line: number): void {
    this.#end(line)
    let [connection, current]: [Connection | undefined, boolean] = [undefined, true]
    const about = (tell: (core: Core, now: number) => void): void => {
      // Whoever makes it may say so before it has returned.
      if (connection === undefined) soon(() => about(tell))
      else if (current && this.#lines[line] === connection) this.do(tell)
    }
    const events: Events = {
      opened: () => about((core, now) => core.dialled(now, line)),
      received: bytes => about((core, now) => core.came(now, line, bytes)),
      ended: (code = '', message = '') => about((core, now) => {
        current = false
        this.#lines[line] = undefined
        core.ended(now, line, code, message)
      }),
    }
    try {
      connection = guarded(this.#transport.connect(this.#core.host(), this.#core.port(), events), events)
    } catch (error) {
      connection = NONE
      soon(() => events.ended('EIO', said(error)))
    }
    this.#lines[line] = connection
  }

  #end(line: number): void {
    const before = this.#lines[line]
    this.#lines[line] = undefined
    before?.end()
  }

  /** The engine is to look when something is due. */
  #arm(): void {
    const due = this.#core.next_look() ?? Infinity
    if (due === this.#dueAt && this.#timer !== undefined) return
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#dueAt = due
    if (due === Infinity) return
    const ms = Math.min(Math.max(0, Math.ceil(due - performance.now())), LONGEST)
    this.#timer = setTimeout(() => {
      // What came while the event loop was busy is to be read first, which timers come before.
      if (performance.now() > due + LATE) this.#timer = setTimeout(() => this.#look(), 0)
      else this.#look()
    }, ms)
  }

  #look(): void {
    this.#timer = undefined
    this.do((core, now) => core.look(now))
  }

  /** What is held keeps no program running; who waits does. */
  #keepAlive(): void {
    const waited = this.#waiting.size > 0 || this.#overs.length > 0
    for (const line of this.#lines) line?.keepAlive?.(waited)
    const timer = this.#timer as { ref?: () => void; unref?: () => void } | undefined
    if (waited) timer?.ref?.()
    else timer?.unref?.()
  }
}

/** That of this process, where the runtime has such a thing. */
function pid(): number {
  return typeof process === 'undefined' ? 0 : (process.pid ?? 0)
}

/** What could not be made. */
const NONE: Connection = { send: () => undefined, end: () => undefined }

/** The same connection, which ends by what it throws: whoever uses it is in the middle of something else. */
function guarded(connection: Connection, events: Events): Connection {
  const end = (): void => {
    try {
      connection.end()
    } catch {}
  }
  return {
    send(bytes) {
      try {
        connection.send(bytes)
      } catch (error) {
        end()
        soon(() => events.ended('EIO', said(error)))
      }
    },
    end,
    keepAlive(waited) {
      try {
        connection.keepAlive?.(waited)
      } catch {}
    },
  }
}

const NOW = Promise.resolve()

function soon(work: () => void): void {
  void NOW.then(work)
}

/** What the engine says, its failures as errors. */
function told<T>(ask: () => T): T {
  try {
    return ask()
  } catch (thrown) {
    throw translated(thrown)
  }
}

function translated(thrown: unknown): unknown {
  return isFailure(thrown) && !(thrown instanceof Error) ? (errorOf(thrown as Failure) as LockError) : thrown
}
