// What a page does with the package; the tests call it from outside.
import { connect, rest } from 'lockwright-wasm'

globalThis.start = async (gateway, address) => {
  const client = await connect(address, { transport: rest(gateway) })
  const held = new Map()
  Object.assign(globalThis, {
    /** Adds to a counter that nothing but the lock guards. */
    async count(url, rounds) {
      for (let left = rounds; left > 0; left--) {
        await client.lock('count').using(async () => {
          const seen = Number(await (await fetch(url)).text())
          await fetch(url, { method: 'POST', body: String(seen + 1) })
        })
      }
    },
    async acquire(name) {
      const guard = await client.lock(name, { ttl: '3s' }).acquire()
      held.set(name, guard)
      return String(guard.token)
    },
    tries: async name => (await client.lock(name).tryAcquire()) !== null,
    release: name => held.get(name).release(),
    lost(name) {
      const { signal } = held.get(name)
      return new Promise(told => {
        if (signal.aborted) told(signal.reason.code)
        signal.addEventListener('abort', () => told(signal.reason.code))
      })
    },
  })
  return true
}
