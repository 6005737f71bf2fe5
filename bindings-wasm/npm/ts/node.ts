import { createConnection } from 'node:net'

import type { Transport } from './transport.js'

/** Connections of Node's `net`. */
export const tcp: Transport = {
  connect(host, port, events) {
    const socket = createConnection({ host, port, noDelay: true })
    let over = false
    const ended = (code?: string, message?: string): void => {
      if (over) return
      over = true
      socket.destroy()
      events.ended(code, message)
    }
    socket.on('connect', () => { if (!over) events.opened() })
    socket.on('data', bytes => { if (!over) events.received(bytes) })
    socket.on('error', (error: NodeJS.ErrnoException) => ended(error.code ?? 'EIO', error.message))
    socket.on('close', () => ended())
    return {
      send: bytes => void socket.write(bytes),
      end: () => {
        over = true
        socket.destroy()
      },
      keepAlive: waited => void (waited ? socket.ref() : socket.unref()),
    }
  },
}
