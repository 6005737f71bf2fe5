import { join } from 'node:path'

import { type Failure, type LockError, mistake } from './errors'
import type { Guarantees, LossReason, Requirements } from './records'

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
}

/** A guard's number, its token, the token's epoch and its depth. */
export type Grant = [guard: number, token: bigint, epoch: bigint, depth: number]

export interface NativeBundle {
  readonly names: string[]
}

export interface NativeSegments {
  readonly count: number
  indexFor(key: string): number
  lock(index: number): Answer<NativeLock>
  markSoldOut(index: number): Answer<boolean>
  restock(): void
}

export interface NativeLock {
  readonly name: string
  readonly reentrant: boolean
  guarantees(): Guarantees
  fairIfPossible(): NativeLock
}

export interface NativeLatch {
  readonly name: string
}

export interface NativeBarrier {}

export interface NativeHistogram {
  readonly count: number
  readonly sum: number
  readonly max: number
  quantile(q: number): Answer<number>
  atMost(bound: number): Answer<number>
  buckets(): [bound: number, count: number][]
}

export interface NativeFigures {
  counts(): Record<string, number>
  lost(): Record<string, number>
  wait(): NativeHistogram
  hold(): NativeHistogram
}

export interface NativeClient {
  readonly address: string
  lock(name: string, options: object): Answer<NativeLock>
  multiLock(names: string[], options: object): Answer<NativeBundle>
  striped(name: string, segments: number, options: object): Answer<NativeSegments>
  rwlock(name: string, writes: boolean, options: object): Answer<NativeLock>
  semaphore(name: string, permits: number, take: number, options: object): Answer<NativeLock>
  latch(name: string, count: number, idle: number | undefined): Answer<NativeLatch>
  barrier(name: string, parties: number, ttl: number | undefined): Answer<NativeBarrier>
  exported(secret: string): Answer<NativeLock>
  guarantees(): Answer<Guarantees>
  require(wanted: Requirements): Answer<boolean>
  metrics(): NativeFigures
}

export interface NativeReactor {
  turn(): unknown[]
  feed(socket: number, bytes: Uint8Array, length: number): unknown[]
  forget(job: number): void
  acquire(lock: NativeLock, timeout: number | undefined, owner: number | undefined): Answer<number>
  acquireAll(bundle: NativeBundle, timeout: number | undefined): Answer<number>
  any(segments: NativeSegments, timeout: number | undefined): Answer<number>
  resume(lock: NativeLock, secret: string, owner: number | undefined): Answer<number>
  export(guard: number, ttl: number): Answer<number>
  release(guard: number): Answer<number>
  extend(guard: number, ttl: number): Answer<number>
  change(guard: number, writes: boolean): Answer<number>
  resize(lock: NativeLock, permits: number): Answer<number>
  latchWait(latch: NativeLatch, timeout: number | undefined): Answer<number>
  latchCountDown(latch: NativeLatch): Answer<number>
  latchCount(latch: NativeLatch): Answer<number>
  latchSet(latch: NativeLatch, to: number): Answer<number>
  barrierWait(barrier: NativeBarrier, timeout: number | undefined): Answer<number>
  barrierWaiting(barrier: NativeBarrier): Answer<number>
  token(guard: number): Answer<[token: bigint, epoch: bigint]>
  remaining(guard: number): number
  whyLost(guard: number): string | null
  watch(guard: number): Answer<boolean>
  abandon(guard: number): number
  inspect(client: NativeClient, name: string): Answer<number>
  inspectLock(lock: NativeLock): Answer<number>
  list(client: NativeClient): Answer<number>
  breakLock(client: NativeClient, name: string, expected: bigint): Answer<number>
  breakHold(lock: NativeLock, expected: bigint): Answer<number>
  close(client: NativeClient): Answer<number>
  give(question: number, user?: string, password?: string, why?: string): void
  listen(level?: number): Answer<boolean>
}

interface Native {
  Reactor: new (ready: () => void) => NativeReactor
  open(reactor: NativeReactor, url: string | undefined, options: object): Answer<NativeClient>
  version(): string
  newOwner(): number
  restored(): void
  codes(): { code: string; retryable: boolean }[]
  sentence(why: LossReason): string
  kitHeader(): string
  kitSetScript(): string
  kitSqlCondition(column: string, placeholder: string): string
  kitHeaderValue(epoch: bigint, token: bigint): string
  kitReadHeader(value: string): bigint[]
}

/** The packages that may have the native library for this machine; npm installs the one that fits. */
function packages(): string[] {
  const machine = `@lockwright/${process.platform}-${process.arch}`
  return process.platform === 'linux' ? [`${machine}-gnu`, `${machine}-musl`] : [machine]
}

function load(): Native {
  const version = (require('../package.json') as { version: string }).version
  const tried: string[] = []
  const given = process.env['LOCKWRIGHT_NATIVE']
  // A build of this tree's own goes first.
  for (const place of given ? [given] : [join(__dirname, '..', 'lockwright.node'), ...packages()]) {
    let native: Native
    try {
      native = require(place) as Native
    } catch (error) {
      if (!isMissing(error, place)) tried.push(`${place}: ${(error as Error).message}`)
      continue
    }
    if (native.version() === version) return native
    tried.push(`${place} is version ${native.version()}`)
  }
  throw notFound(version, tried)
}

function isMissing(error: unknown, place: string): boolean {
  const { code, message } = error as NodeJS.ErrnoException
  return code === 'MODULE_NOT_FOUND' && message.includes(place)
}

function notFound(version: string, tried: string[]): LockError {
  const wanted = packages().map(name => `${name}@${version}`)
  const advice =
    `lockwright ${version} has no native library here; npm install ${wanted.join(' or ')}` +
    ' (npm leaves optional dependencies out with --omit=optional, and when a lock file was made on another platform)'
  return mistake('unsupported', 'load', tried.length > 0 ? `${advice}. Found: ${tried.join('; ')}` : advice)
}

export const native: Native = load()
