import { readFileSync } from 'node:fs'

import { initSync } from '../wasm/lockwright.js'
import { Client } from './client.js'
import { tcp } from './node.js'
import { Running } from './running.js'
import type { Transport } from './transport.js'

export { Client } from './client.js'
export * from './errors.js'
export { Guard, type LossReason, type ReleaseOutcome } from './guard.js'
export { type AcquireOptions, Lock } from './lock.js'
export type { Duration, LockOptions } from './options.js'
export type { Connection, Events, Transport } from './transport.js'

/** How a client reaches its server. */
export interface ConnectOptions {
  /** What makes connections; those of Node's `net`. */
  readonly transport?: Transport | undefined
}

initSync({ module: readFileSync(new URL('../wasm/lockwright_bg.wasm', import.meta.url)) })

/**
 * A client of the Redis server at `url`, such as `redis://localhost:6379?ttl=10s`. Nothing is sent before the first use.
 *
 * @throws {@link InvalidConfig} or {@link Unsupported} when the address cannot be honoured.
 */
export async function connect(url: string, options: ConnectOptions = {}): Promise<Client> {
  return Client.make(new Running(url, options.transport ?? tcp))
}
