import { readFileSync } from 'node:fs'

import { initSync } from '../wasm/lockwright.js'
import { type Client, type ConnectOptions, mistake, open } from './api.js'
import { tcp } from './node.js'

export * from './api.js'
export { tcp } from './node.js'

initSync({ module: readFileSync(new URL('../wasm/lockwright_bg.wasm', import.meta.url)) })

/**
 * A client of the Redis server at `url`, such as `redis://localhost:6379?ttl=10s`, else at what the environment has in `LOCKWRIGHT_URL`; over Node's `net` unless a
 * transport is given. Nothing is sent before the first use.
 *
 * @throws {@link InvalidConfig} or {@link Unsupported} when the address or an option cannot be honoured.
 */
export async function connect(url?: string, options?: ConnectOptions): Promise<Client> {
  const address = url ?? process.env['LOCKWRIGHT_URL']
  if (address === undefined) {
    throw mistake('unsupported', 'connect', 'there are no files of locks in WebAssembly; give an address such as redis://localhost:6379, or set LOCKWRIGHT_URL')
  }
  return open(address, options, tcp)
}
