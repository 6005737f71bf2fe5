import { milliseconds as parsed } from '../wasm/lockwright.js'
import { mistake } from './errors.js'

/** A span of time: a number of milliseconds, or a text with its unit, such as `'500ms'`, `'10s'`, `'2m'` or `'1h'`. */
export type Duration = number | string

/** What a lock is like. What is not given is as the address says, else as it says here. */
export interface LockOptions {
  /** How long it stays ours without a renewal, 20 ms to 24 h; 30 s. A crash frees it after at most this. */
  readonly ttl?: Duration | undefined
  /** How long to wait for others; `Infinity`. 0 only tries. */
  readonly timeout?: Duration | undefined
  /** Whether it is renewed every ttl/3 while it is held; true. */
  readonly renew?: boolean | undefined
  /** How long after the grant renewal ends; never. */
  readonly maxHold?: Duration | undefined
  /** First come, first served over all tasks of all processes; false. */
  readonly fair?: boolean | undefined
  /** With `fair`: how urgent it is, from 0 to 9; 0. */
  readonly rank?: number | undefined
  /** How it lies in the store, such as `string`. */
  readonly layout?: string | undefined
  /** Whose locks of that layout it joins, such as `node-redlock`. */
  readonly format?: string | undefined
  /** A text of at most 128 bytes that `inspect` shows. */
  readonly label?: string | undefined
}

const TYPES: Record<keyof LockOptions, 'span' | 'boolean' | 'number' | 'string'> = {
  ttl: 'span',
  timeout: 'span',
  renew: 'boolean',
  maxHold: 'span',
  fair: 'boolean',
  rank: 'number',
  layout: 'string',
  format: 'string',
  label: 'string',
}

/** @internal The options that are given, spans in milliseconds. */
export function checked(operation: string, given: LockOptions | undefined): object {
  const set = Object.entries(given ?? {}).filter(([, value]) => value !== undefined)
  return Object.fromEntries(set.map(([name, value]: [string, unknown]) => {
    const type = Object.hasOwn(TYPES, name) ? TYPES[name as keyof LockOptions] : undefined
    if (type === undefined) {
      throw mistake('invalid_config', operation, `there is no option ${JSON.stringify(name)}; there are: ${Object.keys(TYPES).join(', ')}`)
    }
    if (type === 'span') return [name, milliseconds(operation, name, value)]
    if (typeof value !== type) throw mistake('invalid_config', operation, `${name} must be a ${type}`)
    return [name, value]
  }))
}

/** @internal The milliseconds of a span. */
export function milliseconds(operation: string, what: string, value: unknown): number {
  if (typeof value === 'number') return value
  const known = typeof value === 'string' ? parsed(value) : undefined
  if (known !== undefined) return known
  throw mistake('invalid_config', operation, `${what} must be a number of milliseconds, or a text with its unit such as "500ms", "10s", "2m" or "1h"`)
}

/** @internal A text, which may hold what no UTF-8 can. */
export function text(operation: string, what: string, value: unknown): string {
  if (typeof value === 'string' && value.isWellFormed()) return value
  throw mistake('invalid_config', operation, `the ${what} must be a string without lone surrogates`)
}
