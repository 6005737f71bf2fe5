import { bridge, type Speaker } from './bridge.js'
import { mistake } from './errors.js'
import type { Transport } from './transport.js'

/** As much of a client of ioredis as is used. */
export interface IoRedis {
  call(command: string, ...words: string[]): Promise<unknown>
  duplicate(): IoRedis
  subscribe(channel: string): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  on(event: string, listener: (...told: string[]) => void): unknown
  disconnect(): void
  readonly options: { readonly autoResendUnfulfilledCommands?: boolean | undefined; readonly keyPrefix?: string | undefined; readonly stringNumbers?: boolean | undefined }
}

/** As much of a client of node-redis (4 or later) as is used. */
export interface NodeRedis {
  sendCommand(words: string[]): Promise<unknown>
  duplicate(): NodeRedis
  connect(): Promise<unknown>
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  on(event: string, listener: (...told: any[]) => void): unknown
  destroy?(): void
  disconnect?(): Promise<void>
}

/**
 * The client of ioredis, or of node-redis once it is connected, that the program has: requests go over its connection, and pushes over a duplicate of
 * it. Its user, password, database and host count, so they are left out of the address: `connect('redis://localhost', { transport: redis(client) })`.
 *
 * Requests wait behind those of the program, so a long one may cost a renewal.
 *
 * @throws {@link InvalidConfig} for a client of ioredis that sends again what was not answered (`autoResendUnfulfilledCommands`), that puts a prefix
 * before keys (`keyPrefix`, which it does not where it is sent a script), or that has numbers as texts (`stringNumbers`).
 */
export function redis(client: IoRedis | NodeRedis): Transport {
  if (typeof client !== 'object' || client === null) throw mistake('invalid_config', 'connect', 'redis takes a client of ioredis or node-redis')
  if ('sendCommand' in client && !('call' in client)) return bridge(lost => nodeRedis(client, lost))
  const { autoResendUnfulfilledCommands, keyPrefix, stringNumbers } = (client as IoRedis).options
  if (autoResendUnfulfilledCommands !== false) {
    throw mistake('invalid_config', 'connect', 'this client sends again what was not answered; make it with autoResendUnfulfilledCommands: false')
  }
  if (keyPrefix) throw mistake('invalid_config', 'connect', 'this client puts a prefix before keys; make it without keyPrefix, and give the address one, ?prefix=')
  if (stringNumbers) throw mistake('invalid_config', 'connect', 'this client has numbers as texts, so that answers cannot be told from one another; make it without stringNumbers')
  return bridge(lost => ioRedis(client as IoRedis, lost))
}

/** Who hears on what channel, of whoever listens by one callback. */
type Hearers = Map<string, (message: string) => void>

function ioRedis(client: IoRedis, lost: (error?: unknown) => void): Speaker {
  let pushes: IoRedis | undefined
  const hearers: Hearers = new Map()
  return {
    ask: commands => commands.map(([word = '', ...words]) => client.call(word, ...words)),
    async listen(channel, heard) {
      hearers.set(channel, heard)
      if (pushes === undefined) {
        pushes = client.duplicate()
        pushes.on('message', (of = '', message = '') => hearers.get(of)?.(message))
        pushes.on('error', () => {})
        // It connects again by itself, and subscribes: what was pushed meanwhile nobody heard.
        pushes.on('close', () => lost())
      }
      await pushes.subscribe(channel)
    },
    async ignore(channel) {
      hearers.delete(channel)
      await pushes?.unsubscribe(channel)
    },
    close: () => pushes?.disconnect(),
  }
}

function nodeRedis(client: NodeRedis, lost: (error?: unknown) => void): Speaker {
  let pushes: Promise<NodeRedis> | undefined
  const opened = async (): Promise<NodeRedis> => {
    const duplicate = client.duplicate()
    duplicate.on('error', () => {})
    await duplicate.connect()
    duplicate.on('error', lost)
    return duplicate
  }
  const end = (client: NodeRedis): void => {
    if (client.destroy === undefined) void client.disconnect?.().catch(() => {})
    else client.destroy()
  }
  return {
    ask: commands => commands.map(words => client.sendCommand(words)),
    async listen(channel, heard) {
      await (await (pushes ??= opened())).subscribe(channel, heard)
    },
    async ignore(channel) {
      await (await pushes)?.unsubscribe(channel)
    },
    close: () => void pushes?.then(end, () => {}),
  }
}
