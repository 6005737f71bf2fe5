// The plugin of examples/edge, composed with the component and served by an edge runtime, on a real Redis: beside native clients that claim as it does.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createConnection, createServer } from 'node:net'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'

import { connect } from '../../bindings-node/dist/index.mjs'
import { freePort, requests } from '../npm/tests/workerd.mjs'
import { claim, serve, Shim, stopAll, Watched } from './edge_host.mjs'

const REDIS = process.env.LOCKWRIGHT_TEST_REDIS
const PREFIX = `prefix=edge-${process.pid}:`
const ADDRESS = `${REDIS}?${PREFIX}`
const PLUGIN = process.env.LOCKWRIGHT_TEST_PLUGIN
const SHIMS = fileURLToPath(new URL('../../conformance/shims/', import.meta.url))
const POST = { method: 'POST' }
// scripts/full.d plays more.
const COUNT = Number(process.env.LOCKWRIGHT_TEST_REQUESTS ?? 120)
const ROUNDS = Math.ceil(COUNT / 20)

const origin = new Watched()
// What is between a host and its Redis: nothing, until it listens.
const between = createServer()
const connections = new Set()
let edges, troubled, denied, native, port, stocks

before(async () => {
  stocks = await origin.listen(0)
  port = await freePort()
  const limits = 'ttl=2s&connect_timeout=600ms&response_timeout=600ms&store_timeout=1200ms'
  const environment = { LOCKWRIGHT_URL: ADDRESS, ORIGIN: stocks }
  ;[troubled, denied, ...edges] = await Promise.all([
    serve(PLUGIN, { ...environment, LOCKWRIGHT_URL: `redis://127.0.0.1:${port}?${PREFIX}&${limits}`, CLAIM_WAIT: '2500' }),
    serve(PLUGIN, environment, { tcp: false }),
    serve(PLUGIN, environment),
    serve(PLUGIN, environment, { isolated: true }),
  ])
  native = await connect(ADDRESS)
})

after(async () => {
  await native?.close()
  await stopAll()
  for (const socket of connections) socket.destroy()
  between.close()
  origin.close()
})

test('requests at two edges, 32 at once, and tasks of Node, Python and Java claim one coupon, exactly', async () => {
  const lock = 'coupon:hot'
  const shims = [new Shim('python', `${SHIMS}python.py`), new Shim(`${SHIMS}jvm/shim`, 'sync')]
  await Promise.all(shims.map(shim => shim.ask('open', { client: 'c', uri: ADDRESS })))
  const takes = [
    ...shims.map(shim => async () => {
      const { token } = await shim.ask('acquire', { client: 'c', lock, guard: 'g' })
      const claimed = await claim(stocks, 'hot', token)
      await shim.ask('release', { guard: 'g' })
      return claimed
    }),
    ...Array.from({ length: 2 }, () => async () => await native.lock(lock).using(async ({ token }) => await claim(stocks, 'hot', token))),
  ]
  // Some come too late.
  const start = COUNT + takes.length * ROUNDS - 10
  origin.stock('hot', start)
  const tasks = takes.map(async take => {
    let sold = 0
    for (let left = ROUNDS; left > 0; left--) if (await take()) sold++
    return sold
  })
  const urls = edges.map(({ url }) => `${url}/coupons/hot/claim`)
  const [answers, ...sold] = await Promise.all([requests(urls, COUNT, 32, POST), ...tasks])
    .finally(() => Promise.all(shims.map(shim => shim.stop())))
  const claimed = answers.filter(answer => answer.claimed)
  const claims = sold.reduce((sum, each) => sum + each, claimed.length)
  assert.deepEqual({ claims, left: origin.left('hot'), refused: origin.refused }, { claims: start, left: 0, refused: 0 })
  const odd = answers.filter(({ status }) => status !== 200 && status !== 410)
  assert.deepEqual(odd, [], edges.map(edge => edge.said()).join(''))
  assert.equal(origin.tokens.length, start)
  assert.ok(origin.tokens.every((token, i) => i === 0 || token > origin.tokens[i - 1]), 'a token did not rise')
  const seen = new Set(origin.tokens)
  assert.ok(claimed.every(({ token }) => seen.has(BigInt(token))))
  assert.equal(await native.lock(lock).using(() => 'free'), 'free')
})

/** One claim at a host. */
async function answered(host, name) {
  const [answer] = await requests(`${host.url}/coupons/${name}/claim`, 1, 1, POST)
  return answer
}

test('what is no claim is refused', async () => {
  const [edge] = edges
  const status = async (path, how) => (await fetch(edge.url + path, how)).status
  assert.equal(await status('/', POST), 404)
  assert.equal(await status('/coupons/x/claim'), 405)
  assert.equal(await status('/coupons/a%20b/claim', POST), 400)
  const { status: unknown, code } = await answered(edge, 'nobody')
  assert.deepEqual([unknown, code], [404, 'unknown_coupon'])
})

test('a host that grants no TCP is told', async () => {
  const { status, code, advice } = await answered(denied, 'cold')
  assert.deepEqual([status, code], [503, 'auth'])
  assert.match(advice, /host/)
})

test('a store that is down or silent, a lock that is taken and an origin that is silent are told in time, and then it serves', async () => {
  origin.stock('cold', 1)
  const down = await answered(troubled, 'cold')
  assert.deepEqual([down.status, down.code, down.retryable], [503, 'unavailable', true], down.error)
  assert.ok(down.error.includes(down.advice) && down.advice !== '')

  let speaks = false
  between.on('connection', socket => {
    connections.add(socket)
    if (!speaks) return
    const redis = new URL(REDIS)
    const server = createConnection(Number(redis.port), redis.hostname)
    for (const end of [socket, server]) end.on('error', () => undefined)
    socket.pipe(server).pipe(socket)
  })
  between.listen(port, '127.0.0.1')
  await once(between, 'listening')
  const silent = await answered(troubled, 'cold')
  assert.deepEqual([silent.status, silent.code], [503, 'unavailable'], silent.error)

  speaks = true
  const taken = await native.lock('coupon:cold').using(() => answered(troubled, 'cold'))
  assert.deepEqual([taken.status, taken.code, taken.retryable], [504, 'timeout', true], taken.error)

  origin.silent = true
  const unanswered = await answered(troubled, 'cold')
  assert.deepEqual([unanswered.status, unanswered.code], [504, 'origin'], unanswered.error)
  assert.match(unanswered.error, /not known/)
  origin.silent = false

  const served = await answered(troubled, 'cold')
  assert.deepEqual([served.status, served.left], [200, 0], served.error)
})
