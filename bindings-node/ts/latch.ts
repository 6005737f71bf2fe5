import { type AcquireOptions, within } from './asking'
import type { NativeHandle } from './native'
import { count, type Duration } from './options'
import { OURS, only } from './ours'
import { ask, wait } from './reactor'

/** What a latch is like. */
export interface LatchOptions {
  /**
   * For how long after its last use it is remembered, and open if it is: a minute to 30 days (`'720h'`), the default.
   */
  readonly idle?: Duration | undefined
}

/** Whoever waits goes on once so many have counted it down. Made by `Client.latch`; nothing is held, and nothing to be released. */
export class Latch {
  readonly #native: NativeHandle
  readonly #store: string

  private constructor(ours: typeof OURS, native: NativeHandle, readonly name: string, store: string) {
    only(ours, 'Latch', 'client.latch(name, parties)')
    this.#native = native
    this.#store = store
  }

  /** @internal */
  static make(native: NativeHandle, name: string, store: string): Latch {
    return new Latch(OURS, native, name, store)
  }

  /**
   * Waits until it is open, for at most `timeout`: 0 only looks. Whether it is; without a timeout, it is. When `signal` aborts, the
   * promise rejects with its reason.
   *
   * @throws {@link Unavailable} when the store did not answer for `storeTimeout`, {@link AuthFailed}, {@link ForeignLayout},
   * {@link ProtocolError}, {@link Closed}.
   */
  async wait(options?: AcquireOptions): Promise<boolean> {
    return await wait(this.#native, 'wait', within(options))
  }

  /**
   * Counts it down by one, once; how many are still to come. An open one stays open. Two callers may be told the same number,
   * where an answer was lost and asked for again: 0 does not mean that you were the last.
   *
   * @throws As {@link wait}; after {@link Unavailable} it is not known whether it was counted down.
   */
  async countDown(): Promise<number> {
    return await ask(this.#native, 'count_down')
  }

  /** How many are still to come; of a latch that nobody used yet, its count. */
  async count(): Promise<number> {
    return await ask(this.#native, 'count')
  }

  /** Has it count from `to` (1 to 1,000,000), if it is open or nobody used it yet. Whether it does. */
  async trySetCount(to: number): Promise<boolean> {
    return await ask(this.#native, 'try_set_count', count('those to come', to))
  }

  /** @internal */
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return `<Latch ${JSON.stringify(this.name)} on ${this.#store}>`
  }
}
