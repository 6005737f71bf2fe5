import { checkSignal } from './asking'
import type { Client } from './client'
import { LockLost, mistake, Unavailable } from './errors'
import type { Guard } from './guard'
import type { AcquireOptions, Lock, LockOptions } from './lock'
import { callable, type Duration, OBSERVE, options as checkedOptions, RUN, token } from './options'
import { OURS, only } from './ours'
import { printable } from './printable'
import { pause } from './time'
import { block } from './waits'

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

/** As a lock's, but for what is the election's own. */
export type ElectionOptions = Omit<LockOptions, 'fair' | 'rank' | 'label'>

/** How an observer looks. */
export interface ObserveOptions {
  /** The time between two looks, 1 ms to 24 h; 500 ms. */
  readonly every?: Duration | undefined
  /** Ends it. */
  readonly signal?: AbortSignal | undefined
}

/** Until when one leads, or wants to. */
export interface RunOptions {
  /** Ends it. */
  readonly signal?: AbortSignal | undefined
}

/** How often an observer looks, and a candidate asks a store that does not answer, in milliseconds. */
const EVERY = 500

const DAY = 86_400_000

/** Whether a candidate goes on after it. */
function mayComeBack(error: unknown): boolean {
  return error instanceof Unavailable || error instanceof LockLost
}

/** The leader is whoever holds the lock of that name; candidates wait for it in order, where the store promises `fair` and the server allows it. */
export class Election {
  readonly #client: Client
  readonly #options: ElectionOptions

  private constructor(ours: typeof OURS, client: Client, readonly name: string, options: ElectionOptions) {
    only(ours, 'Election', 'client.election(name)')
    this.#client = client
    this.#options = options
  }

  /** @internal */
  static make(client: Client, name: string, options: ElectionOptions): Election {
    return new Election(OURS, client, name, options)
  }

  /**
   * Waits to lead, and proclaims a text of at most 128 bytes from then on. Leadership is a guard like any other: its signal tells
   * when it is lost, and releasing it resigns.
   *
   * @throws As `Client.lock` and `Lock.acquire`.
   */
  async campaign(proclaims: string, options?: AcquireOptions): Promise<Guard> {
    return this.#seat(proclaims).acquire(options)
  }

  #seat(proclaims: string): Lock {
    return this.#client.lock(this.name, { ...this.#options, fair: false, rank: 0, label: proclaims }).forElection()
  }

  /**
   * Campaigns, and calls `work` as the leader; resigns when that is over, and ends as it did. When leadership is lost before, what becomes of
   * `work` is dropped, and it campaigns again: `signal` aborts then, and `work` has to end soon. The signal of the options aborts it too, and ends a
   * candidacy with its reason. A store that does not answer is asked again every 500 ms: leadership is not given up for good because of an outage.
   *
   * @throws What `work` throws as the leader; the signal's reason; else as {@link campaign}, but neither {@link Unavailable} nor {@link LockLost}.
   */
  async run<T>(proclaims: string, work: (guard: Guard, signal: AbortSignal) => T | PromiseLike<T>, options?: RunOptions): Promise<T> {
    const { signal } = checkedOptions<{ signal?: AbortSignal }>('run', options, RUN)
    checkSignal('run', signal)
    callable('run', 'work', work)
    const seat = this.#seat(proclaims)
    for (;;) {
      let leading: Guard | undefined
      try {
        return await block(number => seat.acquireAs(number, { signal }), guard => {
          leading = guard
          return work(guard, signal === undefined ? guard.signal : AbortSignal.any([guard.signal, signal]))
        })
      } catch (error) {
        const leadsAgain = leading === undefined ? mayComeBack(error) : leading.whyLost !== undefined
        if (!leadsAgain) throw error
      }
      if (leading === undefined) await pause(EVERY, signal)
    }
  }

  /** Who leads now; `undefined` when nobody does. */
  async leader(): Promise<Leader | undefined> {
    const { holder } = await this.#client.lock(this.name, this.#options).forElection().inspect()
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
    const { every = EVERY, signal } = checkedOptions<{ every?: number; signal?: AbortSignal }>('changed', options, OBSERVE)
    if (!(every >= 1 && every <= DAY)) throw mistake('invalid_config', 'changed', `every is ${every} ms; it must be 1 ms to 24 h`)
    checkSignal('changed', signal)
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
