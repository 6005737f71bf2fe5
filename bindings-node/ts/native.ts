import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join, resolve } from 'node:path'

import { type Failure, type LockError, mistake } from './errors'
import { HERE, type Loaded, ofNothingThatFits, PLATFORMS, VERSION } from './platforms'
import type { Guarantees, LossReason } from './records'

/** A result of the native layer, or what went wrong. */
export type Answer<T> = T | Failure

/** What a job found, by its kind. `DONE` and `FAILED` are told under a job's number. */
export const enum Kind {
  Failed,
  Done,
  /** Under a guard's number: why it was lost. */
  Lost,
  /** Under the number a client asks by: a question for credentials. */
  Asked,
  News,
  /** Under a socket's number: the descriptor to be read. */
  Read,
  /** Under a socket's number: nothing more is wanted of it. */
  Unread,
  /** Under a guard's number: somebody asks for the lock back. */
  Wanted,
  /** More jobs ended, to be told by the next turn. */
  More,
}

/** A guard's number, its token, the token's epoch and its depth. Tokens that a number holds exactly may be numbers. */
export interface Grant {
  readonly guard: number
  readonly token: bigint | number
  readonly epoch: bigint | number
  readonly depth: number
}

/** What a turn tells: how many jobs stand in `everyday`, negative where there are `More`; or triples of a `Kind`, a number and a value. */
export type Told = number | unknown[]

/** How many numbers are of one job there: its own, and those of its `Grant`; of what was given back, at the depth 0, its own alone. */
export const NUMBERS = 5

export interface NativeHistogram {
  readonly count: number
  readonly sum: number
  readonly max: number
  quantile(q: number): Answer<number>
  atMost(bound: number): Answer<number>
  buckets(): [bound: number, count: number][]
}

export interface NativeMetrics {
  readonly wait: NativeHistogram
  readonly hold: NativeHistogram
}

/** A client, a lock or whatever else is asked something; each has what is asked of its kind. */
export interface NativeHandle {
  readonly address: string
  lock(name: string, options: object): Answer<NativeHandle>
  multiLock(names: string[], options: object): Answer<NativeHandle>
  striped(name: string, segments: number, options: object): Answer<NativeHandle>
  rwlock(name: string, writes: boolean, options: object): Answer<NativeHandle>
  semaphore(name: string, permits: number, take: number, options: object): Answer<NativeHandle>
  latch(name: string, count: number, idle: number | undefined): Answer<NativeHandle>
  barrier(name: string, parties: number, ttl: number | undefined): Answer<NativeHandle>
  exported(secret: string): Answer<NativeHandle>
  guarantees(): Answer<Guarantees>
  require(wanted: object): Answer<boolean>
  endlessWaits(awaited: number[]): [waiter: number, why: Failure][]
  metrics(): NativeMetrics

  readonly name: string
  readonly names: string[]
  readonly reentrant: boolean
  external(): NativeLock
  isKeptBy(owners: number[]): boolean
  forElection(): Answer<NativeHandle>
  readonly count: number
  indexFor(key: string): number
  segment(index: number): Answer<NativeHandle>
  across(others: NativeHandle[]): Answer<NativeHandle>
  markSoldOut(index: number): Answer<boolean>
  restock(): void
}

declare const REACTOR: unique symbol
declare const LOCK: unique symbol

/** Where this copy of the library polls the core. */
export interface NativeReactor {
  readonly [REACTOR]: true
}

/** A lock, as `acquire` takes it. */
export interface NativeLock {
  readonly [LOCK]: true
}

/** An argument of an operation: a time limit or a number of things, a text, a token. */
export type Word = number | string | bigint | undefined

interface Native {
  start(ready: () => void, reads: boolean, everyday: Float64Array): NativeReactor
  turn(reactor: NativeReactor): Told
  goOn(reactor: NativeReactor): Told
  feed(reactor: NativeReactor, socket: number, bytes: Uint8Array, length: number): Told
  taken(reactor: NativeReactor, socket: number): void
  forget(reactor: NativeReactor, job: number): void
  // What these begin is a job, told by its number, or by the complement of that where it was sent at once and needs no turn.
  acquire(reactor: NativeReactor, lock: NativeLock, timeout: number | undefined, owner: number): Answer<number>
  begin(reactor: NativeReactor, of: NativeHandle, operation: string, words: Word[], owner?: number): Answer<number>
  export(reactor: NativeReactor, guard: number, ttl: number): Answer<number>
  release(reactor: NativeReactor, guard: number): Answer<number>
  releaseAll(reactor: NativeReactor, guards: number[]): Answer<number>
  holdAtLeastFor(reactor: NativeReactor, guard: number, span: number): Answer<boolean>
  extend(reactor: NativeReactor, guard: number, ttl: number): Answer<number>
  change(reactor: NativeReactor, guard: number, writes: boolean): Answer<number>
  token(reactor: NativeReactor, guard: number): Answer<[token: bigint, epoch: bigint]>
  remaining(reactor: NativeReactor, guard: number): number
  whyLost(reactor: NativeReactor, guard: number): string | null
  watch(reactor: NativeReactor, guard: number): Answer<boolean>
  releaseRequested(reactor: NativeReactor, guard: number): boolean
  hasGuard(reactor: NativeReactor, guard: number): boolean
  heed(reactor: NativeReactor, guard: number): Answer<boolean>
  abandon(reactor: NativeReactor, guard: number): [name: string, left: number] | null
  give(reactor: NativeReactor, question: number, user?: string, password?: string, why?: string): void
  listen(reactor: NativeReactor, level?: number): Answer<boolean>

  open(reactor: NativeReactor, url: string | undefined, options: object, source: number | undefined): Answer<NativeHandle>
  /** The shapes of all options, in the core's spelling. */
  options(): Record<'lock' | 'connect' | 'require', Record<string, string>>
  /** Every name there is, for the tests. */
  manifest(): unknown
  version(): string
  newOwner(): number
  restored(): void
  /** The milliseconds of a text with a unit; `null` for any other text. */
  span(text: string): number | null
  /** Whether nobody in this process asked before. */
  firstDoubt(): boolean
  sentence(why: LossReason): string
  kitHeader(): string
  kitSetScript(): string
  kitSqlCondition(column: string, placeholder: string): Answer<string>
  kitKeyRange(key: string): Answer<[string, string]>
  kitAdvisoryKey(key: string): Answer<bigint>
  kitHeaderValue(epoch: bigint, token: bigint): string
  kitReadHeader(value: string): bigint[]
}

/** The platforms that this machine may be. */
const FITTING = Object.keys(PLATFORMS).filter(name => name === HERE || name.startsWith(`${HERE}-`))

function load(): Native {
  const given = process.env['LOCKWRIGHT_NATIVE']
  if (given) return loadGiven(resolve(given))
  const places: [place: string, () => Loaded][] = FITTING.map(name => [`@lockwright/${name}`, PLATFORMS[name] as () => Loaded])
  // What was built in this tree goes first. A bundle may have no such folder.
  const built = typeof __dirname === 'string' ? join(__dirname, '..', 'lockwright.node') : undefined
  if (built !== undefined && existsSync(built)) places.unshift([built, () => loadFile(built)])
  const tried: string[] = []
  for (const [place, ask] of places) {
    const loaded = ask()
    if ('native' in loaded && (loaded.native as Native).version() === VERSION) return loaded.native as Native
    if ('native' in loaded) tried.push(`${place} is version ${(loaded.native as Native).version()}`)
    else if (!isMissing(loaded.error, place)) tried.push(`${place}: ${(loaded.error as Error).message}`)
  }
  const error = notFound(tried)
  throw FITTING.length > 0 || tried.length > 0 ? error : ofNothingThatFits(error)
}

/** Nothing else will do then. */
function loadGiven(file: string): Native {
  const refuse = (what: string): never => {
    throw mistake('unsupported', 'load', `LOCKWRIGHT_NATIVE names ${file}, ${what}; correct it, or unset it to use the library that npm installed`)
  }
  if (!existsSync(file)) return refuse('which does not exist')
  const loaded = loadFile(file)
  if ('error' in loaded) return refuse(`which is no native library for ${HERE}: ${(loaded.error as Error).message}`)
  const native = loaded.native as Native
  return native.version() === VERSION ? native : refuse(`which is version ${native.version()}, and this is ${VERSION}`)
}

/** Bundlers do not look into this `require`. */
function loadFile(file: string): Loaded {
  try {
    return { native: createRequire(file)(file) }
  } catch (error) {
    return { error }
  }
}

function isMissing(error: unknown, place: string): boolean {
  const { code, message } = error as NodeJS.ErrnoException
  return code === 'MODULE_NOT_FOUND' && message.includes(place)
}

function notFound(tried: string[]): LockError {
  const found = tried.length > 0 ? `. Found: ${tried.join('; ')}` : ''
  if (FITTING.length === 0) {
    const built = Object.keys(PLATFORMS).join(', ')
    const advice =
      'install lockwright-wasm beside it, which has fewer stores, or build the native library from the source code, and name the file in LOCKWRIGHT_NATIVE'
    return mistake('unsupported', 'load', `lockwright ${VERSION} is not published for ${HERE}, only for ${built}; ${advice}${found}`)
  }
  const wanted = FITTING.map(name => `@lockwright/${name}@${VERSION}`)
  const advice =
    `lockwright ${VERSION} has no native library here; npm install ${wanted.join(' or ')}` +
    ' (npm leaves optional dependencies out with --omit=optional, and when a lock file was made on another platform);' +
    ' in a bundle, mark lockwright as external and install it beside'
  return mistake('unsupported', 'load', advice + found)
}

export const native: Native = load()
