import { LockTimeout } from './errors.js'
import { Guard } from './guard.js'
import { type Duration, milliseconds } from './options.js'
import type { Running } from './running.js'

export interface AcquireOptions {
  /** How long to wait for others; as the lock says. */
  readonly timeout?: Duration | undefined
  /** Gives up waiting. */
  readonly signal?: AbortSignal | undefined
}

/** What the engine takes for "as the lock says". */
const AS_THE_LOCK = -1

/** A named lock, to be acquired as often as wanted. */
export class Lock {
  readonly name: string
  readonly #running: Running
  readonly #number: number

  private constructor(running: Running, number: number, name: string) {
    this.name = name
    this.#running = running
    this.#number = number
    forgotten.register(this, { running, number })
  }

  /** @internal */
  static make(running: Running, number: number, name: string): Lock {
    return new Lock(running, number, name)
  }

  /**
   * Waits for the lock. When `signal` aborts, the place in the queue is left, a lock granted in the same moment is given back, and the promise
   * rejects with the signal's reason.
   *
   * @throws {@link LockTimeout} when others held it all the time; {@link Unavailable} when the store did not answer for `store_timeout`;
   * {@link AuthFailed}, {@link ForeignLayout}, {@link ProtocolError}, {@link Closed}.
   */
  async acquire({ timeout, signal }: AcquireOptions = {}): Promise<Guard> {
    const limit = timeout === undefined ? AS_THE_LOCK : milliseconds('acquire', 'timeout', timeout)
    if (limit < 0 && timeout !== undefined) milliseconds('acquire', 'timeout', undefined)
    const guard = await this.#ask(limit, signal)
    if (guard === null) throw new LockTimeout(`timeout: acquire lock ${JSON.stringify(this.name)}: somebody else holds it; wait with a time limit, or try again later`)
    return guard
  }

  /** The lock, if it is free; `null` when somebody else holds it. */
  tryAcquire(): Promise<Guard | null> {
    return this.#ask(0, undefined)
  }

  /**
   * Calls `work` with the lock held, and returns what it returns.
   *
   * @throws What `work` throws; otherwise `LockLost` when the lock was lost meanwhile; or as {@link acquire}.
   */
  async using<T>(work: (guard: Guard) => T | PromiseLike<T>, options?: AcquireOptions): Promise<T> {
    const guard = await this.acquire(options)
    let done: T
    try {
      done = await work(guard)
    } catch (error) {
      // What the work throws goes before what a release would say.
      await guard.release().catch(() => undefined)
      throw error
    }
    await guard[Symbol.asyncDispose]()
    return done
  }

  async #ask(timeout: number, signal: AbortSignal | undefined): Promise<Guard | null> {
    signal?.throwIfAborted()
    const running = this.#running
    const ticket = running.do((core, now) => core.acquire(now, this.#number, timeout))
    const aborted = signal === undefined ? undefined : aborting(signal)
    const settled = running.settled(ticket)
    try {
      await (aborted === undefined ? settled : Promise.race([settled, aborted.promise]))
    } catch (reason) {
      running.forget(ticket)
      running.do((core, now) => core.abandon(now, ticket))
      throw reason
    } finally {
      aborted?.listensNoMore()
    }
    const number = running.do((core, now) => core.granted(now, ticket))
    return number === 0 ? null : Guard.make(running, number)
  }
}

const forgotten = new FinalizationRegistry<{ running: Running; number: number }>(({ running, number }) => {
  running.see(core => core.forget_lock(number))
})

function aborting(signal: AbortSignal): { promise: Promise<never>; listensNoMore: () => void } {
  let abort = (): void => undefined
  const promise = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason)
    signal.addEventListener('abort', abort, { once: true })
  })
  return { promise, listensNoMore: () => signal.removeEventListener('abort', abort) }
}
