/**
 * Blocks that hold something, and waits in them that would never end.
 *
 * A callback is called in a frame of its own, which is named by the number of what it holds. Whoever has waited for a second without a
 * limit looks at its stack: V8 shows there who awaits whom, and so which of these frames go on only when the wait is over. The core knows
 * who holds what, and finds the circle. A wait that nobody awaits yet, or whose promise several await, shows no frame, and is left alone.
 */
import { randomBytes } from 'node:crypto'

import { type Failure, isFailure } from './errors'
import type { Answer, NativeHandle } from './native'
import { callable } from './options'
import { giveUp, numberOf, outcome } from './reactor'
import { begin, soon } from './time'

/** Numbers of acquisitions begin where those of `Owner` end. */
let last = 2 ** 32

/** The number of an acquisition, by which the core knows who holds what. */
export function newNumber(): number {
  return ++last
}

/** What a block is called in, and the number of what it holds. */
interface Frame {
  readonly number: number
  readonly call: <G, T>(work: (guard: G) => T | PromiseLike<T>, guard: G) => Promise<T>
}

/** Another copy of the library in this process counts its blocks by itself. */
const NAME = `lockwright block ${randomBytes(4).toString('hex')}-`
/** Those that no block is in: to name one costs more than all else. */
const spare: Frame[] = []
const MOST_SPARE = 1_000
/** How many blocks run. */
let blocks = 0

function newFrame(): Frame {
  const number = newNumber()
  const call: Frame['call'] = async (work, guard) => await work(guard)
  return { number, call: Object.defineProperty(call, 'name', { value: NAME + number }) }
}

/** Calls `work` with what `acquire` gets for a block of that number, and gives it back; there may be nothing to hold. */
export async function block<G extends AsyncDisposable | null, T>(
  acquire: (number: number) => Promise<G>,
  work: (guard: G) => T | PromiseLike<T>,
): Promise<T> {
  callable('using', 'work', work)
  const frame = spare.pop() ?? newFrame()
  blocks++
  try {
    const guard = await acquire(frame.number)
    let result: T
    try {
      result = await frame.call(work, guard)
    } catch (error) {
      // The block's own error is the one to be known.
      await Promise.resolve(guard?.[Symbol.asyncDispose]()).catch(() => {})
      throw error
    }
    await guard?.[Symbol.asyncDispose]()
    return result
  } finally {
    blocks--
    if (spare.length < MOST_SPARE) spare.push(frame)
  }
}

/** Which blocks go on only when a wait is over. */
interface Awaiting {
  /** Certainly. */
  readonly surely: readonly number[]
  /** Unless another promise of a `Promise.all` or `Promise.any` ends it. */
  readonly perhaps: readonly number[]
}

const NOBODY: Awaiting = { surely: [], perhaps: [] }
const DEPTH = 100

/** Which blocks await the async function that calls this. */
function awaiting(): Awaiting {
  const [surely, perhaps]: [number[], number[]] = [[], []]
  let found = surely
  for (const site of asyncSites()) {
    if (/^async Promise\.(all|any) /.test(String(site))) found = perhaps
    const name = site.getFunctionName()
    if (name?.startsWith(NAME) === true) found.push(Number(name.slice(NAME.length)))
  }
  return { surely, perhaps }
}

function asyncSites(): NodeJS.CallSite[] {
  const { prepareStackTrace, stackTraceLimit } = Error
  try {
    Error.stackTraceLimit = DEPTH
    Error.prepareStackTrace = (_, sites) => sites
    const sites: unknown = new Error().stack
    return Array.isArray(sites) ? (sites as NodeJS.CallSite[]).filter(site => String(site).startsWith('async ')) : []
  } catch {
    // Where errors are frozen nothing is found.
    return []
  } finally {
    try {
      Object.assign(Error, { prepareStackTrace, stackTraceLimit })
    } catch {
      // As above.
    }
  }
}

/** Told instead of a result: look who awaits this now. */
const LOOK = Symbol('look')

/** One that has no limit. */
class Wait<T> {
  awaiting = NOBODY
  isOld = false
  isWarned = false
  #tell: ((told: Answer<T> | typeof LOOK) => void) | undefined
  #over = false

  constructor(readonly number: number, readonly client: NativeHandle, readonly job: number, private readonly ended: Promise<Answer<T>>) {
    void ended.then(told => this.end(told))
  }

  /** Ends with its result; or with `LOOK`, and goes on. */
  next(): Promise<Answer<T> | typeof LOOK> {
    return this.#over ? this.ended : new Promise(resolve => (this.#tell = resolve))
  }

  look(): void {
    this.#tell?.(LOOK)
  }

  end(told: Answer<T>): void {
    this.#over = true
    waits.delete(this as Wait<unknown>)
    this.#tell?.(told)
  }
}

const waits = new Set<Wait<unknown>>()

/** Whether a wait is to be watched: whoever may give up does not wait for ever, and neither does whoever waits for no block. */
export function mayBeEndless(signal: AbortSignal | undefined): boolean {
  return blocks > 0 && signal === undefined
}

/** What comes of an acquisition that was begun; `deadlock` where it would wait for ever for a block that awaits it. */
export async function granted<T>(number: number, client: NativeHandle, begun: Answer<number>): Promise<Answer<T>> {
  const wait = new Wait<T>(number, client, numberOf(begun as number), outcome<T>(begun))
  watch(wait as Wait<unknown>)
  for (;;) {
    const told = await wait.next()
    if (told !== LOOK) return told
    wait.awaiting = awaiting()
  }
}

const PATIENCE = 1_000
let isWatching = false

function watch(wait: Wait<unknown>): void {
  waits.add(wait)
  if (!isWatching) arm(0)
}

/** A look costs some 10 us for each of them. */
function arm(seen: number): void {
  isWatching = true
  begin(look, Math.max(PATIENCE, seen)).unref()
}

/** Has all that waited already the last time say who awaits them. */
function look(): void {
  isWatching = false
  if (waits.size === 0) return
  const old = [...waits].filter(wait => wait.isOld)
  for (const wait of waits) wait.isOld = true
  for (const wait of old) wait.look()
  // They have looked when this is called.
  soon(() => {
    for (const client of new Set(old.map(wait => wait.client))) judge(client, old.filter(wait => wait.client === client))
    arm(old.length)
  })
}

function judge(client: NativeHandle, all: readonly Wait<unknown>[]): void {
  for (const [wait, why] of endless(client, all, ({ awaiting }) => awaiting.surely)) {
    giveUp(wait.job)
    wait.end(why)
  }
  const rest = all.filter(wait => waits.has(wait))
  for (const [wait, why] of endless(client, rest, ({ awaiting: { surely, perhaps } }) => [...surely, ...perhaps])) {
    if (!wait.isWarned) warn(why)
    wait.isWarned = true
  }
}

/** One wait of each circle, and why it would never end. */
function endless(
  client: NativeHandle,
  all: readonly Wait<unknown>[],
  blocksOf: (wait: Wait<unknown>) => readonly number[],
): [wait: Wait<unknown>, why: Failure][] {
  const awaited = all.flatMap(wait => blocksOf(wait).flatMap(block => [block, wait.number]))
  const known = new Map(all.map(wait => [wait.number, wait]))
  return client.endlessWaits(awaited).map(([waiter, why]) => [known.get(waiter) as Wait<unknown>, why])
}

function warn({ message }: Failure): void {
  const unless = 'it goes on only if another of the promises that are awaited together with it ends that (Promise.all, Promise.any)'
  process.emitWarning(`${message}; ${unless}`, { type: 'LockwrightWarning', code: 'lockwright::deadlock' })
}

/** What an acquisition got, said again where the caller itself is in the way: for the async function that the caller awaits. */
export function explained<T>(told: Answer<T>, isKeptBy: (blocks: number[]) => boolean): Answer<T> {
  if (blocks === 0 || !isFailure(told) || told.code !== 'timeout') return told
  const { surely, perhaps } = awaiting()
  const around = [...surely, ...perhaps]
  if (around.length === 0 || !isKeptBy(around)) return told
  return { ...told, message: `${told.message} (the caller's own: an outer async context of it holds the lock, and awaits this)` }
}

