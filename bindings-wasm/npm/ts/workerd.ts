import { connect as dial } from 'cloudflare:sockets'

import { initSync } from '../wasm/lockwright.js'
import module from '../wasm/lockwright_bg.wasm'
import { type Client, type ConnectOptions, type Socket, type Transport, duplex, mistake, open, webSocket } from './api.js'
import { refused } from './web_socket.js'

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

/** A namespace of Durable Objects, as far as it is used. */
export interface Objects {
  idFromName(name: string): unknown
  get(id: never): { fetch(url: string, init: { headers: Record<string, string> }): PromiseLike<unknown> }
}

/**
 * The transport to the lock servers of this namespace, whose class is `LockServer` of `lockwright-wasm/lock-server`: the name in `lockwright://NAME` says which.
 *
 * @throws {@link InvalidConfig} for what is no such namespace, as where the Worker has no binding of that name.
 */
export function lockServer(objects: Objects): Transport {
  if (typeof objects?.idFromName !== 'function') {
    throw mistake('invalid_config', 'connect', 'lockServer takes a namespace of Durable Objects; see that the Worker has a binding of the name that was given')
  }
  return webSocket(async name => {
    const object = objects.get(objects.idFromName(name) as never)
    const answer = (await object.fetch('https://lock-server/', { headers: { Upgrade: 'websocket' } })) as { webSocket: (Socket & { accept(): void }) | null }
    const socket = answer.webSocket
    if (socket === null) throw refused('the object is no lock server')
    socket.accept()
    return socket
  })
}

/**
 * A client of the Redis server at `url`, over `cloudflare:sockets` unless a transport is given. Its connections belong to the request that makes them: one
 * client for each request, closed at its end.
 *
 * @throws {@link InvalidConfig} or {@link Unsupported} when the address or an option cannot be honoured.
 */
export async function connect(url: string, options?: ConnectOptions): Promise<Client> {
  return open(url, options, sockets)
}
