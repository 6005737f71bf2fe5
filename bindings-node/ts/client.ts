import { wanted } from './asking'
import { Barrier, type BarrierOptions } from './barrier'
import { checked, mistake } from './errors'
import { Election, type ElectionOptions } from './election'
import type { Guard } from './guard'
import { Latch, type LatchOptions } from './latch'
import { Lock, type LockOptions } from './lock'
import { type Metrics, metricsOf } from './metrics'
import { native, type NativeHandle } from './native'
import { BARRIER, CONNECT, count, type Duration, ELECTION, LATCH, milliseconds, options as checkedOptions, REQUIRE, SEMAPHORE, shown, text, texts, token } from './options'
import { OURS, only } from './ours'
import { printable } from './printable'
import { ask, type CredentialsSource, forgetSource, registerSource, reactor } from './reactor'
import type { Guarantees, Health, Inspection, Requirements } from './records'
import { type Job, Once } from './once'
import { MultiLock, Striped } from './several'
import { RwLock, Semaphore, type SemaphoreOptions } from './shared'

/** How a client reaches its store. What the address says goes before what is given here. */
export interface ConnectOptions {
  /** Put before every lock name, so that applications can share a store. */
  readonly prefix?: string | undefined
  /** Limit for making one connection; 2 s. */
  readonly connectTimeout?: Duration | undefined
  /** Limit for one reply; after it the request's outcome is unknown and it is asked again; 1 s. */
  readonly responseTimeout?: Duration | undefined
  /** How long an operation goes on asking a store that does not answer before it fails with `Unavailable`; 5 s. */
  readonly storeTimeout?: Duration | undefined
  /** A file of certificates (PEM) to trust instead of the system's. */
  readonly ca?: string | undefined
  /** The client's certificate chain (PEM file), with `key`. */
  readonly cert?: string | undefined
  /** The client's private key (PEM file), with `cert`. */
  readonly key?: string | undefined
  /**
   * Asked for user and password at every new connection, so that rotated ones are taken up; has `connectTimeout` to answer.
   * When it throws, what needed the connection throws `AuthFailed`, which names the cause.
   */
  readonly credentials?: CredentialsSource | undefined
}

/**
 * Connects to the place that `url` names, else `LOCKWRIGHT_URL`, else a file of this user's. Nothing is sent before the first
 * use.
 *
 * @throws {@link InvalidConfig} or {@link Unsupported} when the address or an option cannot be honoured.
 */
export async function connect(url?: string, options?: ConnectOptions): Promise<Client> {
  const { credentials, ...rest } = checkedOptions<ConnectOptions>('connect', options, CONNECT)
  const address = url === undefined ? undefined : text('connect', 'url', url)
  const source = credentials === undefined ? undefined : registerSource(credentials)
  try {
    const opened = checked(native.open(reactor(), address, rest, source))
    checked(native.listen(reactor()))
    return Client.make(opened, source)
  } catch (error) {
    if (source !== undefined) forgetSource(source)
    throw error
  }
}

/**
 * Says that this process was restored from a snapshot or a checkpoint of itself, which others may have been too.
 *
 * Call it once, before anything else uses this library. Every client then dials anew. Guards made before are not believed: they are lost
 * with the reason `closed`, using them throws {@link Forked}, and so does whatever waits; nothing is sent for them, since a copy of this
 * process may still hold the lock. What nobody else gives back ends with its lease.
 */
export function restored(): void {
  native.restored()
}

/** One place where locks are kept. Made by {@link connect}; belongs to its thread. */
export class Client implements AsyncDisposable {
  readonly #native: NativeHandle
  readonly #source: number | undefined

  private constructor(ours: typeof OURS, native: NativeHandle, source: number | undefined) {
    only(ours, 'Client', 'await connect(url)')
    this.#native = native
    this.#source = source
    // What was made of the client asks it for credentials, too, and has its native part.
    if (source !== undefined) collected.register(native, source)
  }

  /** @internal */
  static make(native: NativeHandle, source: number | undefined): Client {
    return new Client(OURS, native, source)
  }

  /** @internal */
  static native(of: Client): NativeHandle {
    if (!(of instanceof Client)) throw mistake('invalid_config', 'across', `${shown(of)} is no client; give what \`await connect(url)\` gave`)
    return of.#native
  }

  /** The address without credentials. */
  get address(): string {
    return this.#native.address
  }

  #keeping<T extends object>(made: T): T {
    keeps.set(made, this.#native)
    return made
  }

  /**
   * The lock called `name`: any text of 1 to 1024 bytes as UTF-8 without control characters.
   *
   * @throws {@link InvalidConfig} or {@link Unsupported} when an option cannot be honoured.
   */
  lock(name: string, options?: LockOptions): Lock {
    const lock = checked(this.#native.lock(text('lock', 'name', name), wanted(options)))
    return Lock.make(lock, name, this.#native)
  }

  /**
   * The read/write lock called `name`; the options are for both its parts. A lock of the same name is something else: whoever comes
   * second gets {@link ForeignLayout}.
   *
   * @throws As {@link lock}; {@link Unsupported} for `reentrant`.
   */
  rwlock(name: string, options?: LockOptions): RwLock {
    const both = text('lock', 'name', name)
    const part = (writes: boolean): Lock => Lock.make(checked(this.#native.rwlock(both, writes, wanted(options))), name, this.#native)
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
    return Semaphore.makeSemaphore(checked(this.#native.semaphore(shared, all, some, wanted(rest))), name, this.#native, take)
  }

  /**
   * The latch called `name`, which is open once it was counted down `parties` times (1 to 1,000,000), by whomever. Whoever first uses it
   * says how many. A lock of the same name is something else: whoever comes second gets {@link ForeignLayout}.
   *
   * @throws {@link InvalidConfig} for a number out of range; else as {@link lock}.
   */
  latch(name: string, parties: number, options?: LatchOptions): Latch {
    const { idle } = checkedOptions<{ idle?: number }>('latch', options, LATCH)
    const [latch, all] = [text('latch', 'name', name), count('those to come', parties)]
    return this.#keeping(Latch.make(checked(this.#native.latch(latch, all, idle)), name, this.address))
  }

  /**
   * The barrier called `name`, which opens whenever `parties` (1 to 10,000) wait for it at the same time; those who wait must name the
   * same number. A lock of the same name is something else: whoever comes second gets {@link ForeignLayout}.
   *
   * @throws {@link InvalidConfig} for a number out of range; else as {@link lock}.
   */
  barrier(name: string, parties: number, options?: BarrierOptions): Barrier {
    const { ttl } = checkedOptions<{ ttl?: number }>('barrier', options, BARRIER)
    const [barrier, all] = [text('barrier', 'name', name), count('parties', parties)]
    return this.#keeping(Barrier.make(checked(this.#native.barrier(barrier, all, ttl)), name, parties, this.address))
  }

  /**
   * The locks called `names`, to be held all at once; each gets the options, and the timeout is for all of them.
   *
   * @throws {@link InvalidConfig} for no name at all, {@link Unsupported} for `reentrant`; else as {@link lock}.
   */
  multiLock(names: Iterable<string>, options?: LockOptions): MultiLock {
    const list = texts('lock', 'names', names)
    return MultiLock.make(checked(this.#native.multiLock(list, wanted(options))), this.#native)
  }

  /**
   * The hot lock `name` cut into so many segments, 1 to 256; each gets the options.
   *
   * @throws {@link InvalidConfig} for another number of segments, {@link Unsupported} for `reentrant`; else as {@link lock}.
   */
  striped(name: string, segments: number, options?: LockOptions): Striped {
    const lock = text('lock', 'name', name)
    return Striped.make(checked(this.#native.striped(lock, count('segments', segments), wanted(options))), lock, this.#native)
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

  /**
   * Takes over a lock that somebody exported from the same store, under the same prefix. The options say how it is held from now on, such as its
   * `ttl`; as the address says where none are given.
   *
   * @throws As `Lock.resume`, and as {@link lock}.
   */
  async resume(secret: string, options?: LockOptions): Promise<Guard> {
    const { name } = checked(this.#native.exported(text('resume', 'secret', secret)))
    return this.lock(name, options).resume(secret)
  }

  /** What locks of this client promise. */
  guarantees(): Guarantees {
    return checked(this.#native.guarantees())
  }

  /** @throws {@link Unsupported} unless all of it is promised. */
  require(wanted: Requirements): void {
    checked(this.#native.require(checkedOptions('require', wanted, REQUIRE)))
  }

  /** What lies under `name`: who holds it, and how many wait; of a latch, how many are still to come. */
  async inspect(name: string): Promise<Inspection> {
    return printable(await ask(this.#native, 'inspect', text('inspect', 'name', name)))
  }

  /** The names of the locks there are. */
  async list(): Promise<string[]> {
    return await ask(this.#native, 'list')
  }

  /** Takes the lock from whoever holds it under that token, which `inspect` shows. Whether somebody did. */
  async breakLock(name: string, expectedToken: bigint): Promise<boolean> {
    return await ask(this.#native, 'break_lock', text('break', 'name', name), token('break', expectedToken))
  }

  /**
   * Whether locks can be had here, now: a lock of its own, `lockwright-ping`, is acquired and given back, with all the rights that takes. For
   * readiness probes; about three requests.
   *
   * @throws Why not: {@link Unavailable} (at once where nobody listens, else after `storeTimeout`), {@link AuthFailed}, {@link ForeignLayout},
   * {@link ProtocolError}, {@link Closed}.
   */
  async ping(): Promise<Health> {
    return await ask(this.#native, 'ping')
  }

  /**
   * Begins nothing any more, and waits until everything that this client holds was released, for at most `limit`: for a program that is told
   * to end. Acquisitions fail with {@link Closed} from now on, also those that wait. The names of the locks that are held yet, none when
   * it is done; {@link close} gives them back.
   *
   * @throws {@link InvalidConfig} for what is no span of time, {@link Closed}.
   */
  async drain(limit: Duration): Promise<string[]> {
    return await ask(this.#native, 'drain', milliseconds('drain', 'limit', limit))
  }

  /** What this client did so far. */
  metrics(): Metrics {
    return metricsOf(this.#native.metrics())
  }

  /** Gives back what is held and ends every wait with `Closed`. */
  async close(): Promise<void> {
    await ask(this.#native, 'close')
    if (this.#source !== undefined) forgetSource(this.#source)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** @internal */
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return `<Client ${this.address}>`
  }
}

const collected = new FinalizationRegistry<number>(forgetSource)

/** The client's native part, by what was made of it and has it not. */
const keeps = new WeakMap<object, NativeHandle>()
