import { mistake } from './errors'
import { within } from './asking'
import type { AcquireOptions, Lock } from './lock'
import { options as checkedOptions } from './options'
import { OURS, only } from './ours'
import { block } from './waits'

/** What a look at the cache found. */
export interface Found<T> {
  readonly value: T
  /** Whether it is good; one that is not is to be made anew, and does meanwhile. */
  readonly fresh: boolean
}

/** A job that one caller at a time does. */
export interface Job<T> {
  /** Looks whether there is a value already; `undefined` or `null` where there is none that would do. */
  readonly look: () => Found<T> | undefined | null | PromiseLike<Found<T> | undefined | null>
  /** Makes and keeps a value. The fencing token lets the cache refuse what comes too late. */
  readonly make: (token: bigint) => T | PromiseLike<T>
  /** Whether callers wait for a fresh value though there is a stale one; false. */
  readonly waits?: boolean | undefined
}

/**
 * A job that one caller at a time does, such as to rebuild a cache entry that expired. Whoever gets it looks once more first. If
 * whoever has it dies, it goes to the next after the lock's `ttl` at most; if `make` throws, at once.
 */
export class Once<T> {
  readonly #job: Job<T>

  private constructor(ours: typeof OURS, readonly lock: Lock, job: Job<T>) {
    only(ours, 'Once', 'client.once(name, job)')
    this.#job = checkedOptions<Job<T>>('once', job, { look: 'function', make: 'function', waits: 'boolean' })
    const { look, make } = this.#job as Partial<Job<T>>
    if (look === undefined || make === undefined) throw mistake('invalid_config', 'once', 'the job must have look and make')
  }

  /** @internal */
  static make<T>(lock: Lock, job: Job<T>): Once<T> {
    return new Once(OURS, lock, job)
  }

  /**
   * The value, fresh or as `make` made it; where somebody else makes it, the stale one, or what comes of waiting.
   *
   * @throws What `look` and `make` throw, and as `Lock.acquire`.
   */
  async get(options?: AcquireOptions): Promise<T> {
    const { look, make, waits } = this.#job
    within(options)
    const found = await look()
    if (found?.fresh === true) return found.value
    const mayWait = !found || waits === true
    const acquire = (number: number) => (mayWait ? this.lock.acquireAs(number, options) : this.lock.tryAcquireAs(number))
    return await block(acquire, async guard => {
      if (guard === null) return (found as Found<T>).value
      const again = await look()
      return again?.fresh === true ? again.value : make(guard.token)
    })
  }
}
