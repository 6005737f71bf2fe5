import { AsyncLocalStorage } from 'node:async_hooks'

import { native } from './native'

const current = new AsyncLocalStorage<Owner>()

/**
 * Somebody who may acquire a reentrant lock again. All that begins within `run`, and whatever that awaits or starts, is one
 * owner: what runs there side by side is not kept apart by a reentrant lock.
 */
export class Owner {
  /** @internal */
  readonly number: number = native.newOwner()

  /** Calls `work` as this owner. */
  run<T>(work: () => T): T {
    return current.run(this, work)
  }

  /** The owner that this code runs as, if there is one. */
  static get current(): Owner | undefined {
    return current.getStore()
  }
}
