import { checked, errorOf, type Failure, isFailure, type LockError, LockLost, mistake, type Origin } from './errors'
import { type Answer, type Grant, native, type NativeHandle } from './native'
import { callable, type Duration, milliseconds } from './options'
import { OURS, only } from './ours'
import { begin as ask, heed, outcome, reactor, unwatch, watch } from './reactor'
import type { LossReason, ReleaseOutcome } from './records'
import { begin } from './time'

/** @internal What a guard is of. */
export class Source implements Origin {
  readonly lock: string
  /** What the native layer tells of a loss by: without it, it forgets what nobody seems to want. */
  readonly #client: NativeHandle

  constructor(lock: string, client: NativeHandle) {
    this.lock = lock
    this.#client = client
  }

  get store(): string {
    return this.#client.address
  }

  /** Gives back what was left to a secret that nobody was told. */
  async takeBack(secret: string): Promise<ReleaseOutcome> {
    const lock = checked(this.#client.exported(secret))
    const { guard } = checked(await outcome<Grant>(ask(lock, 'resume', [secret])))
    const told = checked(await giveBack(guard))
    return typeof told === 'string' ? told : told[0]
  }
}

/**
 * A lock that is held, until it is released or lost.
 *
 * One that is collected unreleased gives a warning and is not renewed any more, but not released: the collector may come in
 * the middle of what the lock protects. Its signal then aborts when the lease ends: keep the guard for as long as the lock is needed.
 */
export class Guard implements AsyncDisposable {
  /** The fencing token: whatever the lock protects refuses one that is lower than it has seen. */
  get token(): bigint {
    return BigInt(this.#token)
  }

  /** Changes only where tokens start again; goes before the token when two are compared. */
  get epoch(): bigint {
    return BigInt(this.#epoch)
  }

  /** How many times its owner holds it; 1 unless the lock is reentrant. */
  readonly depth: number
  readonly #number: number
  #token: bigint | number
  #epoch: bigint | number
  readonly #origin: Source
  #ended = false
  #over = 'this guard was released already'
  /** The export under way. */
  #leaving: Promise<Left> | undefined
  #why: LossReason | undefined
  #losing: AbortController | undefined
  /** Its place among the young, if it is one of them. */
  #at = -1

  /**
   * Guards that were made a moment ago. To have the collector tell of one costs more than all else that is done with it, and most are
   * released before it pays.
   */
  static readonly #young: Guard[] = []
  static #isAging = false

  private constructor(ours: typeof OURS, grant: Grant, origin: Source) {
    only(ours, 'Guard', 'await lock.acquire()')
    this.#number = grant.guard
    this.#token = grant.token
    this.#epoch = grant.epoch
    this.depth = grant.depth
    this.#origin = origin
    this.#at = Guard.#young.push(this) - 1
    if (!Guard.#isAging) {
      Guard.#isAging = true
      begin(() => Guard.#age(), YOUTH).unref()
    }
  }

  static #age(): void {
    Guard.#isAging = false
    for (const guard of Guard.#young.splice(0)) {
      guard.#at = -1
      collected.register(guard, guard.#number, guard)
    }
  }

  /** Nobody is told of it by the collector. */
  #untold(): void {
    const last = this.#at < 0 ? undefined : Guard.#young.pop()
    if (last === undefined) {
      collected.unregister(this)
    } else if (last !== this) {
      Guard.#young[this.#at] = last
      last.#at = this.#at
    }
    this.#at = -1
  }

  /** @internal */
  static make(grant: Grant, origin: Source): Guard {
    return new Guard(OURS, grant, origin)
  }

  get name(): string {
    return this.#origin.lock
  }

  /** Whether the lock is certainly held at this moment. */
  get isHeld(): boolean {
    return this.remaining() > 0
  }

  /** Milliseconds that the lock is certainly held without a further renewal. */
  remaining(): number {
    return this.#ended ? 0 : native.remaining(reactor(), this.#number)
  }

  /** Why it was lost; `undefined` unless it was. */
  get whyLost(): LossReason | undefined {
    if (this.#ended) return this.#why
    const why = (native.whyLost(reactor(), this.#number) ?? undefined) as LossReason | undefined
    // It may be known here before the event loop gets to tell it: whoever asks sees the same everywhere.
    if (why !== undefined && this.#losing?.signal.aborted === false) this.#losing.abort(loss(why, this.#origin))
    return why
  }

  /**
   * Aborts when the lock is lost, with a `LockLost` as its reason; never after a release. Hand it to whatever is done under
   * the lock.
   */
  get signal(): AbortSignal {
    // Which tells a signal that was asked for before: after a long computation the event loop had no time to.
    const why = this.whyLost
    if (this.#losing === undefined) {
      const losing = new AbortController()
      this.#losing = losing
      if (why !== undefined) {
        losing.abort(loss(why, this.#origin))
      } else if (!this.#ended) {
        // Not `this`: a guard that nobody has any more is to be collected. What it is of is kept until the loss.
        const origin = this.#origin
        watch(this.#number, why => losing.abort(loss(why, origin)))
      }
    }
    return this.#losing.signal
  }

  /** Whether somebody asked for the lock back since it was granted; only known of one that is `revocable`. */
  get releaseRequested(): boolean {
    return !this.#ended && native.releaseRequested(reactor(), this.#number)
  }

  /**
   * Has `callback` called once, if somebody asks for the lock back before it ends; soon if that was done already, and never where the
   * lock is not `revocable`. It stays held until it is released. What `callback` throws is an uncaught exception.
   */
  onReleaseRequested(callback: () => void): void {
    this.#present('on_release_requested')
    callable('on_release_requested', 'callback', callback)
    heed(this.#number, () => queueMicrotask(callback))
  }

  /**
   * Makes the lease last at least `ttl` (20 ms to 24 h) from now, and at every renewal.
   *
   * @throws {@link LockLost} when it is not held any more, {@link InvalidConfig}, {@link NotOwned}; {@link Unavailable} when the store did not
   * answer for `storeTimeout`, and the lock stays held for as long as {@link remaining} says, or while it is exported.
   */
  async extend(ttl: Duration): Promise<void> {
    this.#present('extend')
    checked(await outcome(native.extend(reactor(), this.#number, milliseconds('extend', 'ttl', ttl))))
  }

  /**
   * Has the writer of a read/write lock go on as a reader; other readers come in.
   *
   * @throws {@link Unsupported} for any other lock; {@link LockLost} when it is not held any more; {@link Unavailable} when the store did not
   * answer for `storeTimeout`, so that it may yet be done, or while it is exported, or changed already.
   */
  async downgrade(): Promise<void> {
    this.#present('downgrade')
    await this.#change(false)
  }

  /**
   * Has a reader of a read/write lock become its writer, under a new token, if it is the only one.
   * Whether it did.
   *
   * @throws As {@link downgrade}.
   */
  async tryUpgrade(): Promise<boolean> {
    this.#present('upgrade')
    return this.#change(true)
  }

  async #change(writes: boolean): Promise<boolean> {
    const changed = checked(await outcome<boolean>(native.change(reactor(), this.#number, writes)))
    this.#refresh()
    return changed
  }

  /** Takes up the token of a reader that became the writer; released meanwhile, it keeps the last that it had. */
  #refresh(): void {
    if (native.hasGuard(reactor(), this.#number)) [this.#token, this.#epoch] = checked(native.token(reactor(), this.#number))
  }

  /**
   * Leaves the lock to a secret, with which `Client.resume` takes it over within `ttl` (20 ms to 24 h), in this
   * process or another, under a higher token. Nobody renews it meanwhile. This guard is dead then. Whoever knows the secret may
   * take the lock. A {@link release} meanwhile wins.
   *
   * @throws {@link Unsupported} where the layout cannot, or its owner holds the lock more than once; {@link LockLost} when it
   * was not held any more; {@link Unavailable} when the store did not say, and the lock is given back, or while it is exported already;
   * {@link NotOwned} where it is released meanwhile.
   */
  async export(ttl: Duration): Promise<string> {
    this.#present('export')
    const told = outcome<string>(native.export(reactor(), this.#number, milliseconds('export', 'ttl', ttl)))
    this.#leaving = told.then(told => this.#left(told))
    const { secret } = await this.#leaving
    if (typeof secret === 'string') return secret
    throw secret
  }

  /** Takes up how an export ended. */
  async #left(told: Answer<string>): Promise<Left> {
    this.#leaving = undefined
    const failed = isFailure(told) ? errorOf(told) : undefined
    if (this.#ended) return await this.#recalled(told, failed)
    if (failed !== undefined) return { secret: this.#notExported(failed), outcome: 'unknown' }
    this.#end()
    this.#over = 'this guard was exported: whoever resumes the secret has the lock'
    return { secret: told as string, outcome: 'unknown' }
  }

  /** Gives back what was released while it was exported. */
  async #recalled(told: Answer<string>, failed: LockError | undefined): Promise<Left> {
    if (failed === undefined) {
      const recalled = mistake('not_owned', 'export', 'this guard was released while it was exported, so the lock is given back', this.#origin)
      return { secret: recalled, outcome: await this.#origin.takeBack(told as string).catch(() => 'unknown' as const) }
    }
    if (native.hasGuard(reactor(), this.#number)) return { secret: failed, outcome: this.#found(await giveBack(this.#number)) }
    if (failed instanceof LockLost) this.#why = 'gone'
    return { secret: failed, outcome: failed instanceof LockLost ? 'expired' : 'unknown' }
  }

  /** Unless it is held as before, the store has it no more, or may. */
  #notExported(error: LockError): LockError {
    if (native.hasGuard(reactor(), this.#number)) {
      this.#refresh()
      return error
    }
    this.#end()
    this.#over = 'the export of this guard failed, and it holds nothing any more'
    if (error instanceof LockLost) {
      this.#why = 'gone'
      this.#losing?.abort(error)
    }
    return error
  }

  /**
   * Gives the lock back, and says what the store found. `kept`: its owner still holds it. `expired`, `stolen`: it was lost
   * before. `unknown`: the store did not say; the lock is free when its lease ends. What is asked of it meanwhile ends: an export
   * is taken back.
   *
   * @throws {@link NotOwned} the second time.
   */
  async release(): Promise<ReleaseOutcome> {
    this.#own('release')
    this.#end()
    if (this.#leaving !== undefined) return (await this.#leaving).outcome
    return this.#found(await giveBack(this.#number))
  }

  /** What a release found. */
  #found(answer: Answer<Found>): ReleaseOutcome {
    const told = checked(answer)
    if (typeof told === 'string') return told
    this.#why = told[1]
    return told[0]
  }

  /** @internal Gives several of one client back in one write: what became of each, `undefined` for those that were over. */
  static async releaseAll(guards: readonly Guard[]): Promise<(ReleaseOutcome | LockError | undefined)[]> {
    // Each of these is given back by whoever exports it.
    const leaving = guards.filter(guard => !guard.#ended && guard.#leaving !== undefined)
    const recalled = new Map(leaving.map(guard => [guard, guard.release().catch((error: unknown) => error as LockError)]))
    const open = guards.filter(guard => !guard.#ended)
    for (const guard of open) guard.#end()
    const told = open.length === 0 ? [] : checked(await outcome<Ending[]>(native.releaseAll(reactor(), open.map(guard => guard.#number))))
    return await Promise.all(guards.map(guard => {
      const ending = told[open.indexOf(guard)]
      if (ending === undefined) return recalled.get(guard)
      if (isFailure(ending)) return errorOf(ending)
      guard.#why = ending[1] ?? undefined
      return ending[0]
    }))
  }

  /** @internal The error for what is asked of it though it is over. */
  overSince(operation: string): LockError {
    return mistake('not_owned', operation, this.#over, this.#origin)
  }

  /** @internal The error that ends a block in which it was lost. */
  lossAtEnd(): LockError | undefined {
    const told: unknown = this.#losing?.signal.reason
    if (this.#why === undefined) return undefined
    return told instanceof LockLost ? told : loss(this.#why, this.#origin)
  }

  /**
   * However early it is released, or its block ends, the lock stays taken until `span` (at most 24 h) after its grant: as `atLeastFor`, where
   * only the work shows how long. The store keeps it, also when this process ends; `Client.close` before the release gives it back.
   *
   * @throws {@link Unsupported} where the layout cannot keep it, {@link InvalidConfig}, {@link NotOwned}.
   */
  holdAtLeastFor(span: Duration): void {
    this.#present('hold')
    checked(native.holdAtLeastFor(reactor(), this.#number, milliseconds('hold', 'span', span)))
  }

  /**
   * Ends a block: gives the lock back, unless the block did, or exports it.
   *
   * @throws {@link LockLost} when it was lost; where the block throws too, JavaScript makes a `SuppressedError` of both.
   * `Lock.using` throws the block's alone.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#leaving !== undefined) await this.#leaving
    if (this.#ended) return
    await this.release()
    const lost = this.lossAtEnd()
    if (lost !== undefined) throw lost
  }

  /** For `JSON.stringify`, which knows no bigint: token and epoch as texts. */
  toJSON(): { name: string; token: string; epoch: string; depth: number; isHeld: boolean } {
    const { name, token, epoch, depth, isHeld } = this
    return { name, token: String(token), epoch: String(epoch), depth, isHeld }
  }

  #end(): void {
    this.#ended = true
    this.#untold()
    if (this.#losing !== undefined) unwatch(this.#number)
  }

  #own(operation: string): void {
    if (this.#ended) throw this.overSince(operation)
  }

  /** That it is its own, and stays so. */
  #present(operation: string): void {
    this.#own(operation)
    if (this.#leaving === undefined) return
    throw mistake('unavailable', operation, 'this guard is being exported; wait for that, then ask again if it is still held', this.#origin)
  }

  /** @internal */
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    const why = this.whyLost
    const held = this.#ended ? 'released' : `held, ${(this.remaining() / 1000).toFixed(3)} s left`
    return `<Guard ${JSON.stringify(this.name)} token ${this.token}, ${why === undefined ? held : `lost: ${why}`}>`
  }
}

/** For how many milliseconds a guard is young. */
const YOUTH = 100

/** How an export ended: with the secret, or why there is none; and what became of the lock, for whoever released it meanwhile. */
interface Left {
  readonly secret: string | LockError
  readonly outcome: ReleaseOutcome
}

/** What a release found, and why the lock was lost, if it was. */
type Found = ReleaseOutcome | [outcome: ReleaseOutcome, why: LossReason]

function giveBack(number: number): Promise<Answer<Found>> {
  return outcome<Found>(native.release(reactor(), number))
}

/** How one of several ended. */
type Ending = [outcome: ReleaseOutcome, why: LossReason | null] | Failure

function loss(why: LossReason, origin: Origin): LockError {
  return mistake('lost', 'release', `the lock was lost while it was held: ${native.sentence(why)}`, origin)
}

const collected = new FinalizationRegistry<number>(number => {
  // Still watched: whoever has its signal is told when the lease ends.
  const abandoned = native.abandon(reactor(), number)
  if (abandoned !== null) {
    const [name, left] = abandoned
    const free = `the lock is not renewed any more and free in ${(left / 1000).toFixed(1)} s`
    const message = `a guard of lock ${JSON.stringify(name)} was collected without a release; ${free}`
    process.emitWarning(message, { type: 'LockwrightWarning', code: 'lockwright::collected' })
  }
})
