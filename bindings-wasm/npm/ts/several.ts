import { type AcquireOptions, within } from './asking.js'
import { firstOf, LockError, mistake } from './errors.js'
import { Guard } from './guard.js'
import type { NativeHandle } from './native.js'
import type { Duration } from './options.js'
import { OURS, only } from './ours.js'
import { acquired, type Within } from './reactor.js'
import type { LossReason, ReleaseOutcome } from './records.js'
import { block } from './waits.js'

/** Several named locks that are acquired together: all or none, in an order in which nobody deadlocks. */
export class MultiLock {
  /** Each name once, in the order in which they are taken. */
  readonly names: readonly string[]
  readonly #native: NativeHandle

  private constructor(ours: typeof OURS, native: NativeHandle) {
    only(ours, 'MultiLock', 'client.multiLock(names)')
    this.names = native.running.see(core => core.names(native.number))
    this.#native = native
  }

  /** @internal */
  static make(native: NativeHandle): MultiLock {
    return new MultiLock(OURS, native)
  }

  /**
   * Waits until all are held, one after the other; the timeout is for all of them. Aborting gives back what was acquired.
   *
   * @throws {@link LockTimeout} when others held one of them all the time, {@link LockLost} when one was lost while others were
   * waited for; else as `Lock.acquire`. Then none is held.
   */
  async acquire(options?: AcquireOptions): Promise<MultiGuard> {
    const guard = await this.#ask(within(options))
    if (guard !== null) return guard
    const what = 'somebody else holds one of them; wait with a time limit, or try again later'
    throw mistake('timeout', 'acquire', what, { lock: this.names.join(', '), store: this.#native.running.address })
  }

  /** All of them, if all are free; `null` when somebody else holds one. */
  tryAcquire(): Promise<MultiGuard | null> {
    return this.#ask({ timeout: 0 })
  }

  /** Calls `work` with all locks held, as `Lock.using` does with one. */
  using<T>(work: (guard: MultiGuard) => T | PromiseLike<T>, options?: AcquireOptions): Promise<T> {
    return block(() => this.acquire(options), work)
  }

  async #ask(within: Within): Promise<MultiGuard | null> {
    const numbers = await acquired<number[] | 0>(this.#native, within)
    return numbers === 0 ? null : MultiGuard.make(numbers.map(number => Guard.make(this.#native.running, number)))
  }
}

/** Several locks that are held together, until they are released: the loss of one is the loss of all. */
export class MultiGuard implements AsyncDisposable {
  /** The guard of each lock, to be released each at its own time. */
  readonly guards: readonly Guard[]
  #signal: AbortSignal | undefined

  private constructor(ours: typeof OURS, guards: readonly Guard[]) {
    only(ours, 'MultiGuard', 'await client.multiLock(names).acquire()')
    this.guards = guards
  }

  /** @internal */
  static make(guards: readonly Guard[]): MultiGuard {
    return new MultiGuard(OURS, guards)
  }

  /** The fencing token of each lock, by its name. */
  get tokens(): ReadonlyMap<string, bigint> {
    return new Map(this.guards.map(({ name, token }) => [name, token]))
  }

  /** Whether all are certainly held at this moment. */
  get isHeld(): boolean {
    return this.guards.every(guard => guard.isHeld)
  }

  /** Milliseconds that all are certainly held without a further renewal. */
  remaining(): number {
    return Math.min(...this.guards.map(guard => guard.remaining()))
  }

  /** Why the first of them that was lost was; `undefined` while none is. */
  get whyLost(): LossReason | undefined {
    return this.guards.find(guard => guard.whyLost !== undefined)?.whyLost
  }

  /** Aborts when one of them is lost, with its `LockLost` as the reason. */
  get signal(): AbortSignal {
    return (this.#signal ??= AbortSignal.any(this.guards.map(guard => guard.signal)))
  }

  /** Makes every lease last `ttl` from now, and at every renewal; as `Guard.extend`. */
  async extend(ttl: Duration): Promise<void> {
    await Promise.all(this.guards.map(guard => guard.extend(ttl)))
  }

  /**
   * Gives all back, in one write. What the store found: of the first that was not simply `released`, if any.
   *
   * @throws As `Guard.release`, when all the others are given back; where several fail, the first error has the others as its `cause`.
   */
  async release(): Promise<ReleaseOutcome> {
    const ends = await Guard.releaseAll(this.guards)
    const failed = firstOf(ends.filter(end => end instanceof LockError))
    if (failed !== undefined) throw failed
    return (ends as ReleaseOutcome[]).find(end => end !== 'released') ?? 'released'
  }

  /** Ends a block, as `Guard` does: each is given back, and the first loss is thrown. */
  async [Symbol.asyncDispose](): Promise<void> {
    const open = this.guards.filter(guard => !guard.isOver)
    const ends = await Guard.releaseAll(open)
    const losses = ends.map((end, at) => (end instanceof LockError ? undefined : open[at]?.lossAtEnd()))
    const failed = firstOf([...losses, ...ends].filter(end => end instanceof LockError))
    if (failed !== undefined) throw failed
  }
}
