import { errorOf, type Failure, isFailure, type LockError, LockLost, mistake } from './errors.js'
import { type Duration, milliseconds } from './options.js'
import type { LossReason, ReleaseOutcome } from './records.js'
import type { Core } from '../wasm/lockwright.js'
import type { Running } from './running.js'

/**
 * A lock that is held, until it is released or lost. It is renewed for as long as this program runs.
 *
 * One that is collected unreleased is renewed no more, and not released: the collector may come in the middle of what the lock protects.
 */
export class Guard implements AsyncDisposable {
  readonly name: string
  readonly #running: Running
  readonly #number: number
  #losing: AbortController | undefined
  #ended = false
  /** How much of what was asked of it is not answered yet. */
  #asking = 0
  /** The end of the export under way. */
  #leaving: Promise<void> | undefined
  #why: LossReason | undefined
  #token: bigint

  private constructor(running: Running, number: number) {
    this.#running = running
    this.#number = number
    this.name = running.see(core => core.name(number))
    this.#token = running.see(core => core.token(number))
    collected.register(this, { running, number, name: this.name }, this)
  }

  /** @internal */
  static make(running: Running, number: number): Guard {
    return new Guard(running, number)
  }

  /** The fencing token: whatever the lock protects refuses one that is lower than it has seen. */
  get token(): bigint {
    return this.#token
  }

  /** @internal Whether it was released or exported. */
  get isOver(): boolean {
    return this.#ended
  }

  /** Whether the lock is certainly held at this moment. */
  get isHeld(): boolean {
    return this.remaining() > 0
  }

  /** Milliseconds that the lock is certainly held without a further renewal. */
  remaining(): number {
    return this.#ended ? 0 : this.#running.see((core, now) => core.remaining(now, this.#number))
  }

  /** Why it was lost; `undefined` unless it was. */
  get whyLost(): LossReason | undefined {
    if (this.#ended) return this.#why
    const why = whyLost(this.#running, this.#number)
    // It may be known here before the event loop gets to tell it: whoever asks sees the same everywhere.
    if (why !== undefined && this.#losing?.signal.aborted === false) this.#losing.abort(lost(this.name, why))
    return why
  }

  /** Aborts when the lock is lost, with a `LockLost` as its reason; never after a release. */
  get signal(): AbortSignal {
    // Which tells a signal that was asked for before: after a long computation the event loop had no time to.
    const why = this.whyLost
    if (this.#losing === undefined) {
      const losing = new AbortController()
      this.#losing = losing
      const [running, number, name] = [this.#running, this.#number, this.name]
      if (why !== undefined) {
        losing.abort(lost(name, why))
      } else if (!this.#ended) {
        running.watch(() => {
          const why = whyLost(running, number)
          if (why !== undefined) losing.abort(lost(name, why))
          return why !== undefined || running.see(core => !core.has_guard(number))
        })
      }
    }
    return this.#losing.signal
  }

  /**
   * Makes the lease last at least `ttl` (20 ms to 24 h) from now, and at every renewal.
   *
   * @throws {@link LockLost} when it is not held any more, {@link InvalidConfig}, {@link NotOwned}; {@link Unavailable} when the store did not
   * answer for `storeTimeout`, and the lock stays held for as long as {@link remaining} says, or while it is exported.
   */
  async extend(ttl: Duration): Promise<void> {
    this.#own('extend')
    const ms = milliseconds('extend', 'ttl', ttl)
    await this.#asks((core, now) => core.extend(now, this.#number, ms), (core, now, ticket) => core.extended(now, this.#number, ticket))
  }

  /** Asks the engine for something that it answers of this guard, which it has to know for as long. */
  #asks<T>(ask: (core: Core, now: number) => number, read: (core: Core, now: number, ticket: number) => T): Promise<T> {
    return this.#answered(this.#running.do(ask), read)
  }

  async #answered<T>(ticket: number, read: (core: Core, now: number, ticket: number) => T): Promise<T> {
    this.#asking++
    try {
      await this.#running.settled(ticket)
      return this.#running.do((core, now) => read(core, now, ticket))
    } finally {
      this.#asking--
      this.#forget()
    }
  }

  /**
   * Has the writer of a read/write lock go on as a reader; other readers come in.
   *
   * @throws {@link Unsupported} for any other lock; {@link LockLost} when it is not held any more; {@link Unavailable} when the store did not
   * answer for `storeTimeout`, so that it may yet be done, or while it is exported, or changed already.
   */
  async downgrade(): Promise<void> {
    this.#own('downgrade')
    await this.#change(false)
  }

  /**
   * Has a reader of a read/write lock become its writer, under a new token, if it is the only one.
   * Whether it did.
   *
   * @throws As {@link downgrade}.
   */
  async tryUpgrade(): Promise<boolean> {
    this.#own('upgrade')
    return this.#change(true)
  }

  async #change(writes: boolean): Promise<boolean> {
    const changed = await this.#asks(
      (core, now) => core.change(now, this.#number, writes),
      (core, now, ticket) => core.changed(now, this.#number, ticket, writes),
    )
    // Released meanwhile, it keeps the last that it had.
    if (!this.#ended) this.#token = this.#running.see(core => core.token(this.#number))
    return changed
  }

  /** @internal Gives several of one client back in one write: what became of each. */
  static async releaseAll(guards: readonly Guard[]): Promise<(ReleaseOutcome | LockError)[]> {
    const [first] = guards
    if (first === undefined) return []
    const running = first.#running
    const open = guards.filter(guard => !guard.#ended)
    const why = open.map(guard => guard.whyLost)
    const tickets = running.do((core, now) => core.release_all(now, Uint32Array.from(open, guard => guard.#number))) as (number | Failure)[]
    for (const [at, guard] of open.entries()) guard.#end(why[at])
    return Promise.all(guards.map(async guard => {
      if (!open.includes(guard)) return guard.#over('release')
      const ticket = tickets[open.indexOf(guard)] as number | Failure
      if (isFailure(ticket)) return errorOf(ticket)
      return guard.#released(ticket)
    }))
  }

  /** What the store found, by a release under way. */
  async #released(ticket: number): Promise<ReleaseOutcome> {
    await this.#running.settled(ticket)
    const outcome = this.#running.do(core => core.released(ticket)) as ReleaseOutcome
    this.#why ??= outcome === 'stolen' ? 'gone' : outcome === 'expired' ? 'expired' : undefined
    return outcome
  }

  /** @internal The error that ends a block in which it was lost. */
  lossAtEnd(): LockError | undefined {
    return this.#why === undefined ? undefined : lost(this.name, this.#why)
  }

  /**
   * Leaves the lock to a secret, with which `Client.resume` takes it over within `ttl` (20 ms to 24 h), in this program or another, under a
   * higher token. Nobody renews it meanwhile. This guard is dead then. Whoever knows the secret may take the lock. A {@link release}
   * meanwhile wins.
   *
   * @throws {@link Unsupported} where the layout cannot; {@link LockLost} when it was not held any more; {@link Unavailable} when the store did
   * not say, and the lock is given back, or while it is exported already; {@link NotOwned} where it is released meanwhile.
   */
  async export(ttl: Duration): Promise<string> {
    this.#own('export')
    const ms = milliseconds('export', 'ttl', ttl)
    const ticket = this.#running.do((core, now) => core.export(now, this.#number, ms))
    const asked = this.#answered(ticket, (core, now, ticket) => core.exported(now, this.#number, ticket))
    const over = asked.then(() => this.#left(), error => this.#left(error))
    this.#leaving = over
    await over
    return asked
  }

  /** Takes up how an export ended. */
  #left(failed?: unknown): void {
    this.#leaving = undefined
    if (this.#ended) return
    const isLost = failed instanceof LockLost
    // Unless it is held as before, the store has it no more, or may.
    if (this.#running.see(core => core.is_spent(this.#number))) this.#end(isLost ? 'gone' : undefined)
    if (isLost) this.#losing?.abort(failed)
  }

  /**
   * Gives the lock back, and says what the store found. What is asked of it meanwhile ends: an export is taken back.
   *
   * @throws {@link NotOwned} when it was released or exported before.
   */
  async release(): Promise<ReleaseOutcome> {
    this.#own('release')
    const why = this.whyLost
    const ticket = this.#running.do((core, now) => core.release(now, this.#number))
    this.#end(why)
    return this.#released(ticket)
  }

  /**
   * Releases it, unless that was done, or it is exported.
   *
   * @throws {@link LockLost} when it was lost before.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#leaving !== undefined) await this.#leaving
    if (this.#ended) return
    await this.release()
    const loss = this.lossAtEnd()
    if (loss !== undefined) throw loss
  }

  #own(operation: string): void {
    if (this.#ended) throw this.#over(operation)
  }

  #over(operation: string): LockError {
    return mistake('not_owned', operation, `the guard of lock ${JSON.stringify(this.name)} was released or exported already`)
  }

  #end(why?: LossReason): void {
    this.#why = why
    this.#ended = true
    collected.unregister(this)
    this.#forget()
  }

  #forget(): void {
    if (this.#ended && this.#asking === 0) this.#running.see(core => core.forget_guard(this.#number))
  }
}

function whyLost(running: Running, number: number): LossReason | undefined {
  return running.see((core, now) => core.why_lost(now, number)) as LossReason | undefined
}

function lost(name: string, why: LossReason): LockLost {
  return new LockLost(`lost: lock ${JSON.stringify(name)} was lost (${why}); what was done under it may have to be undone`, { lock: name })
}

const collected = new FinalizationRegistry<{ running: Running; number: number; name: string }>(({ running, number, name }) => {
  running.do((core, now) => core.abandon_guard(now, number))
  console.warn(`lockwright: the guard of lock ${JSON.stringify(name)} was collected unreleased; the lock is free when its lease ends`)
})
