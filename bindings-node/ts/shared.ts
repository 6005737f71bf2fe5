import { Lock, type LockOptions } from './lock'
import type { NativeHandle } from './native'
import { count } from './options'
import { OURS, only } from './ours'
import { ask } from './reactor'

/**
 * A named read/write lock: many readers at once, or one writer. First come, first served: a reader waits for a writer that came
 * before it, and the other way round. `guard.downgrade()` and `guard.tryUpgrade()` change from one to the other.
 */
export class RwLock {
  readonly name: string
  /** The lock of readers: held by any number at once, while nobody writes. */
  readonly read: Lock
  /** The lock of the writer, who is alone. */
  readonly write: Lock

  private constructor(ours: typeof OURS, name: string, read: Lock, write: Lock) {
    only(ours, 'RwLock', 'client.rwlock(name)')
    this.name = name
    this.read = read
    this.write = write
  }

  /** @internal */
  static make(name: string, read: Lock, write: Lock): RwLock {
    return new RwLock(OURS, name, read, write)
  }

  /** @internal */
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return `<RwLock ${JSON.stringify(this.name)}>`
  }
}

/** What a semaphore is like: as a lock, but that nobody enters it twice. */
export interface SemaphoreOptions extends Omit<LockOptions, 'reentrant'> {
  /** How many permits each acquisition takes, all or none; 1. */
  readonly take?: number | undefined
}

/**
 * A named semaphore, of which each acquisition takes `take` permits, all or none; they end with their holder. With `fair`, an
 * acquisition that wants more than is free is not passed over by those that want less. Whoever waits in a block for a permit that the block
 * itself has waits as long as its limit says: `Deadlock` is told of locks alone, since permits come from anybody, and `resize` makes more.
 */
export class Semaphore extends Lock {
  /** How many permits each acquisition takes. */
  readonly take: number
  readonly #shared: NativeHandle

  private constructor(ours: typeof OURS, native: NativeHandle, name: string, client: NativeHandle, take: number) {
    super(ours, native, name, client)
    this.#shared = native
    this.take = take
  }

  /** @internal */
  static makeSemaphore(native: NativeHandle, name: string, client: NativeHandle, take: number): Semaphore {
    return new Semaphore(OURS, native, name, client, take)
  }

  /** Gives it so many permits, for everybody and for good. Nobody loses what it holds. */
  async resize(permits: number): Promise<void> {
    await ask(this.#shared, 'resize', count('permits', permits))
  }
}
