/** Waits for so many milliseconds, or until the signal aborts. */
export function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise(resolve => {
    if (signal?.aborted === true) return resolve()
    const timer = setTimeout(() => done(), ms)
    const listensNoMore = signal === undefined ? undefined : onAbort(signal, () => done())
    const done = (): void => {
      clearTimeout(timer)
      listensNoMore?.()
      resolve()
    }
  })
}

/** Has `giveUp` called when the signal aborts, until what this returns is called. */
export function onAbort(signal: AbortSignal, giveUp: () => void): () => void {
  signal.addEventListener('abort', giveUp, { once: true })
  // What was begun before this may have aborted it.
  if (signal.aborted) giveUp()
  return () => signal.removeEventListener('abort', giveUp)
}
