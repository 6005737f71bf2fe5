// What a user's program may say, and what the compiler must refuse; compiled, never run.

import { Client, connect, Guard, type Health, Lock, LockError, LockTimeout, type LossReason, onEvent, Owner, type RunOptions } from '../dist/index.mjs'

export async function uses(signal: AbortSignal): Promise<bigint> {
  await using client = await connect('redis://localhost', { prefix: 'shop:', credentials: async () => ({ password: 'x' }) })
  const lock = client.lock('orders:42', { ttl: 10_000, fair: true, retry: { min: 5 } })
  await using guard = await lock.acquire({ timeout: 2_000, signal })
  await fetch('http://localhost', { signal: guard.signal, headers: { 'If-Fence': String(guard.token) } })
  const maybe: Guard | null = await lock.tryAcquire()
  const why: LossReason | undefined = maybe?.whyLost
  const counted: number = await lock.using(async guard => guard.depth)
  const inside: string = await new Owner().run(() => lock.using(() => 'inside'))
  const broken: boolean = await client.breakLock('orders:42', (await client.inspect('orders:42')).holder?.lastToken ?? 0n)
  onEvent('debug', event => console.log(event.at.getTime(), event.fields['lock']))
  const { lost, wait } = client.metrics()
  console.log(why, counted, inside, broken, lost.expired, wait.quantile(0.99))
  const resumed: Guard = await client.resume(await guard.export(5_000))
  await using all = await client.multiLock(['a', 'b']).acquire({ signal })
  const tokens: ReadonlyMap<string, bigint> = all.tokens
  await using segment = await client.striped('sale', 32).any()
  const open: boolean = await client.latch('done', 3, { idle: 3_600_000 }).wait({ timeout: 50, signal })
  const arrival = await client.barrier('step', 3, { ttl: 5_000 }).wait({ timeout: 50, signal })
  const generation: bigint | undefined = arrival?.generation
  const { took, eviction, mayEvict }: Health = await client.ping()
  const left: string[] = await client.drain('20s')
  const options: RunOptions = { signal }
  const reigned: number = await client.election('x', { atLeastFor: '5s' }).run('me', async (held, lost) => (held.holdAtLeastFor(5), lost.aborted ? 0 : 1), options)
  await client.resume('secret', { ttl: '10s' })
  console.log(took, eviction, mayEvict, left, reigned)
  console.log(resumed.name, tokens, segment?.token, open, generation)
  return guard.token
}

export function tells(error: unknown): string | undefined {
  if (error instanceof LockTimeout) return error.code satisfies 'timeout'
  return error instanceof LockError && error.retryable ? error.lock : undefined
}

export async function refuses(): Promise<void> {
  const client = await connect()
  // @ts-expect-error: there is no such option
  client.lock('x', { tll: 5 })
  client.lock('x', { ttl: '5s', timeout: '500ms', maxHold: '1h', retry: { min: '5ms' } })
  // @ts-expect-error: times are numbers or texts
  client.lock('x', { ttl: 5n })
  // @ts-expect-error: a client makes locks
  new Lock('x')
  // @ts-expect-error: a lock makes guards
  new Guard()
  // @ts-expect-error: connect makes clients
  new Client('redis://localhost')
  // @ts-expect-error: whoever runs for election says what it does
  await client.election('x').run('me')
  // @ts-expect-error: a barrier says how many
  client.barrier('x')
  // @ts-expect-error: a latch says how many
  client.latch('x')
  // @ts-expect-error: tokens are bigints
  await client.breakLock('x', 5)
  // @ts-expect-error: a guard's token is not to be changed
  ;(await client.lock('x').acquire()).token = 5n
}
