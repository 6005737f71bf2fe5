import { milliseconds } from '../wasm/lockwright.js'
import type { Running } from './running.js'

/** What has a number in the engine. */
export interface NativeHandle {
  readonly running: Running
  readonly number: number
}

let doubted = false

/** What the files that this package shares with the Node package ask of the native layer there. */
export const native = {
  options: () => ({
    lock: {
      ttl: 'span',
      timeout: 'limit',
      renew: 'flag',
      max_hold: 'span',
      at_least_for: 'span',
      fair: 'flag',
      rank: 'count',
      reentrant: 'flag',
      revocable: 'flag',
      layout: 'text',
      format: 'text',
      retry: 'range',
      label: 'text',
    },
    require: {},
    connect: {
      prefix: 'text',
      connect_timeout: 'span',
      response_timeout: 'span',
      store_timeout: 'span',
      ca: 'path',
      cert: 'path',
      key: 'path',
    },
  }),
  span: (text: string): number | null => milliseconds(text) ?? null,
  /** Whether there is somebody to be warned, who was not yet. */
  firstDoubt(): boolean {
    if (doubted || typeof process === 'undefined' || typeof process.emitWarning !== 'function') return false
    return (doubted = true)
  },
}
