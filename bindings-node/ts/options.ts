import { type LockError, mistake } from './errors'
import { native } from './native'

/** A span of time: a number of milliseconds, or a text with its unit, such as `'500ms'`, `'10s'`, `'2m'` or `'1h'`. */
export type Duration = number | string

/** What an option may be. */
type Shape = 'span' | 'count' | 'string' | 'boolean' | 'object' | 'function'

const MEANING: Record<Exclude<Shape, 'span'>, string> = {
  count: 'a whole number',
  string: 'a string',
  boolean: 'true or false',
  object: 'an object',
  function: 'a function',
}

/** What each shape of the native layer is here. */
const SHAPES: Readonly<Record<string, Shape>> = {
  span: 'span',
  limit: 'span',
  flag: 'boolean',
  text: 'string',
  path: 'string',
  range: 'object',
  count: 'count',
}

/** The native layer's options, by their names here. */
function known(options: Record<string, string>): Record<string, Shape> {
  const camel = (name: string): string => name.replace(/_(.)/g, (_, first: string) => first.toUpperCase())
  return Object.fromEntries(Object.entries(options).map(([name, shape]) => [camel(name), SHAPES[shape] ?? 'object']))
}

const OPTIONS = native.options()

export const LOCK: Record<string, Shape> = known(OPTIONS.lock)

export const REQUIRE: Record<string, Shape> = known(OPTIONS.require)

export const CONNECT: Record<string, Shape> = { ...known(OPTIONS.connect), credentials: 'function' }

const { fair: _fair, rank: _rank, label: _label, ...ELECTED } = LOCK

/** Those of a lock but for what is the election's own. */
export const ELECTION: Record<string, Shape> = ELECTED

export const SEMAPHORE: Record<string, Shape> = { ...LOCK, take: 'count' }

export const BARRIER: Record<string, Shape> = { ttl: 'span' }

export const LATCH: Record<string, Shape> = { idle: 'span' }

export const PAUSES: Record<string, Shape> = { min: 'span', max: 'span' }

export const ACQUIRE: Record<string, Shape> = { timeout: 'span', signal: 'object' }

export const OBSERVE: Record<string, Shape> = { every: 'span', signal: 'object' }

export const RUN: Record<string, Shape> = { signal: 'object' }

/**
 * The options without those that are undefined, spans of time as milliseconds. One that is misspelt would otherwise be ignored without a
 * word. `of` is what an option of options is an option of.
 */
export function options<T extends object>(operation: string, given: object | undefined, known: Record<string, Shape>, of = ''): T {
  if (given === undefined) return {} as T
  if (typeof given !== 'object' || given === null || Array.isArray(given) || given instanceof Map) throw invalid(operation, 'the options must be an object')
  if (given instanceof AbortSignal) throw invalid(operation, 'a signal is one of the options: { signal }')
  const set = Object.entries(given).filter(([, value]) => value !== undefined)
  return Object.fromEntries(set.map(([name, value]) => {
    const shape = Object.hasOwn(known, name) ? known[name] : undefined
    if (shape === undefined) {
      throw invalid(operation, `there is no option ${JSON.stringify(of + name)}; there are: ${Object.keys(known).join(', ')}`)
    }
    return [name, option(operation, of + name, shape, value)]
  })) as T
}

function option(operation: string, name: string, shape: Shape, value: unknown): unknown {
  if (shape === 'span') return milliseconds(operation, name, value)
  if (typeof value !== (shape === 'count' ? 'number' : shape) || value === null) throw invalid(operation, `${name} must be ${MEANING[shape]}`)
  return shape === 'string' ? text(operation, name, value) : value
}

/** A text, which may hold what no UTF-8 can. */
export function text(operation: string, what: string, value: unknown): string {
  if (typeof value !== 'string') throw invalid(operation, `the ${what} must be a string`)
  if (!value.isWellFormed()) throw invalid(operation, `the ${what} holds a lone surrogate, which UTF-8 cannot; encode it`)
  return value
}

/** Several of them. */
export function texts(operation: string, what: string, values: unknown): string[] {
  if (typeof values !== 'object' || values === null || !(Symbol.iterator in values)) throw invalid(operation, `the ${what} must be a list of strings`)
  return Array.from(values as Iterable<unknown>, value => text(operation, 'name', value))
}

export function token(operation: string, value: unknown): bigint {
  if (typeof value === 'bigint' && value >= 0n && value < 2n ** 64n) return value
  throw invalid(operation, 'the token must be a bigint from 0 to 2^64 - 1, as guards have it and inspect shows it')
}

/** What is to be called later. */
export function callable(operation: string, what: string, value: unknown): void {
  if (typeof value !== 'function') throw invalid(operation, `the ${what} must be a function`)
}

/** As text, whatever it is. */
export function shown(value: unknown): string {
  try {
    return String(value)
  } catch {
    return `a ${typeof value} that is no text`
  }
}

/** A number of things; the native layer says how many there may be. */
export function count(what: string, value: unknown): number {
  if (Number.isInteger(value) && (value as number) >= 0 && (value as number) < 2 ** 32) return value as number
  throw invalid('lock', `the number of ${what} must be a whole number`)
}

/** The milliseconds of a span of time; the native layer says how many there may be. */
export function milliseconds(operation: string, what: string, value: unknown): number {
  if (typeof value === 'number') {
    if (what === 'ttl') doubt(value)
    return value
  }
  const known = typeof value === 'string' ? native.span(value) : null
  if (known !== null) return known
  const shown = typeof value === 'string' ? `; it is ${JSON.stringify(value)}` : ''
  throw invalid(operation, `${what} must be a number of milliseconds, or a text with its unit such as "500ms", "10s", "2m" or "1h"${shown}`)
}

const [SECOND, HOUR] = [1_000, 3_600_000]

/** Warns once in a process of a ttl that may have been meant in seconds, or microseconds. */
function doubt(ttl: number): void {
  const [short, long] = [ttl > 0 && ttl < SECOND, ttl > HOUR && Number.isFinite(ttl)]
  if (!(short || long) || !native.firstDoubt()) return
  const other = short ? `"${ttl}s" for seconds` : `"${Math.round(ttl / 1_000)}ms"`
  const warning = `the ttl ${ttl} is a number, so milliseconds: ${short ? 'less than a second' : 'more than an hour'}. Write ${other}, or "${ttl}ms" if that is what you want`
  process.emitWarning(warning, { type: 'LockwrightWarning', code: 'lockwright::ttl' })
}

function invalid(operation: string, what: string): LockError {
  return mistake('invalid_config', operation, what)
}
