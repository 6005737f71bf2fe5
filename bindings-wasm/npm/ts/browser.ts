import init from '../wasm/lockwright.js'
import { type Client, type ConnectOptions, mistake, open } from './api.js'
import { said } from './transport.js'

export * from './api.js'

let ready: Promise<unknown> | undefined

async function load(): Promise<void> {
  const file = new URL('../wasm/lockwright_bg.wasm', import.meta.url)
  try {
    await init({ module_or_path: file })
  } catch (value) {
    // Kept, it would fail every later call until the page is loaded anew.
    ready = undefined
    // Without what an address may have of a login.
    const what = `could not load ${file.protocol}//${file.host}${file.pathname} (${said(value)})`
    const error = mistake('unavailable', 'connect', `${what}; see that the site serves this file of the package there, and connect again`)
    throw Object.defineProperty(error, 'cause', { value, configurable: true, writable: true })
  }
}

/**
 * A client of the Redis server that `options.transport` leads to, such as `rest(url)`: a browser has no connections of its own to one. The first call fetches the
 * module, which bundlers find by its URL.
 *
 * @throws {@link InvalidConfig} or {@link Unsupported} when the address or an option cannot be honoured; {@link Unavailable} when the module could not be loaded: the next
 * call tries again.
 */
export async function connect(url: string, options?: ConnectOptions): Promise<Client> {
  if (options?.transport === undefined) {
    throw mistake('invalid_config', 'connect', 'there is no TCP here; give a transport, such as rest(url) over HTTP')
  }
  await (ready ??= load())
  return open(url, options)
}
