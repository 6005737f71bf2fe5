// What is made of locks, all of it once.

/** What came of it, for names that begin with this one. */
export async function all(client, name) {
  const reader = await client.rwlock(`${name}-rw`).read.acquire()
  const permit = await client.semaphore(`${name}-s`, 2).acquire()
  const latch = client.latch(`${name}-l`, 1)
  await latch.countDown()
  const passed = await Promise.all([client.barrier(`${name}-b`, 2).wait(), client.barrier(`${name}-b`, 2).wait()])
  const several = await client.multiLock([`${name}-1`, `${name}-2`]).acquire()
  const { holder } = await client.inspect(`${name}-1`)
  const leader = await client.election(`${name}-e`).campaign('worker')
  const led = (await client.election(`${name}-e`).leader()).proclaims
  const outcomes = await Promise.all([reader, permit, several, leader].map(guard => guard.release()))
  return { opened: await latch.wait(), parties: passed.map(({ index }) => index).sort(), held: holder !== null, led, outcomes }
}

/** What is expected to come of it. */
export const EXPECTED = { opened: true, parties: [0, 1], held: true, led: 'worker', outcomes: ['released', 'released', 'released', 'released'] }
