import { Guard } from './guard.js'
import { Lock } from './lock.js'
import { checked, type LockOptions, text } from './options.js'
import type { Running } from './running.js'

/** One server where locks are kept. Made by {@link connect}. */
export class Client implements AsyncDisposable {
  readonly #running: Running

  private constructor(running: Running) {
    this.#running = running
  }

  /** @internal */
  static make(running: Running): Client {
    return new Client(running)
  }

  /** The address without credentials. */
  get address(): string {
    return this.#running.address
  }

  /**
   * The lock of this name.
   *
   * @throws {@link InvalidConfig} for a bad name or a value out of range, {@link Unsupported} for what the layout cannot do.
   */
  lock(name: string, options?: LockOptions): Lock {
    const given = checked('lock', options)
    const number = this.#running.do(core => core.lock(text('lock', 'name', name), given))
    return Lock.make(this.#running, number, name)
  }

  /**
   * Takes over a lock that was exported, under a higher token.
   *
   * @throws {@link NotOwned} where the secret holds nothing any more, {@link InvalidConfig} for what is no secret.
   */
  async resume(secret: string, options?: LockOptions): Promise<Guard> {
    const given = checked('resume', options)
    const ticket = this.#running.do((core, now) => core.resume(now, text('resume', 'secret', secret), given))
    await this.#running.settled(ticket)
    const number = this.#running.do((core, now) => core.granted(now, ticket))
    return Guard.make(this.#running, number)
  }

  /** Gives back all that is held and ends the connections; waits for the server for a second at most. Guards are lost with the reason `closed`. */
  close(): Promise<void> {
    return this.#running.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}
