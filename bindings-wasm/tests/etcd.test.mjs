// The component for etcd on Node, by jco, on a real etcd that it reaches by wasi:http alone, beside the native Node package and etcdctl.
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import { connect } from '../../bindings-node/dist/index.mjs'
import { freePort, requests } from '../npm/tests/workerd.mjs'
import { serve, stopAll, Watched } from './edge_host.mjs'

const run = promisify(execFile)
const TOOLS = fileURLToPath(new URL('tools/node_modules/', import.meta.url))
const PROGRAM = fileURLToPath(new URL('etcd_program.mjs', import.meta.url))
const COMPONENT = process.env.LOCKWRIGHT_TEST_COMPONENT_ETCD
const SERVER = process.env.LOCKWRIGHT_TEST_ETCD
const PREFIX = `jco-${process.pid}/`
const ADDRESS = `${SERVER}?prefix=${PREFIX}`
const ROUNDS = 10
const TTL = 2000

let made, native

const program = (...words) => run('node', [PROGRAM, words[0], join(made, 'lockwright.js'), ...words.slice(1)])

/** A program that says something before it ends: what it says, and its end. */
async function begun(command, words, options) {
  const child = spawn(command, words, { stdio: ['ignore', 'pipe', 'inherit'], ...options })
  const [said] = await once(child.stdout, 'data')
  return { child, said: String(said).trim() }
}

const etcdctl = (...words) => ['etcdctl', ['--endpoints', new URL(SERVER).host, ...words], { env: { ...process.env, ETCDCTL_API: '3' } }]

async function keys() {
  const { stdout } = await run(...etcdctl('get', '--prefix', '--keys-only', PREFIX))
  return stdout.trim()
}

before(async () => {
  // Where it finds the shim of WASI.
  made = mkdtempSync(join(TOOLS, '.jco-'))
  writeFileSync(join(made, 'package.json'), '{ "type": "module" }')
  await run(join(TOOLS, '.bin/jco'), ['transpile', COMPONENT, '-o', made, '--name', 'lockwright', '--quiet'])
  native = await connect(ADDRESS)
})

after(async () => {
  await native?.close()
  await stopAll()
  rmSync(made, { recursive: true, force: true })
})

test('a host needs no sockets for it', () => {
  const module = readFileSync(COMPONENT)
  assert.deepEqual(['wasi:http/outgoing-handler', 'wasi:sockets/'].map(name => module.includes(name)), [true, false])
})

test('two programs with the component and native tasks share one lock, exactly', async () => {
  const file = join(made, 'counter')
  writeFileSync(file, '0')
  const lock = native.lock('hot')
  const tasks = Array.from({ length: 2 }, async () => {
    for (let left = ROUNDS; left > 0; left--) {
      await lock.using(async () => writeFileSync(file, String(Number(readFileSync(file, 'utf8')) + 1)))
    }
  })
  const programs = Array.from({ length: 2 }, () => program('count', ADDRESS, file, String(ROUNDS)))
  for (const { stdout } of await Promise.all(programs)) assert.equal(stdout, 'all is well\n')
  await Promise.all(tasks)
  assert.equal(readFileSync(file, 'utf8'), String(4 * ROUNDS))
})

test('etcdctl has the lock, and the component waits for it; and the other way round', async () => {
  const theirs = await begun(...etcdctl('lock', `${PREFIX}hot`))
  const waits = program('wait', ADDRESS)
  while ((await native.inspect('hot')).waiters < 1) await sleep(20)
  theirs.child.kill('SIGTERM')
  const { stdout } = await waits
  assert.ok(BigInt(stdout) > 0n)
  const ours = await begun('node', [PROGRAM, 'hold', join(made, 'lockwright.js'), `${ADDRESS}&ttl=${TTL}ms`])
  const held = Date.now()
  assert.equal(await native.lock('hot').tryAcquire(), null)
  const next = begun(...etcdctl('lock', `${PREFIX}hot`))
  while ((await native.inspect('hot')).waiters < 1) await sleep(20)
  // Nobody gives it back: the next one has it when the lease has ended.
  ours.child.kill('SIGKILL')
  const { child, said } = await next
  assert.ok(Date.now() - held > TTL / 2, 'it was held')
  assert.match(said, new RegExp(`^${PREFIX}hot/`))
  child.kill('SIGTERM')
  await once(child, 'exit')
})

test('an operator sees what native holders have, and takes it', async () => {
  const guard = await native.lock('x', { label: 'night job' }).acquire()
  const reader = await native.rwlock('file').read.acquire()
  const { stdout } = await program('look', ADDRESS)
  const { holder, shared, ...seen } = JSON.parse(stdout)
  assert.deepEqual(seen, { layout: 'concurrency', waiters: '0', broken: [false, true, null], names: ['file'], free: null })
  assert.deepEqual([holder.label, holder.pid, holder.firstToken], ['night job', process.pid, String(guard.token)])
  assert.deepEqual([shared.primitive, shared.holders.map(part => part.holds)], ['rwlock', ['read']])
  assert.equal(await guard.release(), 'expired')
  await reader.release()
})

test('one leads, and whoever asks sees who', async () => {
  const leading = await native.election('scheduler').campaign('node')
  const { child, said } = await begun('node', [PROGRAM, 'lead', join(made, 'lockwright.js'), ADDRESS])
  assert.deepEqual(JSON.parse(said), { proclaims: 'node', pid: process.pid, refused: 'timeout', changed: 'node' })
  const after = once(child.stdout, 'data')
  await leading.release()
  assert.deepEqual(JSON.parse(String(await after)), { proclaims: 'edge', isOwn: true, released: 'released' })
})

test('who waits for a latch goes on once all have counted down, native ones too', async () => {
  const latch = native.latch('ready', 3, { idle: 60_000 })
  const waits = latch.wait()
  while ((await native.inspect('ready')).waiters < 1) await sleep(20)
  const { child, said } = await begun('node', [PROGRAM, 'count_down', join(made, 'lockwright.js'), ADDRESS])
  assert.deepEqual(JSON.parse(said), [3, false, 2, 1])
  while ((await native.inspect('ready')).waiters < 2) await sleep(20)
  const after = once(child.stdout, 'data')
  assert.equal(await latch.countDown(), 0)
  await waits
  assert.deepEqual(JSON.parse(String(await after)), [true, 0, true])
  assert.equal(await latch.count(), 2)
  // It would stay for a minute, by a lease of its own.
  await run(...etcdctl('del', '--prefix', `${PREFIX}ready`))
})

test('what can be shared is, beside native holders', async () => {
  const reader = await native.rwlock('file').read.acquire()
  const permit = await native.semaphore('rooms', 2).acquire()
  const { stdout } = await program('share', ADDRESS)
  assert.deepEqual(JSON.parse(stdout), {
    writes: null, second: null, others: null, outcomes: ['released', 'released', 'released'], names: ['account:1', 'account:2'],
  })
  for (const guard of [reader, permit]) assert.equal(await guard.release(), 'released')
})

test('what is wrong with the server is told', async () => {
  const fails = async port => JSON.parse((await program('fail', `etcd://127.0.0.1:${port}?store_timeout=500ms`)).stdout)
  const [down, why] = await fails(await freePort())
  assert.deepEqual([down, /for lock "hot" on etcd:\/\/127\.0\.0\.1/.test(why)], ['unavailable', true], why)
  const site = createServer(socket => socket.once('data', () => socket.end('HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone')))
  site.listen(0, '127.0.0.1')
  await once(site, 'listening')
  const [wrong, advice] = await fails(site.address().port)
  assert.deepEqual([wrong, /no etcd with a JSON gateway/.test(advice)], ['protocol', true], advice)
  site.close()
})

test('at an edge that gives no sockets requests claim one coupon, exactly, beside native tasks', async () => {
  const origin = new Watched()
  const environment = { LOCKWRIGHT_URL: ADDRESS, ORIGIN: await origin.listen(0) }
  const edge = await serve(process.env.LOCKWRIGHT_TEST_PLUGIN_ETCD, environment, { tcp: false })
  const count = Number(process.env.LOCKWRIGHT_TEST_REQUESTS ?? 40)
  origin.stock('hot', count - 10)
  const claims = requests(`${edge.url}/coupons/hot/claim`, count, 8, { method: 'POST' })
  const lock = native.lock('coupon:hot')
  let tokens = 0n
  for (let left = 5; left > 0; left--) {
    await lock.using(async guard => {
      assert.ok(guard.token > tokens)
      tokens = guard.token
    })
  }
  const answers = await claims
  const odd = answers.filter(({ status }) => status !== 200 && status !== 410)
  assert.deepEqual(odd, [], edge.said())
  assert.deepEqual([answers.filter(answer => answer.claimed).length, origin.left('hot'), origin.refused], [count - 10, 0, 0])
  origin.close()
})

test('nothing is left', async () => {
  await native.close()
  native = undefined
  for (const end = Date.now() + 5 * TTL; (await keys()) !== ''; await sleep(50)) {
    assert.ok(Date.now() < end, await keys())
  }
})
