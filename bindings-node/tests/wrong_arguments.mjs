// What each method makes of what it cannot use: the same for whatever speaks for the library here.

import assert from 'node:assert/strict'

const NO_TEXT = [undefined, null, 5, 5n, true, {}, ['x'], () => 'x', Symbol('x'), Object.create(null)]
const NO_UNICODE = ['\ud800', ...NO_TEXT]
const NO_NAME = ['', 'x'.repeat(5_000), 'a\0b', ...NO_UNICODE]
const NO_COUNT = [undefined, null, -1, 0, 1.5, NaN, Infinity, 2 ** 32, '5', 5n, true, {}]
const NO_SPAN = [null, -1, NaN, '', '5', 'soon', 5n, true, {}, [5]]
const NO_TTL = [0, 19, 86_400_001, Infinity, ...NO_SPAN]
const NO_OPTIONS = [null, 5, 'x', true, () => 1, [1], new Map(), AbortSignal.abort(), { nonsense: 1 }]
const NO_SIGNAL = [5, {}, Object.create(AbortSignal.prototype)].map(signal => ({ signal }))
const NO_WAITING = [...NO_OPTIONS, ...NO_SIGNAL, ...NO_SPAN.map(timeout => ({ timeout }))]
const NO_FUNCTION = [undefined, null, 5, 'x', {}, []]
const NO_TOKEN = [undefined, null, 5, '5', -1n, 2n ** 64n, {}]
const NO_FLAG = [null, 0, 1, 'true', {}]

/** Options of a lock that none can have. */
const NO_LOCK = [
  ...NO_OPTIONS,
  ...NO_TTL.map(ttl => ({ ttl })),
  ...NO_SPAN.map(maxHold => ({ maxHold })),
  ...NO_FLAG.flatMap(flag => [{ renew: flag }, { fair: flag }]),
  ...[-1, 10, 1.5, NaN, '5', 5n, null].map(rank => ({ fair: true, rank })),
  ...['x'.repeat(129), ...NO_UNICODE.slice(2)].map(label => ({ label })),
  ...['\ud800', null, 5, {}].map(layout => ({ layout })),
]

const held = (client, ask) => value => client.lock('one').using(guard => ask(guard, value))

/** What is asked, which arguments it cannot use, and what asks. `of` has the classes and functions of the package. */
function rows(client, of) {
  const one = () => client.lock('one')
  const job = (given) => client.once('job', { look: () => undefined, make: () => 1, ...given })
  return [
    ['connect(url, options)', NO_OPTIONS, value => of.connect(client.address, value)],
    ['lock(name)', NO_NAME, value => client.lock(value)],
    ['lock(name, options)', NO_LOCK, value => client.lock('x', value)],
    ['rwlock(name)', NO_NAME, value => client.rwlock(value)],
    ['rwlock(name, options)', NO_LOCK, value => client.rwlock('x', value)],
    ['semaphore(name)', NO_NAME, value => client.semaphore(value, 1)],
    ['semaphore(permits)', NO_COUNT, value => client.semaphore('x', value)],
    ['semaphore(options)', [...NO_OPTIONS, ...NO_COUNT.slice(1).map(take => ({ take }))], value => client.semaphore('x', 1, value)],
    ['semaphore.resize(permits)', NO_COUNT, value => client.semaphore('x', 1).resize(value)],
    ['latch(name)', NO_NAME, value => client.latch(value, 1)],
    ['latch(count)', NO_COUNT, value => client.latch('x', value)],
    ['latch(options)', [...NO_OPTIONS, ...NO_SPAN.map(idle => ({ idle }))], value => client.latch('x', 1, value)],
    ['latch.wait(options)', NO_WAITING, value => client.latch('x', 1).wait(value)],
    ['latch.trySetCount(count)', NO_COUNT, value => client.latch('x', 1).trySetCount(value)],
    ['barrier(name)', NO_NAME, value => client.barrier(value, 1)],
    ['barrier(parties)', NO_COUNT, value => client.barrier('x', value)],
    ['barrier(options)', [...NO_OPTIONS, ...NO_TTL.map(ttl => ({ ttl }))], value => client.barrier('x', 1, value)],
    ['barrier.wait(options)', NO_WAITING, value => client.barrier('x', 1).wait(value)],
    ['multiLock(names)', [undefined, null, 5, 'x', {}, [], ...NO_NAME.map(name => ['x', name])], value => client.multiLock(value)],
    ['multiLock(options)', NO_LOCK, value => client.multiLock(['x'], value)],
    ['multiLock.acquire(options)', NO_WAITING, value => client.multiLock(['x']).acquire(value)],
    ['multiLock.using(work)', NO_FUNCTION, value => client.multiLock(['x']).using(value)],
    ['once(name)', NO_NAME, value => client.once(value, { look: () => undefined, make: () => 1 })],
    ['once(job)', [undefined, ...NO_OPTIONS, {}], value => client.once('x', value)],
    ['once(look)', NO_FUNCTION, value => job({ look: value })],
    ['once(make)', NO_FUNCTION, value => job({ make: value })],
    ['once.get(options)', [...NO_OPTIONS, ...NO_SIGNAL, { timeout: 'soon' }], value => job({ look: () => ({ value: 1, fresh: true }) }).get(value)],
    ['election(name)', NO_NAME, value => client.election(value)],
    ['election(options)', [...NO_LOCK, { fair: true }, { rank: 0 }, { label: 'x' }], value => client.election('x', value)],
    ['election.campaign(proclaims)', ['x'.repeat(129), ...NO_UNICODE.slice(2)], value => client.election('x').campaign(value)],
    ['election.campaign(options)', NO_WAITING, value => client.election('x').campaign('me', value)],
    ['election.run(work)', NO_FUNCTION, value => client.election('x').run('me', value)],
    ['election.run(options)', [...NO_OPTIONS, ...NO_SIGNAL], value => client.election('x').run('me', () => 1, value)],
    ['election.changed(known)', NO_TOKEN.slice(1), value => client.election('x').changed(value)],
    ['election.changed(options)', [...NO_OPTIONS, ...NO_SIGNAL], value => client.election('x').changed(1n, value)],
    ['election.changed(every)', [0, Infinity, ...NO_SPAN], value => client.election('x').changed(1n, { every: value })],
    ['resume(secret)', NO_NAME, value => client.resume(value)],
    ['inspect(name)', NO_NAME, value => client.inspect(value)],
    ['breakLock(name)', NO_NAME, value => client.breakLock(value, 1n)],
    ['breakLock(token)', NO_TOKEN, value => client.breakLock('x', value)],
    ['lock.acquire(options)', NO_WAITING, value => one().acquire(value)],
    ['lock.using(work)', NO_FUNCTION, value => one().using(value)],
    ['lock.using(options)', NO_WAITING, value => one().using(() => 1, value)],
    ['lock.resume(secret)', NO_NAME, value => one().resume(value)],
    ['guard.extend(ttl)', NO_TTL, held(client, (guard, value) => guard.extend(value))],
    ['guard.export(ttl)', NO_TTL, held(client, (guard, value) => guard.export(value))],
  ]
}

/** The same for what only the native package has. */
function nativeRows(client, { connect, kit, onEvent }) {
  const striped = () => client.striped('sale', 2)
  const noFence = [null, 5, 'x', {}, ...NO_TOKEN.map(token => ({ token })), ...NO_TOKEN.slice(1).map(epoch => ({ token: 1n, epoch }))]
  return [
    ['connect(url)', [...NO_TEXT.slice(1), '', 'x', 'nonsense://x'], value => connect(value)],
    ['striped(name)', NO_NAME, value => client.striped(value, 2)],
    ['striped(segments)', [...NO_COUNT, 257], value => client.striped('x', value)],
    ['striped(options)', NO_LOCK, value => client.striped('x', 2, value)],
    ['striped.any(options)', NO_WAITING, value => striped().any(value)],
    ['striped.indexFor(key)', NO_UNICODE, value => striped().indexFor(value)],
    ['striped.forKey(key)', NO_UNICODE, value => striped().forKey(value)],
    ['striped.segment(index)', [-1, 2, ...NO_COUNT.filter(value => value !== 0)], value => striped().segment(value)],
    ['striped.across(client)', NO_TEXT, value => striped().across(value)],
    ['drain(limit)', [undefined, ...NO_SPAN], value => client.drain(value)],
    ['require(wanted)', [...NO_OPTIONS, ...NO_FLAG.map(fencing => ({ fencing }))], value => client.require(value)],
    ['lock.breakLock(token)', NO_TOKEN, value => client.lock('x').breakLock(value)],
    ['lock.requestRelease(token)', NO_TOKEN, value => client.lock('x').requestRelease(value)],
    ['guard.holdAtLeastFor(span)', [undefined, 86_400_001, Infinity, ...NO_SPAN], held(client, (guard, value) => guard.holdAtLeastFor(value))],
    ['guard.onReleaseRequested(callback)', NO_FUNCTION, held(client, (guard, value) => guard.onReleaseRequested(value))],
    ['onEvent(level)', [undefined, null, 5, 5n, 'warning', {}, Symbol('x'), Object.create(null)], value => onEvent(value)],
    ['onEvent(listener)', NO_FUNCTION.slice(1), value => onEvent('off', value)],
    ['kit.Fence(highest)', noFence, value => new kit.Fence(value)],
    ['kit.Fence.admit(token)', [undefined, ...noFence], value => new kit.Fence().admit(value)],
    ['kit.headerValue(token)', [undefined, ...noFence], value => kit.headerValue(value)],
    ['kit.readHeader(value)', NO_UNICODE, value => kit.readHeader(value)],
    ['kit.sqlCondition(column)', NO_NAME, value => kit.sqlCondition(value)],
    ['kit.sqlCondition(placeholder)', NO_NAME.filter(value => value !== undefined), value => kit.sqlCondition('x', value)],
    ['kit.keyRange(key)', NO_NAME, value => kit.keyRange(value)],
    ['kit.advisoryKey(key)', NO_NAME, value => kit.advisoryKey(value)],
  ]
}

/** That each is refused at once, and nothing stays of it. */
async function allRefused(client, { LockError }, all) {
  for (const [asked, values, ask] of all) {
    for (const value of values) {
      const what = `${asked} of ${typeof value === 'object' && value !== null ? JSON.stringify(value, shown) : shown('', value)}`
      const error = await Promise.resolve(value).then(ask).then(() => undefined, error => error)
      assert.ok(error instanceof LockError && error.code === 'invalid_config', `${what}: ${error?.stack}`)
    }
  }
  for (const name of await client.list()) assert.equal((await client.inspect(name)).holder, undefined, name)
}

function shown(_, value) {
  return typeof value === 'object' || typeof value === 'boolean' ? value : String(value)
}

export { allRefused, nativeRows, rows }
