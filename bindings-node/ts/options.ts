import { type LockError, mistake } from './errors'

/** What an option may be. */
type Shape = 'number' | 'count' | 'string' | 'boolean' | 'object' | 'function'

const MEANING: Record<Shape, string> = {
  number: 'a number of milliseconds',
  count: 'a whole number',
  string: 'a string',
  boolean: 'true or false',
  object: 'an object',
  function: 'a function',
}

export const CONNECT: Record<string, Shape> = {
  prefix: 'string',
  connectTimeout: 'number',
  responseTimeout: 'number',
  storeTimeout: 'number',
  ca: 'string',
  cert: 'string',
  key: 'string',
  credentials: 'function',
}

export const LOCK: Record<string, Shape> = {
  ttl: 'number',
  timeout: 'number',
  renew: 'boolean',
  maxHold: 'number',
  fair: 'boolean',
  reentrant: 'boolean',
  layout: 'string',
  format: 'string',
  retry: 'object',
  label: 'string',
}

export const SEMAPHORE: Record<string, Shape> = { ...LOCK, take: 'count' }

export const BARRIER: Record<string, Shape> = { ttl: 'number' }

export const LATCH: Record<string, Shape> = { idle: 'number' }

export const PAUSES: Record<string, Shape> = { min: 'number', max: 'number' }

export const ACQUIRE: Record<string, Shape> = { timeout: 'number', signal: 'object' }

export const REQUIRE: Record<string, Shape> = {
  rwlock: 'boolean',
  semaphore: 'boolean',
  latch: 'boolean',
  barrier: 'boolean',
  fenced: 'boolean',
  fair: 'boolean',
  reentrant: 'boolean',
  shared: 'boolean',
  push: 'boolean',
  failoverSafe: 'boolean',
}

/** The options without those that are undefined. One that is misspelt would otherwise be ignored without a word. */
export function options<T extends object>(operation: string, given: T | undefined, known: Record<string, Shape>): T {
  if (given === undefined) return {} as T
  if (typeof given !== 'object' || given === null) throw invalid(operation, 'the options must be an object')
  const set = Object.entries(given).filter(([, value]) => value !== undefined)
  for (const [name, value] of set) {
    const shape = Object.hasOwn(known, name) ? known[name] : undefined
    if (shape === undefined) {
      throw invalid(operation, `there is no option ${JSON.stringify(name)}; there are: ${Object.keys(known).join(', ')}`)
    }
    if (typeof value !== (shape === 'count' ? 'number' : shape) || value === null) throw invalid(operation, `${name} must be ${MEANING[shape]}`)
    if (shape === 'string') text(operation, name, value)
  }
  return Object.fromEntries(set) as T
}

/** A text, which may hold what no UTF-8 can. */
export function text(operation: string, what: string, value: unknown): string {
  if (typeof value !== 'string') throw invalid(operation, `the ${what} must be a string`)
  if (!value.isWellFormed()) throw invalid(operation, `the ${what} holds a lone surrogate, which UTF-8 cannot; encode it`)
  return value
}

export function token(operation: string, value: unknown): bigint {
  if (typeof value !== 'bigint') throw invalid(operation, 'the token must be a bigint, as inspect shows it')
  return value
}

/** A number of things; the native layer says how many there may be. */
export function count(what: string, value: unknown): number {
  if (Number.isInteger(value) && (value as number) >= 0 && (value as number) < 2 ** 32) return value as number
  throw invalid('lock', `the number of ${what} must be a whole number`)
}

export function milliseconds(operation: string, what: string, value: unknown): number {
  if (typeof value !== 'number') throw invalid(operation, `${what} must be ${MEANING.number}`)
  return value
}

function invalid(operation: string, what: string): LockError {
  return mistake('invalid_config', operation, what)
}
