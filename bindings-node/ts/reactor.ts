import { closeSync } from 'node:fs'
import { Socket } from 'node:net'

import { checked, errorOf, type Failure } from './errors'
import { type Heard, tell } from './log'
import { Answer, type Grant, Kind, native, type NativeHandle, type NativeReactor, NUMBERS, type Told, type Word } from './native'
import { shown } from './options'
import type { LossReason } from './records'
import { later, onAbort, soon } from './time'

/** Who awaits what job, by its number, which is another's once this one has ended: a map costs more than all else that is done here. */
const open: (((told: unknown) => void) | undefined)[] = []
/** Who wants to know of what guard's loss. */
const watched = new Map<number, (why: LossReason) => void>()
const heeded = new Map<number, (() => void)[]>()
/** Who is asked for credentials. */
const sources = new Map<number, CredentialsSource>()
let sourcesEver = 0

/** User and password of a new connection. */
export interface Credentials {
  /** The user; empty for the store's default user. */
  readonly user?: string | undefined
  readonly password: string
}

/** Gives user and password. */
export type CredentialsSource = () => Credentials | PromiseLike<Credentials>

let scheduled = false

let made: NativeReactor | undefined

/** Where the native layer tells of grants and releases, without an object for each. */
const everyday = new Float64Array(64 * NUMBERS)

/** Bun makes sockets of descriptors and never reads them. */
const READS = process.versions['bun'] === undefined

/** The one reactor of this thread, made at first need. */
export function reactor(): NativeReactor {
  return (made ??= native.start(called, READS, everyday))
}

/** How many turns follow one another before timers and sockets have theirs: what is granted at once is asked for again at once. */
const MOST = 32
let turns = 0

/** All that is asked within a tick goes out in one turn. */
function schedule(): void {
  if (scheduled) return
  scheduled = true
  if (turns < MOST) soon(goOn)
  else later(called)
}

/** The event loop calls: whatever else it has comes before the next. */
function called(): void {
  scheduled = false
  turns = 1
  hear(native.turn(reactor()))
}

function goOn(): void {
  scheduled = false
  turns++
  hear(native.goOn(reactor()))
}

/** What is done with what is told, by its kind. */
const HEARERS: Record<Kind, (number: number, value: never) => unknown> = {
  [Kind.Failed]: settle,
  [Kind.Done]: settle,
  [Kind.Lost]: lost,
  [Kind.Asked]: answer,
  [Kind.News]: (_, heard: Heard) => tell(heard),
  [Kind.Read]: read,
  [Kind.Unread]: socket => sockets.get(socket)?.destroy(),
  [Kind.Wanted]: wanted,
  [Kind.More]: more,
}

let areMore = false
let looksForMore = false

/**
 * More jobs ended than are told. What is asked because of those that are told is sent in the next turn, which tells more: so the
 * store works while this thread does. It comes soon where something is asked, and anyway.
 */
function more(): void {
  areMore = true
  if (looksForMore) return
  looksForMore = true
  later(() => {
    looksForMore = false
    if (areMore) called()
  })
}

function hear(told: Told): void {
  areMore = false
  if (typeof told === 'number') {
    if (told < 0) more()
    return hearEveryday(Math.abs(told))
  }
  for (let at = 0; at < told.length; at += 3) HEARERS[told[at] as Kind](told[at + 1] as number, told[at + 2] as never)
}

function hearEveryday(count: number): void {
  for (let at = 0; at < count * NUMBERS; at += NUMBERS) {
    const depth = everyday[at + 4] as number
    settle(everyday[at] as number, depth === 0 ? 'released' : grantAt(at, depth))
  }
}

function grantAt(at: number, depth: number): Grant {
  return { guard: everyday[at + 1] as number, token: everyday[at + 2] as number, epoch: everyday[at + 3] as number, depth }
}

const sockets = new Map<number, Socket>()

/** All that comes from a socket goes to the native layer, which writes to it by a descriptor of its own. */
function read(number: number, fd: number): void {
  const feed = (length: number, bytes: Uint8Array): void => {
    turns = 0
    hear(native.feed(reactor(), number, bytes, length))
  }
  const callback = (length: number, bytes: Uint8Array): boolean => (feed(length, bytes), true)
  const options = { fd, readable: true, writable: false, onread: { buffer: Buffer.allocUnsafeSlow(16_384), callback } }
  let socket: Socket
  try {
    socket = new Socket(options)
  } catch {
    // It has ended already: nothing else is refused here.
    closeSync(fd)
    soon(() => feed(0, NOTHING))
    return
  } finally {
    native.taken(reactor(), number)
  }
  sockets.set(number, socket)
  // What failed has ended, and is dialled again where it is wanted.
  socket.on('error', () => {})
  socket.once('close', () => {
    sockets.delete(number)
    feed(0, NOTHING)
  })
  // Whoever waits for an answer keeps the process alive.
  socket.unref()
}

const NOTHING = new Uint8Array(0)

function settle(job: number, told: unknown): void {
  const resolve = open[job]
  open[job] = undefined
  resolve?.(told)
}

/** What comes of a job that was begun: its result, or the error that it failed with. */
export function outcome<T>(begun: Answer<number>): Promise<Answer<T>> {
  const job = started(begun)
  return new Promise(resolve => (open[job] = resolve as (told: unknown) => void))
}

/** The same, until `signal` aborts, if there is one: then the job is given up, and what it got given back. */
export function attempt<T>(begun: Answer<number>, signal: AbortSignal | undefined): Promise<Answer<T>> {
  if (signal === undefined) return outcome<T>(begun)
  const job = started(begun)
  return new Promise((resolve, reject) => {
    const listensNoMore = onAbort(signal, () => {
      giveUp(job)
      reject(signal.reason as Error)
    })
    open[job] = told => {
      listensNoMore()
      resolve(told as Answer<T>)
    }
  })
}

/** Nobody wants what comes of a job any more. */
export function giveUp(job: number): void {
  open[job] = undefined
  native.forget(reactor(), job)
  schedule()
}

/** Begins an operation of the native layer, for an acquisition of that number if it is one. */
export function begin(of: NativeHandle, operation: string, words: Word[], owner?: number): Answer<number> {
  return native.begin(reactor(), of, operation, words, owner)
}

/** What an operation of the native layer ends with. */
export async function ask<T>(of: NativeHandle, operation: string, ...words: Word[]): Promise<T> {
  return checked(await outcome<T>(begin(of, operation, words)))
}

/** The same of one that waits for others, as `within` says. */
export async function wait<T>(of: NativeHandle, operation: string, { timeout, signal }: Within, owner?: number): Promise<T> {
  signal?.throwIfAborted()
  return checked(await attempt<T>(begin(of, operation, [timeout], owner), signal))
}

/** How an operation waits for others: for how many milliseconds, and until what. */
export interface Within {
  readonly timeout?: number
  readonly signal?: AbortSignal
}

function started(begun: Answer<number>): number {
  if (typeof begun !== 'number') throw errorOf(begun as Failure)
  if (begun >= 0) schedule()
  return numberOf(begun)
}

/** The number of a job that was begun; one that was sent at once is told by the complement of that. */
export function numberOf(begun: number): number {
  return begun < 0 ? ~begun : begun
}

/** Has `lost` called once, if the guard is lost before it ends. */
export function watch(guard: number, lost: (why: LossReason) => void): void {
  watched.set(guard, lost)
  native.watch(reactor(), guard)
  schedule()
}

/** Has `asked` called once, if somebody asks for the guard's lock back before it ends. */
export function heed(guard: number, asked: () => void): void {
  const others = heeded.get(guard)
  heeded.set(guard, [...(others ?? []), asked])
  if (others !== undefined) return
  native.heed(reactor(), guard)
  schedule()
}

function wanted(guard: number): void {
  const asked = heeded.get(guard) ?? []
  heeded.delete(guard)
  for (const callback of asked) callback()
}

export function unwatch(guard: number): void {
  watched.delete(guard)
  heeded.delete(guard)
}

function lost(guard: number, why: LossReason): void {
  const tell = watched.get(guard)
  watched.delete(guard)
  tell?.(why)
}

/** The number by which the native layer asks for credentials. */
export function registerSource(source: CredentialsSource): number {
  sources.set(++sourcesEver, source)
  return sourcesEver
}

export function forgetSource(source: number): void {
  sources.delete(source)
}

async function answer(source: number, question: number): Promise<void> {
  try {
    const ask = sources.get(source)
    if (ask === undefined) throw new Error('the client is gone')
    const found: unknown = await ask()
    const { user = '', password } = (found ?? {}) as Partial<Credentials>
    if (typeof user === 'string' && typeof password === 'string' && user.isWellFormed() && password.isWellFormed()) {
      native.give(reactor(), question, user, password)
    } else {
      // What it is instead may be half a secret.
      native.give(reactor(), question, undefined, undefined, 'the credentials function must return { user, password }, two strings')
    }
  } catch (error) {
    native.give(reactor(), question, undefined, undefined, `the credentials function threw ${shown(error)}`)
  }
}
