import { callable } from './options.js'

/** Calls `work` with what `acquire` gets, and gives it back; there may be nothing to hold. */
export async function block<G extends AsyncDisposable | null, T>(
  acquire: (number: number) => Promise<G>,
  work: (guard: G) => T | PromiseLike<T>,
): Promise<T> {
  callable('using', 'work', work)
  const guard = await acquire(0)
  let result: T
  try {
    result = await work(guard)
  } catch (error) {
    // The block's own error is the one to be known.
    await Promise.resolve(guard?.[Symbol.asyncDispose]()).catch(() => {})
    throw error
  }
  await guard?.[Symbol.asyncDispose]()
  return result
}
