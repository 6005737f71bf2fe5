export { Client, connect, type ConnectOptions, restored } from './client'
export {
  AuthFailed,
  Cancelled,
  Closed,
  Deadlock,
  type ErrorCode,
  type ErrorDetails,
  ForeignLayout,
  Forked,
  InternalError,
  InvalidConfig,
  LockError,
  LockLost,
  LockTimeout,
  NotOwned,
  ProtocolError,
  QuorumFailed,
  Unavailable,
  Unsupported,
} from './errors'
export { type Arrival, Barrier, type BarrierOptions } from './barrier'
export { Election, type ElectionOptions, type Leader, type ObserveOptions, type RunOptions } from './election'
export { Guard } from './guard'
export * as kit from './kit'
export { Latch, type LatchOptions } from './latch'
export { type AcquireOptions, Lock, type LockOptions } from './lock'
export { type LogEvent, type LogLevel, onEvent } from './log'
export type { Duration } from './options'
export { Histogram, type Metrics } from './metrics'
export { type Found, type Job, Once } from './once'
export { Owner } from './owner'
export type { Credentials, CredentialsSource } from './reactor'
export { MultiGuard, MultiLock, Segment, Striped } from './several'
export { RwLock, Semaphore, type SemaphoreOptions } from './shared'
export type {
  Counting,
  Guarantees,
  Health,
  Holder,
  Inspection,
  LossReason,
  Part,
  ReleaseOutcome,
  Requirements,
  Sharing,
  Waiting,
} from './records'
