// One round of all that the package has, for runtimes that have no test runner of Node's: run it with the address of a server.
import { connect } from '../dist/index.js'

const [address] = globalThis.Deno?.args ?? process.argv.slice(2)
const client = await connect(address)

function same(seen, wanted) {
  const [is, should] = [seen, wanted].map(value => JSON.stringify(value, (_, part) => (typeof part === 'bigint' ? String(part) : part)))
  if (is !== should) throw new Error(`it is ${is}, and should be ${should}`)
}

const lock = client.lock('x', { ttl: '5s' })
let sum = 0
await Promise.all(Array.from({ length: 20 }, () => lock.using(async () => {
  const seen = sum
  await new Promise(next => setTimeout(next, 1))
  sum = seen + 1
})))
same(sum, 20)
const guard = await lock.acquire()
same(await (await connect(address)).lock('x').tryAcquire(), null)
const writer = await client.rwlock('rw').write.acquire()
await writer.downgrade()
const [one, other] = await Promise.all([client.barrier('b', 2).wait(), client.barrier('b', 2).wait()])
same([one.index, other.index].sort(), [0, 1])
same(one.generation, other.generation)
const latch = client.latch('l', 1)
same([await latch.countDown(), await latch.wait()], [0, true])
const several = await client.multiLock(['p', 'q']).acquire()
same([...several.tokens.keys()], ['p', 'q'])
same(await client.semaphore('s', 1).using(() => client.semaphore('s', 1).tryAcquire()), null)
same(await client.election('e').run('me', async () => (await client.election('e').leader()).proclaims), 'me')
same(await client.once('o', { look: () => undefined, make: token => token > 0n }).get(), true)
same(await Promise.all([guard, writer, several].map(held => held.release())), ['released', 'released', 'released'])
await client.close()
console.log('all is well')
// A client that was not closed keeps nothing from ending.
