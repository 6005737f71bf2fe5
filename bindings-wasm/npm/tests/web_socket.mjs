// A program outside of workerd: `web_socket.mjs URL PORT TIMES` adds so many times one to what the origin at that port keeps.
import { connect, webSocket } from '../dist/index.js'

const [url, port, times] = process.argv.slice(2)
const origin = `http://127.0.0.1:${port}/`
const transport = webSocket(() => new WebSocket(url.replace(/^http/, 'ws')))
const client = await connect('lockwright://orders', { transport })
const lock = client.lock('hot')
let locked = 0
for (; locked < Number(times); locked++) {
  await lock.using(async () => {
    const seen = Number(await (await fetch(origin)).text())
    await (await fetch(origin, { method: 'PUT', body: String(seen + 1) })).text()
  })
}
const refused = async work => {
  try {
    await work()
  } catch ({ code }) {
    return code
  }
}
const foreign = await refused(async () => client.lock('joined', { layout: 'redisson' }))
const password = await refused(() => connect('lockwright://user:secret@orders', { transport }))
console.log(JSON.stringify({ locked, store: client.guarantees().store, foreign, password }))
await client.close()
