import init from '../wasm/lockwright.js'
import { type Client, type ConnectOptions, mistake, open } from './api.js'

export * from './api.js'

let ready: Promise<unknown> | undefined

/**
 * A client of the Redis server that `options.transport` leads to, such as `rest(url)`: a browser has no connections of its own to one. The first call fetches the
 * module, which bundlers find by its URL.
 *
 * @throws {@link InvalidConfig} or {@link Unsupported} when the address cannot be honoured.
 */
export async function connect(url: string, options: ConnectOptions = {}): Promise<Client> {
  const { transport } = options
  if (transport === undefined) {
    throw mistake('invalid_config', 'connect', 'there is no TCP here; give a transport, such as rest(url) over HTTP')
  }
  await (ready ??= init({ module_or_path: new URL('../wasm/lockwright_bg.wasm', import.meta.url) }))
  return open(url, transport)
}
