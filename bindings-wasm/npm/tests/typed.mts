// What a program may give to this package by the types of its own libraries, and what the compiler must refuse; compiled, never run.

import { Redis } from 'ioredis'
import { createClient, createCluster } from 'redis'

import { type Client, connect, type ConnectOptions, duplex, redis, rest, type Transport, webSocket } from '../dist/index.js'

export async function uses(signal: AbortSignal): Promise<bigint> {
  await using client: Client = await connect('redis://localhost', { prefix: 'shop:', storeTimeout: '2s', connectTimeout: 500 })
  await using guard = await client.lock('orders:42', { ttl: 10_000, fair: true }).acquire({ timeout: 2_000, signal })
  return guard.token
}

export const transports: readonly Transport[] = [
  redis(createClient({ url: 'redis://localhost' })),
  redis(new Redis({ autoResendUnfulfilledCommands: false })),
  rest('https://gateway', { token: 'x' }),
  webSocket(() => new WebSocket('wss://worker/connect')),
  duplex(async () => ({ send: bytes => console.log(bytes.length), receive: async () => null })),
]

export const atTheAddressOfTheEnvironment: Promise<Client> = connect()

// @ts-expect-error there is no such option
export const misspelt: ConnectOptions = { transprt: transports[0] }
// @ts-expect-error a cluster has a connection to each of its nodes
export const several: Transport = redis(createCluster({ rootNodes: [] }))
