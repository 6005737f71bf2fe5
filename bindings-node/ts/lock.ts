import { type AcquireOptions, within } from './asking'
import { checked, type Failure, isFailure, mistake } from './errors'
import { Guard, Source } from './guard'
import { type Answer, type Grant, native, type NativeHandle, type NativeLock } from './native'
import { text, token } from './options'
import { OURS, only } from './ours'
import { Owner } from './owner'
import { printable } from './printable'
import { ask, attempt, begin, outcome, reactor } from './reactor'
import type { Guarantees, Inspection } from './records'
import { block, explained, granted, mayBeEndless, newNumber } from './waits'

export type { AcquireOptions, LockOptions } from './asking'

/** A named lock, to be acquired as often as wanted. */
export class Lock {
  readonly name: string
  readonly #native: NativeHandle
  readonly #external: NativeLock
  readonly #reentrant: boolean
  readonly #client: NativeHandle
  readonly #origin: Source

  protected constructor()
  /** @internal */
  protected constructor(ours: typeof OURS, handle: NativeHandle, name: string, client: NativeHandle)
  protected constructor(...given: unknown[]) {
    const [ours, handle, name, client] = given as [typeof OURS, NativeHandle, string, NativeHandle]
    only(ours, new.target.name, new.target === Lock ? 'client.lock(name)' : 'client.semaphore(name, permits)')
    this.name = name
    this.#native = handle
    this.#external = handle.external()
    this.#reentrant = handle.reentrant
    this.#client = client
    this.#origin = new Source(name, client)
  }

  /** @internal */
  static make(handle: NativeHandle, name: string, client: NativeHandle): Lock {
    return new Lock(OURS, handle, name, client)
  }

  /**
   * Waits for the lock. When `signal` aborts, a place in the queue is left, a lock granted in the same moment is given back
   * in the background, and the promise rejects with the signal's reason.
   *
   * @throws {@link LockTimeout} when others held it all the time, and who they are; {@link Deadlock} after a second or two without `timeout`
   * and `signal`, where a `using` that awaits this holds it, or waits in a circle with it; {@link Unavailable} when the store did not answer for
   * `storeTimeout`; {@link AuthFailed}, {@link ForeignLayout}, {@link ProtocolError}, {@link Closed}.
   */
  acquire(options?: AcquireOptions): Promise<Guard> {
    return this.acquireAs(newNumber(), options)
  }

  /** @internal The same for a block of that number. */
  async acquireAs(number: number, options: AcquireOptions | undefined): Promise<Guard> {
    const { timeout, signal } = within(options)
    signal?.throwIfAborted()
    const begun = this.#begin(timeout, number)
    const told = await (mayBeEndless(signal) ? granted<Grant>(number, this.#client, begun) : attempt<Grant>(begun, signal))
    return this.#guard(explained(told, blocks => this.#native.isKeptBy(blocks)))
  }

  /** The lock, if it is free; `null` when somebody else holds it. */
  tryAcquire(): Promise<Guard | null> {
    return this.tryAcquireAs(newNumber())
  }

  /** @internal The same for a block of that number. */
  async tryAcquireAs(number: number): Promise<Guard | null> {
    const told = await outcome<Grant>(this.#begin(0, number))
    return isFailure(told) && told.code === 'timeout' ? null : this.#guard(told)
  }

  /**
   * Calls `work` with the lock held, and returns what it returns.
   *
   * @throws What `work` throws; otherwise {@link LockLost} when the lock was lost meanwhile; or as {@link acquire}.
   */
  async using<T>(work: (guard: Guard) => T | PromiseLike<T>, options?: AcquireOptions): Promise<T> {
    const hold = (): Promise<T> => block(number => this.acquireAs(number, options), work)
    return this.#reentrant && Owner.current === undefined ? new Owner().run(hold) : hold()
  }

  /**
   * Takes the lock over from a secret that `Guard.export` gave, with this lock's options.
   *
   * @throws {@link NotOwned} when somebody resumed it before, or its time ran out and somebody else has the lock; {@link InvalidConfig} for what is no secret of
   * this lock; else as {@link acquire}.
   */
  async resume(secret: string): Promise<Guard> {
    const owner = this.#reentrant ? this.#owner() : undefined
    return this.#guard(await outcome<Grant>(begin(this.#native, 'resume', [text('resume', 'secret', secret)], owner)))
  }

  /** Who holds it, and how many wait for it. */
  async inspect(): Promise<Inspection> {
    return printable(await ask(this.#native, 'inspect'))
  }

  /** Takes it from whoever holds it under that token, which `inspect` shows. Whether somebody did. */
  async breakLock(expectedToken: bigint): Promise<boolean> {
    return await ask(this.#native, 'break_lock', token('break', expectedToken))
  }

  /**
   * Asks whoever holds it under that token, which `inspect` shows, to give it back. Whether somebody does. Whose lock is `revocable` is told,
   * here or with Curator, and goes on as it likes: `breakLock` takes it.
   *
   * @throws {@link Unsupported} where the layout has no such message.
   */
  async requestRelease(expectedToken: bigint): Promise<boolean> {
    return await ask(this.#native, 'request_release', token('request_release', expectedToken))
  }

  /** What it promises in its layout. */
  guarantees(): Guarantees {
    return checked(this.#native.guarantees())
  }

  /** @internal */
  forElection(): Lock {
    return Lock.make(checked(this.#native.forElection()), this.name, this.#client)
  }

  #begin(timeout: number | undefined, number: number): Answer<number> {
    return native.acquire(reactor(), this.#external, timeout, this.#reentrant ? this.#owner() : number)
  }

  #guard(told: Grant | Failure): Guard {
    return Guard.make(checked(told), this.#origin)
  }

  #owner(): number {
    const owner = Owner.current
    if (owner === undefined) {
      const what = 'a reentrant lock needs an owner here: call it within using(..), or within new Owner().run(..)'
      throw mistake('invalid_config', 'acquire', what, this.#origin)
    }
    return owner.number
  }

  /** @internal */
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return `<Lock ${JSON.stringify(this.name)} on ${this.#origin.store}>`
  }
}
