// "Claim a coupon", as a script for Workers: `POST /coupons/NAME/claim` takes the lock `coupon:NAME`, asks an origin for the stock and
// writes one fewer, with the fencing token. Locks are in Redis where the variable REDIS has its address, else in the Durable Object
// that is bound as LOCKS.
import { connect, lockServer } from 'lockwright-wasm'

export { LockServer } from 'lockwright-wasm/lock-server'

export default {
  async fetch(request, env) {
    const [, name] = /^\/coupons\/([\w-]{1,64})\/claim$/.exec(new URL(request.url).pathname) ?? []
    if (name === undefined || request.method !== 'POST') return refused(404, 'not_found', 'POST to /coupons/NAME/claim')
    // A client for each request: in Workers connections belong to the request that makes them.
    const client = env.REDIS ? await connect(env.REDIS) : await connect('lockwright://coupons', { transport: lockServer(env.LOCKS) })
    try {
      return await client.lock(`coupon:${name}`).using(guard => claim(`${env.ORIGIN}/coupons/${name}`, guard), { timeout: '10s' })
    } catch (error) {
      // What has no code of a lock's is why the origin could not be asked.
      return error.code === undefined ? refused(502, 'origin', error.message) : refused(error.code === 'timeout' ? 504 : 503, error.code, error.message)
    } finally {
      await client.close()
    }
  },
}

async function claim(stock, { token, signal }) {
  const answer = await fetch(stock, { signal })
  const text = await answer.text()
  if (answer.status === 404) return refused(404, 'not_found', 'there is no such coupon')
  if (!answer.ok || !/^\d{1,9}$/.test(text)) return refused(502, 'origin', `the origin says what is no stock (status ${answer.status}): nothing was claimed`)
  const left = Number(text)
  if (left === 0) return Response.json({ claimed: false, left }, { status: 410 })
  const { status } = await fetch(`${stock}?fence=${token}`, { method: 'PUT', body: String(left - 1), signal })
  if (status === 204) return Response.json({ claimed: true, left: left - 1, token: String(token) })
  if (status === 409) return refused(503, 'stale_token', 'somebody claimed later and wrote sooner: nothing was claimed')
  return refused(502, 'origin', `the origin answers with status ${status}: whether a coupon was claimed is not known`)
}

function refused(status, code, message) {
  return Response.json({ code, message }, { status })
}
