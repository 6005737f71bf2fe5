import { mistake } from './errors'
import { ACQUIRE, type Duration, LOCK, options as checkedOptions, PAUSES } from './options'
import type { Within } from './reactor'

/** What a lock is like. What is not given is as the address says, else as it says here. */
export interface LockOptions {
  /** How long it stays ours without a renewal, 20 ms to 24 h; 30 s. A crash frees it after at most this. */
  readonly ttl?: Duration | undefined
  /** How long to wait for others; `Infinity`. 0 only tries. */
  readonly timeout?: Duration | undefined
  /** Whether it is renewed every ttl/3 while it is held; true. */
  readonly renew?: boolean | undefined
  /** How long after the grant renewal ends; never. */
  readonly maxHold?: Duration | undefined
  /**
   * However early it is released, it stays taken until so long after the grant, at most 24 h; not at all. For what is to be done once
   * in a while, by whoever comes first: who comes a little later, by a clock that is a little late, finds it taken.
   */
  readonly atLeastFor?: Duration | undefined
  /** First come, first served over all tasks of all processes; false. */
  readonly fair?: boolean | undefined
  /**
   * With `fair`: how urgent it is, from 0 to 9; 0. Higher ranks go first, and within a rank whoever came first; every 10 s of waiting
   * count as one rank, so that nobody waits for ever.
   */
  readonly rank?: number | undefined
  /** Whether its `Owner` may acquire it again; false. */
  readonly reentrant?: boolean | undefined
  /**
   * Whether its holder listens for others who ask for the lock back (`Lock.requestRelease`, or Curator's `Revoker`), which its guard
   * tells: `onReleaseRequested`; false. Costs a request more at each acquisition; only the layout `curator` has such a message.
   */
  readonly revocable?: boolean | undefined
  /** How it lies in the store, such as `string`. */
  readonly layout?: string | undefined
  /** Whose locks of that layout it joins, such as `node-redlock`. */
  readonly format?: string | undefined
  /** The first and the longest pause between two tries of a waiter that nobody tells of its turn; 2 ms and 64 ms. */
  readonly retry?: { readonly min?: Duration | undefined; readonly max?: Duration | undefined } | undefined
  /** A text of at most 128 bytes that `inspect` shows. */
  readonly label?: string | undefined
}

export interface AcquireOptions {
  /** How long to wait for others; as the lock says. */
  readonly timeout?: Duration | undefined
  /** Gives up waiting. */
  readonly signal?: AbortSignal | undefined
}

const NOTHING: Within = {}

/** @internal How an acquisition waits. */
export function within(options: AcquireOptions | undefined): Within {
  if (options === undefined) return NOTHING
  const known = checkedOptions<Within>('acquire', options, ACQUIRE)
  checkSignal('acquire', known.signal)
  return known
}

/** @internal Refuses what is no signal. */
export function checkSignal(operation: string, signal: unknown): void {
  if (signal !== undefined && !isSignal(signal)) throw mistake('invalid_config', operation, 'signal must be an AbortSignal')
}

function isSignal(given: unknown): boolean {
  if (!(given instanceof AbortSignal)) return false
  try {
    // What merely inherits from one has no state: the engine throws at whoever asks for it, now and while it waits.
    Reflect.get(AbortSignal.prototype, 'aborted', given)
    return true
  } catch {
    return false
  }
}

/** @internal The options of a lock, as the native layer takes them. */
export function wanted(options: LockOptions | undefined): object {
  const { retry, ...known } = checkedOptions<LockOptions>('lock', options, LOCK)
  if (retry === undefined) return known
  const { min, max } = checkedOptions<{ min?: number; max?: number }>('lock', retry, PAUSES, 'retry.')
  return { ...known, retry: [min, max] }
}
