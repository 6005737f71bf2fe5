import { Client } from './client.js'
import { mistake } from './errors.js'
import { CONNECT, type Duration, options, text } from './options.js'
import { Running } from './running.js'
import type { Transport } from './transport.js'

export type { AcquireOptions, LockOptions } from './asking.js'
export { type Arrival, Barrier, type BarrierOptions } from './barrier.js'
export { bridge, type Speaker } from './bridge.js'
export { Client } from './client.js'
export { type Duplex, duplex } from './duplex.js'
export { Election, type ElectionOptions, type Leader, type ObserveOptions, type RunOptions } from './election.js'
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

/** How a client reaches its server. What the address says goes before what is given here. */
export interface ConnectOptions {
  /** What makes connections; the runtime's own where nothing is said. */
  readonly transport?: Transport | undefined
  /** Put before every lock name, so that applications can share a store. */
  readonly prefix?: string | undefined
  /** Limit for making one connection; 2 s. */
  readonly connectTimeout?: Duration | undefined
  /** Limit for one reply; after it the request's outcome is unknown and it is asked again; 1 s. */
  readonly responseTimeout?: Duration | undefined
  /** How long an operation goes on asking a store that does not answer before it fails with `Unavailable`; 5 s. */
  readonly storeTimeout?: Duration | undefined
}

const KNOWN = { ...CONNECT, transport: 'object' } as const

/** @internal A client of the server at `url`, by the transport that is given, else by the runtime's own. */
export function open(url: string, given: ConnectOptions | undefined, own?: Transport): Client {
  const { transport = own, credentials, ...rest } = options<ConnectOptions & { credentials?: unknown }>('connect', given, KNOWN)
  const address = text('connect', 'url', url)
  if (credentials !== undefined) {
    throw mistake('unsupported', 'connect', 'credentials are not asked for in this package; write user and password into the address')
  }
  if (typeof transport?.connect !== 'function') {
    throw mistake('invalid_config', 'connect', 'a transport has a method connect, as those of redis(client), rest(url), duplex(open) and bridge(begin) have')
  }
  return Client.make(new Running(address, rest, transport, transport === own))
}
