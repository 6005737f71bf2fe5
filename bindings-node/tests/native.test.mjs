// The native library, and what it is told and asked: loading, collecting, credentials, events.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createConnection } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

import { connect, onEvent } from '../dist/index.mjs'
import { PLATFORMS } from '../dist/platforms.js'
import { client, collected, inMemory, shared, sleep, stores, until } from './lib.mjs'

/** What loading the library says in a folder that has `files` beside it, where `env` is set. */
function loading(files, env = {}, before = '') {
  const place = mkdtempSync(join(tmpdir(), 'lockwright-bare-'))
  try {
    const package_ = fileURLToPath(new URL('..', import.meta.url))
    cpSync(join(package_, 'dist'), join(place, 'dist'), { recursive: true })
    cpSync(join(package_, 'package.json'), join(place, 'package.json'))
    for (const [name, text] of Object.entries(files)) writeFileSync(join(place, name), text)
    const load = `${before}; try { require(${JSON.stringify(place)}) } catch (error) { console.log(error.code, error.message) }`
    const { LOCKWRIGHT_NATIVE: _, ...rest } = process.env
    return execFileSync(process.execPath, ['--eval', load], { encoding: 'utf8', cwd: place, env: { ...rest, ...env } })
  } finally {
    rmSync(place, { recursive: true })
  }
}

test('without a native library the error names the package to install', () => {
  const here = `${process.platform}-${process.arch}`
  assert.match(loading({}), new RegExp(`^unsupported .*npm install @lockwright/${here}.* in a bundle, mark lockwright as external`))
  assert.match(loading({ 'lockwright.node': 'no library' }), /^unsupported .*Found: .*lockwright\.node/)
})

test('where nothing is published the error says so, and names no package that nobody builds', () => {
  const said = loading({}, {}, "Object.defineProperty(process, 'platform', { value: 'darwin' }); Object.defineProperty(process, 'arch', { value: 'arm64' })")
  assert.match(said, /^unsupported .*is not published for darwin-arm64, only for linux-x64-gnu, linux-x64-musl; install lockwright-wasm .* or build .* LOCKWRIGHT_NATIVE/)
  assert.doesNotMatch(said, /npm install/)
})

test('a LOCKWRIGHT_NATIVE that is of no use is named, and nothing else is taken', () => {
  const own = fileURLToPath(new URL('../lockwright.node', import.meta.url))
  assert.match(loading({}, { LOCKWRIGHT_NATIVE: '/nowhere/x.node' }), /^unsupported .*LOCKWRIGHT_NATIVE names \/nowhere\/x\.node, which does not exist; correct it/)
  assert.match(loading({ 'mine.node': 'no library' }, { LOCKWRIGHT_NATIVE: 'mine.node' }), /LOCKWRIGHT_NATIVE names \/.*mine\.node, which is no native library for /)
  assert.equal(loading({}, { LOCKWRIGHT_NATIVE: own }), '')
})

test('each published platform is asked for by a text of its own, which bundlers follow', () => {
  const code = readFileSync(fileURLToPath(new URL('../dist/platforms.js', import.meta.url)), 'utf8')
  for (const name of Object.keys(PLATFORMS)) assert.ok(code.includes(`require('@lockwright/${name}')`), name)
})

const warnings = []
process.on('warning', warning => warnings.push(warning))

test('a guard that is collected warns and is not renewed any more', async t => {
  const here = await client(t, inMemory())
  const began = Date.now()
  await (async () => { (await here.lock('x', { ttl: 300 }).acquire()).signal })()
  await collected(() => warnings.some(({ message }) => /guard of lock "x" was collected/.test(message)))
  await (await here.lock('x').acquire()).release()
  const kept = Date.now() - began
  assert.ok(kept > 280 && kept < 10_000, `${kept} ms`)
})

/** The signal of several guards that nobody has any more, and of one whose client nobody has either. */
async function orphans(uri) {
  const here = await connect(uri)
  const options = { ttl: 300 }
  const { signal: both } = await here.multiLock(['a', 'b'], options).acquire()
  const { signal: one } = await here.lock('c', options).acquire()
  return { one, both }
}

for (const [store, uri] of Object.entries(stores())) {
  test(`the signal of a guard that is collected aborts when its lease over ${store} ends, also without its client`, async t => {
    const { one, both } = await orphans(uri)
    const told = Promise.all([one, both].map(signal => new Promise(lost => signal.addEventListener('abort', lost))))
    const collecting = setInterval(() => globalThis.gc(), 20)
    t.after(() => clearInterval(collecting))
    const here = await client(t, uri)
    for (const name of ['a', 'c']) await (await here.lock(name, { ttl: 5_000 }).acquire({ timeout: 20_000 })).release()
    await told
    for (const { reason } of [one, both]) {
      assert.equal(reason.code, 'lost')
      assert.match(reason.message, /forgotten without a release/)
    }
  })
}

test('of many that end together all are told, whether or not those that are told first ask for more', { timeout: 30_000 }, async t => {
  const here = await client(t, inMemory())
  const locks = Array.from({ length: 40 }, (_, n) => here.lock(`together-${n}`))
  for (let round = 0; round < 20; round++) {
    const held = await Promise.all(locks.map(lock => lock.acquire()))
    await Promise.all(held.map((guard, n) => (n % 2 ? guard.release() : guard.release().then(() => locks[n].acquire()).then(again => again.release()))))
  }
})

test('losses are warnings of the process, and events for whoever wants them', async t => {
  const here = await client(t, inMemory())
  const lose = async name => {
    const guard = await here.lock(name, { ttl: 30, renew: false }).acquire()
    await until(() => guard.whyLost !== undefined)
  }
  await lose('first')
  await until(() => warnings.some(({ name, message }) => name === 'LockwrightWarning' && /lock="first"/.test(message)))
  const events = []
  onEvent('debug', event => events.push(event))
  await lose('second')
  await until(() => events.some(({ target }) => target === 'lockwright::lost'))
  const grant = events.find(({ target, fields }) => target === 'lockwright::grant' && fields.lock === 'second')
  assert.ok(grant.at instanceof Date && grant.level === 'debug' && grant.fields.ttl === 0.03, grant)
  for (const wrong of [['warning'], ['warn', 5], [3]]) assert.throws(() => onEvent(...wrong), { code: 'invalid_config' })
  onEvent('off')
  const told = events.length
  await lose('third')
  await sleep(20)
  assert.equal(events.length, told)
  onEvent('warn')
})

/** Tells a Redis server something, as nobody in particular. */
function tell(uri, ...words) {
  const { hostname, port } = new URL(uri)
  return new Promise((resolve, reject) => {
    const socket = createConnection(Number(port), hostname, () => socket.write(`${words.join(' ')}\r\n`))
    socket.once('data', answer => resolve(String(answer), socket.destroy()))
    socket.once('error', reject)
  })
}

/** A user of that server for one test; the password is lovelace. */
async function newUser(t, uri, name) {
  const user = `node-${name}-${process.pid}`
  assert.match(await tell(uri, 'ACL', 'SETUSER', user, 'on', '>lovelace', '~*', '&*', '+@all'), /OK/)
  t.after(() => tell(uri, 'ACL', 'DELUSER', user))
  return user
}

test('credentials are asked for by what was made of a client that is collected', { skip: !('redis' in shared()) }, async () => {
  const uri = shared().redis
  let asked = 0
  const [client, ...made] = await (async () => {
    const here = await connect(uri, { storeTimeout: 1_500, credentials: () => (asked++, { user: 'nobody', password: 'x' }) })
    return [new WeakRef(here), here.lock('orphan'), here.semaphore('orphans', 1), here.latch('orphaned', 1)]
  })()
  await collected(() => client.deref() === undefined)
  for (const [at, ask] of [() => made[0].acquire(), () => made[1].acquire(), () => made[2].count()].entries()) {
    await assert.rejects(ask(), error => error.code === 'auth' && !/is gone/.test(error.message), String(at))
  }
  assert.ok(asked > 0)
})

test('credentials are asked for at each connection, and may be waited for', { skip: !('redis' in shared()) }, async t => {
  const uri = shared().redis
  const user = await newUser(t, uri, 'credentials')
  let calls = 0
  const asked = async credentials => {
    const here = await client(t, uri, { connectTimeout: 500, storeTimeout: 3_000, credentials })
    return here.lock('x').using(() => 'held').catch(error => error)
  }
  assert.equal(await asked(async () => (calls++, await sleep(5), { user, password: 'lovelace' })), 'held')
  assert.ok(calls > 0)
  const refused = await asked(() => ({ user, password: 'hunter2' }))
  assert.equal(refused.code, 'auth')
  assert.doesNotMatch(refused.message, /hunter2/)
  for (const wrong of [() => { throw new RangeError('no vault') }, async () => { throw new RangeError('no vault') }]) {
    const error = await asked(wrong)
    assert.equal(error.code, 'auth')
    assert.match(error.message, /no vault/)
  }
  for (const wrong of [() => undefined, () => 'hunter2', () => ({ user, password: 5 }), () => ({ password: '\uD800' })]) {
    const error = await asked(wrong)
    assert.match(error.message, /two strings/)
    assert.doesNotMatch(error.message, /hunter2/)
  }
  const late = await asked(() => new Promise(() => {}))
  assert.match(late.message, /did not answer within 500ms/)
})

test('sockets are read by Node, end with their client, and are dialled again', { skip: !('redis' in shared()) }, async t => {
  const uri = shared().redis
  const descriptors = () => readdirSync('/proc/self/fd').length
  await (await client(t, uri)).lock('warm').using(() => {})
  await sleep(50)
  const before = descriptors()
  for (let i = 0; i < 20; i++) {
    const here = await connect(uri)
    await Promise.all([here.lock('x').using(() => {}), here.lock('y').using(() => {})])
    await here.close()
  }
  await collected(() => descriptors() <= before + 2)
  const user = await newUser(t, uri, 'sockets')
  const here = await client(t, uri.replace('://', `://${user}:lovelace@`))
  const guard = await here.lock('x').acquire()
  assert.match(await tell(uri, 'CLIENT', 'KILL', 'USER', user), /:[1-9]/)
  assert.equal(await here.lock('y').using(() => 'held'), 'held')
  assert.equal(await guard.release(), 'released')
})
