import { Client } from './client.js'
import { Running } from './running.js'
import type { Transport } from './transport.js'

export type { AcquireOptions, LockOptions } from './asking.js'
export { type Arrival, Barrier, type BarrierOptions } from './barrier.js'
export { bridge, type Speaker } from './bridge.js'
export { Client } from './client.js'
export { type Duplex, duplex } from './duplex.js'
export { Election, type Leader, type ObserveOptions, type RunOptions } from './election.js'
export * from './errors.js'
export { Guard } from './guard.js'
export { Latch, type LatchOptions } from './latch.js'
export { Lock } from './lock.js'
export { type Found, type Job, Once } from './once.js'
export type { Duration } from './options.js'
export type { Counting, Guarantees, Health, Holder, Inspection, LossReason, Part, ReleaseOutcome, Sharing, Waiting } from './records.js'
export { type IoRedis, type NodeRedis, redis } from './redis.js'
export { rest, type RestOptions } from './rest.js'
export { MultiGuard, MultiLock } from './several.js'
export { RwLock, Semaphore, type SemaphoreOptions } from './shared.js'
export type { Connection, Events, Transport } from './transport.js'
export { type Socket, webSocket } from './web_socket.js'

/** How a client reaches its server. */
export interface ConnectOptions {
  /** What makes connections; the runtime's own where nothing is said. */
  readonly transport?: Transport | undefined
}

/** @internal A client of the server at `url`, by this transport. */
export function open(url: string, transport: Transport): Client {
  return Client.make(new Running(url, transport))
}
