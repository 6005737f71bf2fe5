// What the tests have workerd run: each request adds one to a counter that only the lock keeps exact.
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
  async '/all'(client, asked) {
    const name = asked.get('lock')
    const reader = await client.rwlock(`${name}-rw`).read.acquire()
    const permit = await client.semaphore(`${name}-s`, 2).acquire()
    const latch = client.latch(`${name}-l`, 1)
    await latch.countDown()
    const passed = await Promise.all([client.barrier(`${name}-b`, 2).wait(), client.barrier(`${name}-b`, 2).wait()])
    const several = await client.multiLock([`${name}-1`, `${name}-2`]).acquire()
    const leader = await client.election(`${name}-e`).campaign('worker')
    const led = (await client.election(`${name}-e`).leader()).proclaims
    const outcomes = await Promise.all([reader, permit, several, leader].map(guard => guard.release()))
    return { opened: await latch.wait(), parties: passed.map(({ index }) => index).sort(), led, outcomes }
  },
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
