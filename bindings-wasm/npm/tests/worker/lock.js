// What the tests have workerd run: each request adds one to a counter that only the lock keeps exact.
import { all } from './all.js'
import { connect } from './dist/workerd.js'

export default {
  async fetch(request, { REDIS }) {
    const { pathname, searchParams } = new URL(request.url)
    const client = await connect(REDIS)
    try {
      return Response.json(await does[pathname](client, searchParams, REDIS))
    } catch (error) {
      return Response.json({ code: error.code, message: String(error.stack ?? error) }, { status: 500 })
    } finally {
      await client.close()
    }
  },
}

const does = {
  async '/add'(client, asked, address) {
    const guard = await client.lock(asked.get('lock')).acquire({ timeout: 60_000 })
    const counter = asked.get('counter')
    const seen = Number(await redis(address, 'GET', counter))
    await redis(address, 'SET', counter, String(seen + 1))
    return { token: String(guard.token), outcome: await guard.release() }
  },
  '/all': (client, asked) => all(client, asked.get('lock')),
}

/** The server's answer to a command, on a connection of its own. */
async function redis(address, ...words) {
  const { connect: dial } = await import('cloudflare:sockets')
  const { hostname, port } = new URL(address)
  const socket = dial({ hostname, port: Number(port) })
  const [reader, writer] = [socket.readable.getReader(), socket.writable.getWriter()]
  await writer.write(new TextEncoder().encode(`*${words.length}\r\n${words.map(word => `$${word.length}\r\n${word}\r\n`).join('')}`))
  const { value } = await reader.read()
  await socket.close()
  const [head, text] = new TextDecoder().decode(value).split('\r\n')
  return head.startsWith('$') ? text : head
}
