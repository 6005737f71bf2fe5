import type { Client } from './client'
import type { Guard } from './guard'
import type { AcquireOptions, LockOptions } from './lock'
import { milliseconds, options as checkedOptions, token } from './options'
import { pause } from './time'

/** Who leads. */
export interface Leader {
  readonly proclaims: string
  readonly host: string
  readonly pid: number
  readonly language: string
  /** Its fencing token: higher with every leader. */
  readonly token: bigint
  /** Milliseconds, where the store can tell. */
  readonly leadsFor?: number | undefined
}

/** How an observer looks. */
export interface ObserveOptions {
  /** Milliseconds between two looks; 500. */
  readonly every?: number | undefined
  /** Ends it. */
  readonly signal?: AbortSignal | undefined
}

/** The leader is whoever holds the lock of that name; candidates wait for it in order, where the store promises `fair` and the server allows it. */
export class Election {
  readonly name: string
  readonly #client: Client
  readonly #options: LockOptions

  /** @internal */
  constructor(client: Client, name: string, options: LockOptions) {
    this.name = name
    this.#client = client
    this.#options = options
  }

  /**
   * Waits to lead, and proclaims a text of at most 128 bytes from then on. Leadership is a guard like any other: its signal tells
   * when it is lost, and releasing it resigns.
   *
   * @throws As `Client.lock` and `Lock.acquire`.
   */
  async campaign(proclaims: string, options?: AcquireOptions): Promise<Guard> {
    const lock = this.#client.lock(this.name, { ...this.#options, fair: false, label: proclaims })
    return lock.fairIfPossible().acquire(options)
  }

  /** Who leads now; `undefined` when nobody does. */
  async leader(): Promise<Leader | undefined> {
    const { holder } = await this.#client.lock(this.name, this.#options).inspect()
    if (holder === undefined) return undefined
    const { label: proclaims, host, pid, language, firstToken, heldFor: leadsFor } = holder
    return { proclaims, host, pid, language, token: firstToken, leadsFor }
  }

  /**
   * Waits until somebody else leads than the one with the token `known`, or anybody where none is given; `undefined` when nobody
   * leads any more. A reign shorter than the time between two looks may go unseen.
   *
   * @throws As {@link leader}; the signal's reason.
   */
  async changed(known?: bigint, options?: ObserveOptions): Promise<Leader | undefined> {
    if (known !== undefined) token('changed', known)
    const { every = 500, signal } = checkedOptions('changed', options, { every: 'number', signal: 'object' })
    milliseconds('changed', 'every', every)
    for (;;) {
      signal?.throwIfAborted()
      const leader = await this.leader()
      if (leader?.token !== known) return leader
      await pause(every, signal)
    }
  }

  /** @internal */
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return `<Election ${JSON.stringify(this.name)} on ${this.#client.address}>`
  }
}
