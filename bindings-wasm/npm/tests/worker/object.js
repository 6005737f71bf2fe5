// A lock server at the edge, and what the tests have Workers do with it: each request adds one to a counter that only
// the lock keeps exact.
import { all } from './all.js'
import { connect, lockServer } from './dist/workerd.js'
import { LockServer } from './dist/lock_server.js'

/** The lock server, which the tests can stop as the runtime may. */
export class Locks extends LockServer {
  async fetch(request) {
    const { pathname } = new URL(request.url)
    if (pathname === '/evict') this.ctx.abort('evicted by a test')
    if (pathname === '/damage') {
      this.ctx.storage.sql.exec('DROP TABLE records')
      return new Response()
    }
    return super.fetch(request)
  }
}

export default {
  async fetch(request, { LOCKS, ORIGIN }) {
    const { pathname, searchParams } = new URL(request.url)
    const object = () => LOCKS.get(LOCKS.idFromName('orders'))
    if (pathname === '/connect') return object().fetch(request)
    if (pathname === '/evict') {
      await object().fetch('https://locks/evict').catch(() => {})
      return Response.json({})
    }
    if (pathname === '/damage') {
      await object().fetch('https://locks/damage')
      return Response.json({})
    }
    if (pathname === '/unbound') {
      const code = work => work().then(() => 'fine', error => error.code)
      return Response.json({ missing: await code(async () => lockServer(undefined)), bare: await code(() => connect('lockwright://orders')) })
    }
    const client = await connect('lockwright://orders?ttl=5s', { transport: lockServer(LOCKS) })
    try {
      return Response.json(await does[pathname](client, searchParams, ORIGIN))
    } catch (error) {
      return Response.json({ code: error.code, message: String(error.stack ?? error) }, { status: 500 })
    } finally {
      await client.close()
    }
  },
}

const does = {
  async '/export'(client, asked) {
    const guard = await client.lock(asked.get('lock')).acquire()
    return { token: String(guard.token), secret: await guard.export('30s') }
  },
  async '/try'(client, asked) {
    const guard = await client.lock(asked.get('lock')).tryAcquire()
    return { got: guard !== null, outcome: await guard?.release() }
  },
  async '/resume'(client, asked) {
    const guard = await client.resume(asked.get('secret'))
    return { token: String(guard.token), outcome: await guard.release() }
  },
  async '/add'(client, asked, origin) {
    const guard = await client.lock(asked.get('lock')).acquire({ timeout: 60_000 })
    const seen = Number(await (await fetch(origin)).text())
    await (await fetch(origin, { method: 'PUT', body: String(seen + 1) })).text()
    return { token: String(guard.token), outcome: await guard.release() }
  },
  '/all': (client, asked) => all(client, asked.get('lock')),
}
