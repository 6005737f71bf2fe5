import { clearTimeout, setImmediate, setTimeout } from 'node:timers'

// As they are when the library is loaded: fake timers of a test must not stop it.
/** `setTimeout` and `setImmediate`. */
export const [begin, later] = [setTimeout, setImmediate]
const end = clearTimeout

const NOW = Promise.resolve()

/** Calls `work` when what runs now has ended, as a microtask; `queueMicrotask` itself may be a fake that never calls. */
export function soon(work: () => void): void {
  void NOW.then(work)
}

/** Waits for so many milliseconds, or until the signal aborts. */
export function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise(resolve => {
    if (signal?.aborted === true) return resolve()
    const timer = begin(() => done(), ms)
    const listensNoMore = signal === undefined ? undefined : onAbort(signal, () => done())
    const done = (): void => {
      end(timer)
      listensNoMore?.()
      resolve()
    }
  })
}

/** Who waits under which signal. */
const waiting = new WeakMap<AbortSignal, Set<() => void>>()

/** Has `giveUp` called when the signal aborts, until what this returns is called. Many waits are one listener: Node takes many for a leak. */
export function onAbort(signal: AbortSignal, giveUp: () => void): () => void {
  const waits = waiting.get(signal) ?? listen(signal)
  waits.add(giveUp)
  return () => {
    if (waits.delete(giveUp) && waits.size === 0) {
      waiting.delete(signal)
      signal.removeEventListener('abort', abort)
    }
  }
}

function listen(signal: AbortSignal): Set<() => void> {
  const waits = new Set<() => void>()
  waiting.set(signal, waits)
  signal.addEventListener('abort', abort, { once: true })
  return waits
}

function abort(this: AbortSignal): void {
  const waits = waiting.get(this) ?? []
  waiting.delete(this)
  for (const giveUp of waits) giveUp()
}
