import { type AcquireOptions, within } from './asking'
import type { NativeHandle } from './native'
import type { Duration } from './options'
import { OURS, only } from './ours'
import { ask, wait } from './reactor'
import { printable } from './printable'

/** What a barrier is like. */
export interface BarrierOptions {
  /** For how long the place of a party that died stands yet: 20 ms to 24 h; 30 s. */
  readonly ttl?: Duration | undefined
}

/** How a party went on. */
export interface Arrival {
  /** Which of its generation it was, in the order of arrival: 0 to one less than there are parties, each once. */
  readonly index: number
  /** Rises by one whenever the barrier opens. After minutes without use it goes on from the store's clock. */
  readonly generation: bigint
}

/**
 * Whoever waits goes on once as many wait as there are parties; then it starts over. Made by `Client.barrier`. A party that dies, times
 * out or is aborted gives its place up, and the others go on waiting for whoever replaces it.
 */
export class Barrier {
  /** How many have to wait at the same time. */
  readonly parties: number
  readonly #native: NativeHandle
  readonly #store: string

  private constructor(ours: typeof OURS, native: NativeHandle, readonly name: string, parties: number, store: string) {
    only(ours, 'Barrier', 'client.barrier(name, parties)')
    this.#native = native
    this.parties = parties
    this.#store = store
  }

  /** @internal */
  static make(native: NativeHandle, name: string, parties: number, store: string): Barrier {
    return new Barrier(OURS, native, name, parties, store)
  }

  /**
   * Waits until as many wait as there are parties, for at most `timeout`: 0 goes on if this is the last one. `null` when it did not open
   * in time. When `signal` aborts, the promise rejects with its reason; if it opened just then, the others went on with this party.
   *
   * @throws {@link InvalidConfig} when those who wait name another number of parties, {@link LockLost} when this process was stopped for
   * so long that it is not known whether it passed, {@link Unavailable} when the store does not say so, {@link AuthFailed},
   * {@link ForeignLayout}, {@link ProtocolError}, {@link Closed}.
   */
  async wait(options?: AcquireOptions): Promise<Arrival | null> {
    const passed = await wait<Arrival | undefined>(this.#native, 'wait', within(options))
    return passed === undefined ? null : printable(passed)
  }

  /** How many wait now; those whose process died count until their place's ttl is over. */
  async waiting(): Promise<number> {
    return await ask(this.#native, 'waiting')
  }

  /** @internal */
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return `<Barrier ${JSON.stringify(this.name)} of ${this.parties} on ${this.#store}>`
  }
}
