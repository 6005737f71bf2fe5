import { type LockOptions, wanted } from './asking.js'
import { Barrier, type BarrierOptions } from './barrier.js'
import { Election, type ElectionOptions } from './election.js'
import { Guard } from './guard.js'
import { Latch, type LatchOptions } from './latch.js'
import { forgotten, Lock } from './lock.js'
import type { NativeHandle } from './native.js'
import { type Job, Once } from './once.js'
import { BARRIER, count, ELECTION, LATCH, options as checkedOptions, SEMAPHORE, text, texts } from './options.js'
import { answer } from './reactor.js'
import type { Guarantees, Health, Inspection } from './records.js'
import type { Core } from '../wasm/lockwright.js'
import type { Running } from './running.js'
import { MultiLock } from './several.js'
import { RwLock, Semaphore, type SemaphoreOptions } from './shared.js'

/** The lock that a ping tries. */
const PING = 'lockwright-ping'

/** One server where locks are kept. Made by {@link connect}. */
export class Client implements AsyncDisposable {
  readonly #running: Running

  private constructor(running: Running) {
    this.#running = running
  }

  /** @internal */
  static make(running: Running): Client {
    return new Client(running)
  }

  /** The address without credentials. */
  get address(): string {
    return this.#running.address
  }

  #named(make: (core: Core) => number): NativeHandle {
    return { running: this.#running, number: this.#running.do(make) }
  }

  /**
   * The lock of this name.
   *
   * @throws {@link InvalidConfig} for a bad name or a value out of range, {@link Unsupported} for what the layout, or this package, cannot do.
   */
  lock(name: string, options?: LockOptions): Lock {
    const [lock, given] = [text('lock', 'name', name), wanted(options)]
    return Lock.make(this.#named(core => core.lock(lock, given)), name)
  }

  /**
   * The read/write lock called `name`; the options are for both its parts. A lock of the same name is something else: whoever comes
   * second gets {@link ForeignLayout}.
   *
   * @throws As {@link lock}.
   */
  rwlock(name: string, options?: LockOptions): RwLock {
    const [both, given] = [text('lock', 'name', name), wanted(options)]
    const part = (writes: boolean): Lock => Lock.make(this.#named(core => core.rwlock(both, writes, given)), name)
    return RwLock.make(name, part(false), part(true))
  }

  /**
   * The semaphore called `name`, with `permits` permits. Whoever first uses an idle one says how many it has, until it is resized.
   *
   * @throws As {@link lock}.
   */
  semaphore(name: string, permits: number, options?: SemaphoreOptions): Semaphore {
    const { take = 1, ...rest } = checkedOptions<SemaphoreOptions>('lock', options, SEMAPHORE)
    const [shared, all, some] = [text('lock', 'name', name), count('permits', permits), count('permits taken', take)]
    const native = this.#named(core => core.semaphore(shared, all, some, wanted(rest)))
    return Semaphore.makeSemaphore(native, name, native, take)
  }

  /**
   * The latch called `name`, which is open once it was counted down `parties` times (1 to 1,000,000), by whomever. Whoever first uses it
   * says how many.
   *
   * @throws {@link InvalidConfig} for a number out of range; else as {@link lock}.
   */
  latch(name: string, parties: number, options?: LatchOptions): Latch {
    const { idle } = checkedOptions<{ idle?: number }>('latch', options, LATCH)
    const [latch, all] = [text('latch', 'name', name), count('those to come', parties)]
    const native = this.#named(core => core.latch(latch, all, idle))
    const made = Latch.make(native, name, this.address)
    forgotten.register(made, native)
    return made
  }

  /**
   * The barrier called `name`, which opens whenever `parties` (1 to 10,000) wait for it at the same time; those who wait must name the
   * same number.
   *
   * @throws {@link InvalidConfig} for a number out of range; else as {@link lock}.
   */
  barrier(name: string, parties: number, options?: BarrierOptions): Barrier {
    const { ttl } = checkedOptions<{ ttl?: number }>('barrier', options, BARRIER)
    const [barrier, all] = [text('barrier', 'name', name), count('parties', parties)]
    const native = this.#named(core => core.barrier(barrier, all, ttl))
    const made = Barrier.make(native, name, parties, this.address)
    forgotten.register(made, native)
    return made
  }

  /**
   * The locks called `names`, to be held all at once; each gets the options, and the timeout is for all of them.
   *
   * @throws {@link InvalidConfig} for no name at all; else as {@link lock}.
   */
  multiLock(names: Iterable<string>, options?: LockOptions): MultiLock {
    const [list, given] = [texts('lock', 'names', names), wanted(options)]
    const native = this.#named(core => core.multi_lock(list, given))
    const made = MultiLock.make(native)
    forgotten.register(made, native)
    return made
  }

  /**
   * The job called `name`, which one caller at a time does, holding the lock of that name.
   *
   * @throws As {@link lock}.
   */
  once<T>(name: string, job: Job<T>, options?: LockOptions): Once<T> {
    return Once.make(this.lock(name, options), job)
  }

  /**
   * The election called `name`. The options' `ttl` says within what time a leader that died is replaced, `timeout` how long to
   * campaign; there is no `fair`, `rank` or `label`, which are the election's.
   *
   * @throws As {@link lock}.
   */
  election(name: string, options?: ElectionOptions): Election {
    // What is wrong with them shows now.
    checkedOptions('election', options, ELECTION)
    this.lock(name, options)
    return Election.make(this, name, options ?? {})
  }

  /** What locks of this client promise. */
  guarantees(): Guarantees {
    return this.#running.see(core => core.guarantees() as Guarantees)
  }

  /** What lies under `name`: who holds it, and how many wait; of a latch, how many are still to come. */
  inspect(name: string): Promise<Inspection> {
    return this.lock(name).identify()
  }

  /** The names of the locks there are. */
  async list(): Promise<string[]> {
    return await answer<string[]>(this.#running, (core, now) => core.list(now))
  }

  /** Takes what lies under that name from whoever holds it under that token, which `inspect` shows. Whether somebody did. */
  async breakLock(name: string, expectedToken: bigint): Promise<boolean> {
    return await this.lock(name).breakAny(expectedToken)
  }

  /**
   * Whether locks can be had here, now: a lock of its own, `lockwright-ping`, is acquired and given back, with all the rights that takes. For
   * readiness probes; about three requests.
   *
   * @throws Why not: {@link Unavailable} after `storeTimeout`, {@link AuthFailed}, {@link ForeignLayout}, {@link ProtocolError}, {@link Closed}.
   */
  async ping(): Promise<Health> {
    const began = performance.now()
    const lock = Lock.make({ running: this.#running, number: this.#running.do(core => core.trial()) }, PING)
    await (await lock.tryAcquire())?.release()
    const took = performance.now() - began
    const eviction = await answer<Omit<Health, 'took'>>(this.#running, (core, now) => core.eviction(now))
    return { took, ...eviction }
  }

  /**
   * Takes over a lock that was exported, under a higher token.
   *
   * @throws {@link NotOwned} where the secret holds nothing any more, {@link InvalidConfig} for what is no secret.
   */
  async resume(secret: string, options?: LockOptions): Promise<Guard> {
    const given = wanted(options)
    const exported = text('resume', 'secret', secret)
    return Guard.make(this.#running, await answer<number>(this.#running, (core, now) => core.resume(now, exported, given)))
  }

  /** Gives back all that is held and ends the connections; waits for the server for a second at most. Guards are lost with the reason `closed`. */
  close(): Promise<void> {
    return this.#running.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** @internal */
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return `<Client ${this.address}>`
  }
}
