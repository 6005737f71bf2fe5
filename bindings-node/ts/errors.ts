/** What went wrong; the same words in every language. */
export type ErrorCode =
  | 'timeout'
  | 'not_owned'
  | 'lost'
  | 'cancelled'
  | 'unavailable'
  | 'quorum'
  | 'invalid_config'
  | 'unsupported'
  | 'foreign_layout'
  | 'deadlock'
  | 'forked'
  | 'closed'
  | 'auth'
  | 'protocol'
  | 'internal'

/** What an error concerns. */
export interface ErrorDetails {
  /** What was being done, such as `acquire`. */
  readonly operation?: string | undefined
  /** The lock's name. */
  readonly lock?: string | undefined
  /** The store's address without credentials. */
  readonly store?: string | undefined
}

/** Whatever goes wrong with a lock. `code` is the same in every language; the message says what can be done. */
export class LockError extends Error implements ErrorDetails {
  readonly code: ErrorCode = 'internal'
  /** Whether the same call may succeed later without a change to the program or its settings. */
  readonly retryable: boolean = false
  readonly operation: string | undefined
  readonly lock: string | undefined
  readonly store: string | undefined

  constructor(message: string, { operation, lock, store }: ErrorDetails = {}) {
    super(message)
    this.operation = operation
    this.lock = lock
    this.store = store
  }

  override get name(): string {
    return this.constructor.name
  }
}

/** Somebody else held the lock for the whole time. */
export class LockTimeout extends LockError {
  override readonly code = 'timeout'
  override readonly retryable = true
}

/** What was to be released is not held. */
export class NotOwned extends LockError {
  override readonly code = 'not_owned'
}

/** The lease ended while the lock was held: somebody else may have been in the critical section too. */
export class LockLost extends LockError {
  override readonly code = 'lost'
  override readonly retryable = true
}

/** The caller gave up waiting. Waits that an `AbortSignal` ended reject with the signal's own reason instead. */
export class Cancelled extends LockError {
  override readonly code = 'cancelled'
}

/** The store did not answer within `storeTimeout`. */
export class Unavailable extends LockError {
  override readonly code = 'unavailable'
  override readonly retryable = true
}

/** Too few nodes of a quorum granted the lock. */
export class QuorumFailed extends LockError {
  override readonly code = 'quorum'
  override readonly retryable = true
}

/** The address, an option or an argument is wrong; nothing was sent. */
export class InvalidConfig extends LockError {
  override readonly code = 'invalid_config'
}

/** The store or layout cannot do what was asked. */
export class Unsupported extends LockError {
  override readonly code = 'unsupported'
}

/** The store holds something else under the lock's name. */
export class ForeignLayout extends LockError {
  override readonly code = 'foreign_layout'
}

/** Waiting would never end. */
export class Deadlock extends LockError {
  override readonly code = 'deadlock'
}

/** A guard that was made before a fork was used in the child. */
export class Forked extends LockError {
  override readonly code = 'forked'
}

/** The client was closed. */
export class Closed extends LockError {
  override readonly code = 'closed'
}

/** The store refused the credentials, or they lack a right. */
export class AuthFailed extends LockError {
  override readonly code = 'auth'
}

/** The other side does not speak the store's protocol. */
export class ProtocolError extends LockError {
  override readonly code = 'protocol'
}

/** A defect of this library. */
export class InternalError extends LockError {
  override readonly code = 'internal'
}

/** @internal */
export const CLASSES: Record<ErrorCode, new (message: string, details?: ErrorDetails) => LockError> = {
  timeout: LockTimeout,
  not_owned: NotOwned,
  lost: LockLost,
  cancelled: Cancelled,
  unavailable: Unavailable,
  quorum: QuorumFailed,
  invalid_config: InvalidConfig,
  unsupported: Unsupported,
  foreign_layout: ForeignLayout,
  deadlock: Deadlock,
  forked: Forked,
  closed: Closed,
  auth: AuthFailed,
  protocol: ProtocolError,
  internal: InternalError,
}

/** An error as the native layer tells it. */
export interface Failure {
  readonly code: ErrorCode
  readonly message: string
  readonly operation: string
  readonly lock?: string
  readonly store?: string
}

/** @internal */
export function isFailure(answer: unknown): answer is Failure {
  return typeof answer === 'object' && answer !== null && 'code' in answer
}

/** @internal What the native layer returned, unless that is an error. */
export function checked<T>(answer: T | Failure): T {
  if (isFailure(answer)) throw errorOf(answer)
  return answer
}

/** @internal Which lock, where. */
export interface Origin {
  readonly lock: string
  readonly store: string
}

/** @internal An error that the wrapper finds, worded as those of the native layer. */
export function mistake(code: ErrorCode, operation: string, what: string, origin?: Origin): LockError {
  const where = origin === undefined ? '' : ` lock ${JSON.stringify(origin.lock)} on ${origin.store}`
  return new CLASSES[code](`${code}: ${operation}${where}: ${what}`, { operation, lock: origin?.lock, store: origin?.store })
}

/** @internal The first of several errors, with the others as its cause. */
export function firstOf(errors: readonly LockError[]): LockError | undefined {
  const [first, ...others] = errors
  if (first === undefined || others.length === 0) return first
  const value = new AggregateError(others, `${others.length} more failed`)
  return Object.defineProperty(first, 'cause', { value, configurable: true, writable: true })
}

/** @internal */
export function errorOf(failure: Failure): LockError {
  return new CLASSES[failure.code](failure.message, failure)
}
