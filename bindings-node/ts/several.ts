import { Client } from './client'
import { checked, firstOf, isFailure, LockError, mistake } from './errors'
import { Guard, Source } from './guard'
import { Lock } from './lock'
import { type AcquireOptions, within } from './asking'
import type { Answer, Grant, NativeHandle } from './native'
import { type Duration, text } from './options'
import { OURS, only } from './ours'
import { attempt, begin, outcome, wait } from './reactor'
import type { LossReason, ReleaseOutcome } from './records'
import { block, granted, mayBeEndless, newNumber } from './waits'

/** Several named locks that are acquired together: all or none, in an order in which nobody deadlocks. */
export class MultiLock {
  /** Each name once, in the order in which they are taken. */
  readonly names: readonly string[]
  readonly #native: NativeHandle
  readonly #client: NativeHandle

  private constructor(ours: typeof OURS, native: NativeHandle, client: NativeHandle) {
    only(ours, 'MultiLock', 'client.multiLock(names)')
    this.names = native.names
    this.#native = native
    this.#client = client
  }

  /** @internal */
  static make(native: NativeHandle, client: NativeHandle): MultiLock {
    return new MultiLock(OURS, native, client)
  }

  /**
   * Waits until all are held; the timeout is for all of them. Aborting gives back what was acquired, in the background.
   *
   * @throws {@link LockTimeout} when others held one of them all the time, {@link LockLost} when one was lost while others were
   * waited for; else as `Lock.acquire`. Then none is held.
   */
  acquire(options?: AcquireOptions): Promise<MultiGuard> {
    return this.#acquireAs(newNumber(), options)
  }

  async #acquireAs(number: number, options: AcquireOptions | undefined): Promise<MultiGuard> {
    const { timeout, signal } = within(options)
    signal?.throwIfAborted()
    const begun = this.#begin(timeout, number)
    return this.#guard(checked(await (mayBeEndless(signal) ? granted<Named[]>(number, this.#client, begun) : attempt<Named[]>(begun, signal))))
  }

  /** All of them, if all are free; `null` when somebody else holds one. */
  async tryAcquire(): Promise<MultiGuard | null> {
    const told = await outcome<Named[]>(this.#begin(0, newNumber()))
    return isFailure(told) && told.code === 'timeout' ? null : this.#guard(checked(told))
  }

  /** Calls `work` with all locks held, as `Lock.using` does with one. */
  using<T>(work: (guard: MultiGuard) => T | PromiseLike<T>, options?: AcquireOptions): Promise<T> {
    return block(number => this.#acquireAs(number, options), work)
  }

  #begin(timeout: number | undefined, number: number): Answer<number> {
    return begin(this.#native, 'acquire', [timeout], number)
  }

  #guard(named: Named[]): MultiGuard {
    return MultiGuard.make(named.map(([lock, grant]) => Guard.make(grant, new Source(lock, this.#client))))
  }

  /** @internal */
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return `<MultiLock ${this.names.map(name => JSON.stringify(name)).join(', ')} on ${this.#client.address}>`
  }
}

/** One of several locks that were acquired. */
type Named = [lock: string, grant: Grant]

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
    const ends = await this.#end((end, guard) => (end === undefined ? guard.overSince('release') : undefined))
    return (ends as ReleaseOutcome[]).find(end => end !== 'released') ?? 'released'
  }

  /** For `JSON.stringify`, which knows no bigint: the guards as they are told by themselves. */
  toJSON(): ReturnType<Guard['toJSON']>[] {
    return this.guards.map(guard => guard.toJSON())
  }

  /** Ends a block, as `Guard` does: each is given back, and the first loss is thrown. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#end((end, guard) => end && guard.lossAtEnd())
  }

  /** Gives all back. How each ended, where that is no error of its own, and none by `errorOf`. */
  async #end(errorOf: (end: ReleaseOutcome | undefined, guard: Guard) => LockError | undefined): Promise<(ReleaseOutcome | undefined)[]> {
    const ends = await Guard.releaseAll(this.guards)
    const errors = ends.map((end, at) => (end instanceof LockError ? end : errorOf(end, this.guards[at] as Guard)))
    const failed = firstOf(errors.filter(error => error !== undefined))
    if (failed !== undefined) throw failed
    return ends as (ReleaseOutcome | undefined)[]
  }

  /** @internal */
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return `<MultiGuard ${[...this.tokens].map(([name, token]) => `${JSON.stringify(name)} token ${token}`).join(', ')}>`
  }
}

/** A hot lock cut into segments. What is sold out is known to this object, and to no other process. */
export class Striped {
  /** How many segments there are. */
  readonly count: number
  readonly #native: NativeHandle
  readonly #name: string
  readonly #clients: readonly NativeHandle[]

  private constructor(ours: typeof OURS, native: NativeHandle, name: string, clients: readonly NativeHandle[]) {
    only(ours, 'Striped', 'client.striped(name, segments)')
    this.count = native.count
    this.#native = native
    this.#name = name
    this.#clients = clients
  }

  /** @internal */
  static make(native: NativeHandle, name: string, client: NativeHandle): Striped {
    return new Striped(OURS, native, name, [client])
  }

  /**
   * The same segments at more stores, so that none has all the load: those of this one and of `others`, in turn.
   *
   * Every process must name the same stores in the same order. One that cannot be reached is left out for ten seconds, while others answer.
   *
   * @throws {@link InvalidConfig} for more stores than segments, and what is no client; {@link Unsupported} where another store cannot do what the options ask for.
   */
  across(...others: Client[]): Striped {
    const clients = others.map(other => Client.native(other))
    return new Striped(OURS, checked(this.#native.across(clients)), this.#name, [...this.#clients, ...clients])
  }

  /** That of the store of a segment. */
  #of(index: number): NativeHandle {
    return this.#clients[index % this.#clients.length] as NativeHandle
  }

  /**
   * A free segment, or the first to be had where none is free; `null` once all are sold out. No `Deadlock` is told: a block that has one
   * may well get another.
   *
   * @throws {@link LockTimeout} when others held them all the time; else as `Lock.acquire`.
   */
  async any(options?: AcquireOptions): Promise<Segment | null> {
    const found = await wait<[index: number, grant: Grant] | undefined>(this.#native, 'any', within(options))
    if (found === undefined) return null
    const [index, grant] = found
    const guard = Guard.make(grant, new Source(this.segment(index).name, this.#of(index)))
    return Segment.make(index, guard, () => checked(this.#native.markSoldOut(index)))
  }

  /** The segment that `key` belongs to: the same in every language. */
  indexFor(key: string): number {
    return this.#native.indexFor(text('lock', 'key', key))
  }

  /** The lock of the segment that `key` belongs to. */
  forKey(key: string): Lock {
    return this.segment(this.indexFor(key))
  }

  /** The lock of the segment of that index, from 0. */
  segment(index: number): Lock {
    if (!Number.isInteger(index) || index < 0 || index >= this.count) {
      throw mistake('invalid_config', 'lock', `the index of a segment is a whole number from 0 to ${this.count - 1}`)
    }
    const lock = checked(this.#native.segment(index))
    return Lock.make(lock, lock.name, this.#of(index))
  }

  /** Forgets what is sold out: there is something again. */
  restock(): void {
    this.#native.restock()
  }

  /** @internal */
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return `<Striped ${JSON.stringify(this.#name)} of ${this.count} segments on ${this.#clients.map(({ address }) => address).join(', ')}>`
  }
}

/** A segment that is held. */
export class Segment implements AsyncDisposable {
  /** Which one it is, from 0. */
  readonly index: number
  readonly guard: Guard
  /** Nothing is left in it: it will not be offered again. It is still to be released. */
  readonly markSoldOut: () => void

  private constructor(ours: typeof OURS, index: number, guard: Guard, markSoldOut: () => void) {
    only(ours, 'Segment', 'await striped.any()')
    this.index = index
    this.guard = guard
    this.markSoldOut = markSoldOut
  }

  /** @internal */
  static make(index: number, guard: Guard, markSoldOut: () => void): Segment {
    return new Segment(OURS, index, guard, markSoldOut)
  }

  /** The fencing token. */
  get token(): bigint {
    return this.guard.token
  }

  /** For `JSON.stringify`: its index, and its guard as that is told by itself. */
  toJSON(): { index: number } & ReturnType<Guard['toJSON']> {
    return { index: this.index, ...this.guard.toJSON() }
  }

  /** Nothing is left in it: it is given back, and not offered again. */
  soldOut(): Promise<ReleaseOutcome> {
    this.markSoldOut()
    return this.guard.release()
  }

  /** Gives it back, as `Guard.release` does. */
  release(): Promise<ReleaseOutcome> {
    return this.guard.release()
  }

  /** As `Guard`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.guard[Symbol.asyncDispose]()
  }
}
