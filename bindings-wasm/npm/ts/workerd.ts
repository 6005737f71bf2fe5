import { connect as dial } from 'cloudflare:sockets'

import { initSync } from '../wasm/lockwright.js'
import module from '../wasm/lockwright_bg.wasm'
import { type Client, type ConnectOptions, duplex, open } from './api.js'

export * from './api.js'

initSync({ module })

/** Connections of `cloudflare:sockets`. */
export const sockets = duplex(async (hostname, port) => {
  const socket = dial({ hostname, port }, { allowHalfOpen: false })
  await socket.opened
  const [reader, writer] = [socket.readable.getReader(), socket.writable.getWriter()]
  return {
    send: bytes => writer.write(bytes),
    receive: async () => (await reader.read()).value,
    close: () => socket.close(),
  }
})

/**
 * A client of the Redis server at `url`, over `cloudflare:sockets` unless a transport is given. Its connections belong to the request that makes them: one
 * client for each request, closed at its end.
 *
 * @throws {@link InvalidConfig} or {@link Unsupported} when the address cannot be honoured.
 */
export async function connect(url: string, options: ConnectOptions = {}): Promise<Client> {
  return open(url, options.transport ?? sockets)
}
