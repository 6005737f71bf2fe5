import type { Client } from './client'
import type { Guard } from './guard'
import type { AcquireOptions, LockOptions } from './lock'
import { type Duration, OBSERVE, options as checkedOptions, token } from './options'
import { OURS, only } from './ours'
import { printable } from './records'
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
  /** The time between two looks; 500 ms. */
  readonly every?: Duration | undefined
  /** Ends it. */
  readonly signal?: AbortSignal | undefined
}

/** The leader is whoever holds the lock of that name; candidates wait for it in order, where the store promises `fair` and the server allows it. */
export class Election {
  readonly name: string
  readonly #client: Client
  readonly #options: LockOptions

  private constructor(ours: typeof OURS, client: Client, name: string, options: LockOptions) {
    only(ours, 'Election', 'client.election(name)')
    this.name = name
    this.#client = client
    this.#options = options
  }

  /** @internal */
  static make(client: Client, name: string, options: LockOptions): Election {
    return new Election(OURS, client, name, options)
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
    return printable({ proclaims, host, pid, language, token: firstToken, leadsFor })
  }

  /**
   * Waits until somebody else leads than the one with the token `known`, or anybody where none is given; `undefined` when nobody
   * leads any more. A reign shorter than the time between two looks may go unseen.
   *
   * @throws As {@link leader}; the signal's reason.
   */
  async changed(known?: bigint, options?: ObserveOptions): Promise<Leader | undefined> {
    if (known !== undefined) token('changed', known)
    const { every = 500, signal } = checkedOptions<{ every?: number; signal?: AbortSignal }>('changed', options, OBSERVE)
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
