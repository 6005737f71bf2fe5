import type { Core } from '../wasm/lockwright.js'
import type { NativeHandle } from './native.js'
import type { Running } from './running.js'
import { onAbort } from './time.js'

/** How an operation waits for others: for how many milliseconds, and until what. */
export interface Within {
  readonly timeout?: number
  readonly signal?: AbortSignal
}

/** What the engine takes for "as its options say". */
const AS_IT_SAYS = -1

/** What an operation ends with. */
export function ask<T>({ running, number }: NativeHandle, operation: string, argument = 0): Promise<T> {
  return answer(running, (core, now) => core.ask(now, number, operation, argument))
}

/** What comes of a ticket. */
export async function answer<T>(running: Running, of: (core: Core, now: number) => number): Promise<T> {
  const ticket = running.do(of)
  await running.settled(ticket)
  return running.do((core, now) => core.result(now, ticket) as T)
}

/** The same of one that waits for others, as `within` says. */
export async function wait<T>({ running, number }: NativeHandle, _operation: string, within: Within): Promise<T> {
  return acquired<T>({ running, number }, within)
}

/** What comes of waiting for what has this number. When the signal aborts, what was granted is given back. */
export async function acquired<T>({ running, number }: NativeHandle, { timeout, signal }: Within): Promise<T> {
  signal?.throwIfAborted()
  // What is below zero is as wrong as it is in the engine, which has a use of its own for -1.
  const limit = timeout === undefined ? AS_IT_SAYS : timeout < 0 ? NaN : timeout
  const ticket = running.do((core, now) => core.acquire(now, number, limit))
  await until(running.settled(ticket), signal, () => {
    running.forget(ticket)
    running.do((core, now) => core.abandon(now, ticket))
  })
  return running.do((core, now) => core.result(now, ticket) as T)
}

function until(settled: Promise<void>, signal: AbortSignal | undefined, giveUp: () => void): Promise<void> {
  if (signal === undefined) return settled
  return new Promise((resolve, reject) => {
    const listensNoMore = onAbort(signal, () => {
      giveUp()
      reject(signal.reason as Error)
    })
    void settled.then(() => {
      listensNoMore()
      resolve()
    })
  })
}
