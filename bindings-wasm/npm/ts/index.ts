import { readFileSync } from 'node:fs'

import { initSync } from '../wasm/lockwright.js'
import { type Client, type ConnectOptions, open } from './api.js'
import { tcp } from './node.js'

export * from './api.js'
export { tcp } from './node.js'

initSync({ module: readFileSync(new URL('../wasm/lockwright_bg.wasm', import.meta.url)) })

/**
 * A client of the Redis server at `url`, such as `redis://localhost:6379?ttl=10s`, over Node's `net` unless a transport is given. Nothing is sent before
 * the first use.
 *
 * @throws {@link InvalidConfig} or {@link Unsupported} when the address cannot be honoured.
 */
export async function connect(url: string, options: ConnectOptions = {}): Promise<Client> {
  return open(url, options.transport ?? tcp)
}
