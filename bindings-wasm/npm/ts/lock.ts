import { type AcquireOptions, within } from './asking.js'
import { mistake } from './errors.js'
import { Guard } from './guard.js'
import type { NativeHandle } from './native.js'
import { text, token } from './options.js'
import { OURS, only } from './ours.js'
import { printable } from './printable.js'
import { acquired, answer, ask, type Within } from './reactor.js'
import type { Inspection } from './records.js'
import type { Running } from './running.js'
import { block } from './waits.js'

export type { AcquireOptions, LockOptions } from './asking.js'

/** A named lock, to be acquired as often as wanted. */
export class Lock {
  readonly name: string
  readonly #native: NativeHandle

  protected constructor()
  /** @internal */
  protected constructor(ours: typeof OURS, native: NativeHandle, name: string, client: NativeHandle)
  protected constructor(...given: unknown[]) {
    const [ours, native, name] = given as [typeof OURS, NativeHandle, string]
    only(ours, new.target.name, new.target === Lock ? 'client.lock(name)' : 'client.semaphore(name, permits)')
    this.name = name
    this.#native = native
    forgotten.register(this, native)
  }

  /** @internal */
  static make(native: NativeHandle, name: string): Lock {
    return new Lock(OURS, native, name, native)
  }

  /**
   * Waits for the lock. When `signal` aborts, the place in the queue is left, a lock granted in the same moment is given back, and the promise
   * rejects with the signal's reason.
   *
   * @throws {@link LockTimeout} when others held it all the time; {@link Unavailable} when the store did not answer for `store_timeout`;
   * {@link AuthFailed}, {@link ForeignLayout}, {@link ProtocolError}, {@link Closed}.
   */
  acquire(options?: AcquireOptions): Promise<Guard> {
    return this.acquireAs(0, options)
  }

  /** @internal */
  async acquireAs(_number: number, options: AcquireOptions | undefined): Promise<Guard> {
    const guard = await this.#ask(within(options))
    if (guard !== null) return guard
    const what = 'somebody else holds it; wait with a time limit, or try again later'
    throw mistake('timeout', 'acquire', what, { lock: this.name, store: this.#native.running.address })
  }

  /** The lock, if it is free; `null` when somebody else holds it. */
  tryAcquire(): Promise<Guard | null> {
    return this.tryAcquireAs(0)
  }

  /** @internal */
  tryAcquireAs(_number: number): Promise<Guard | null> {
    return this.#ask({ timeout: 0 })
  }

  /**
   * Calls `work` with the lock held, and returns what it returns.
   *
   * @throws What `work` throws; otherwise `LockLost` when the lock was lost meanwhile; or as {@link acquire}.
   */
  using<T>(work: (guard: Guard) => T | PromiseLike<T>, options?: AcquireOptions): Promise<T> {
    return block(number => this.acquireAs(number, options), work)
  }

  /**
   * Takes the lock over from a secret that `Guard.export` gave, with this lock's options.
   *
   * @throws {@link NotOwned} when somebody resumed it before, or its time ran out and somebody else has the lock; {@link InvalidConfig} for what is no secret of
   * this lock; else as {@link acquire}.
   */
  async resume(secret: string): Promise<Guard> {
    const { running, number } = this.#native
    const exported = text('resume', 'secret', secret)
    return Guard.make(running, await answer<number>(running, (core, now) => core.resume_lock(now, number, exported)))
  }

  /** Who holds it, and how many wait for it. */
  inspect(): Promise<Inspection> {
    return this.#look('inspect')
  }

  /** @internal What lies under its name, of whatever kind. */
  identify(): Promise<Inspection> {
    return this.#look('identify')
  }

  /** Takes it from whoever holds it under that token, which `inspect` shows. Whether somebody did. */
  breakLock(expectedToken: bigint): Promise<boolean> {
    return this.#break(expectedToken, false)
  }

  /** @internal Of whatever kind it is that lies under its name. */
  breakAny(expectedToken: bigint): Promise<boolean> {
    return this.#break(expectedToken, true)
  }

  async #break(expectedToken: bigint, any: boolean): Promise<boolean> {
    const [{ running, number }, held] = [this.#native, token('break', expectedToken)]
    return await answer<boolean>(running, (core, now) => core.break_lock(now, number, held, any))
  }

  async #look(how: string): Promise<Inspection> {
    return printable(await ask<Inspection>(this.#native, how))
  }

  /** @internal */
  forElection(): Lock {
    const { running, number } = this.#native
    return Lock.make({ running, number: running.do(core => core.for_election(number)) }, this.name)
  }

  async #ask(within: Within): Promise<Guard | null> {
    const number = await acquired<number>(this.#native, within)
    return number === 0 ? null : Guard.make(this.#native.running, number)
  }
}

/** @internal What has a number is named no more once its object is gone. */
export const forgotten = new FinalizationRegistry<{ running: Running; number: number }>(({ running, number }) => {
  running.see(core => core.forget(number))
})
