/**
 * Ready-made checks for what a lock protects, which refuse a holder that was stopped past its lease. All of them admit the token
 * that was seen last, since a holder may write more than once, and refuse lower ones.
 *
 * @module
 */
import { checked, mistake } from './errors'
import { native } from './native'
import { text, token as checkedToken } from './options'

/** The name of a request's header that carries the token. */
export const HEADER: string = native.kitHeader()

/**
 * For `EVAL`, with the key of the value, the key of its highest token (in the same slot) and the arguments token and value:
 * sets both and returns 1, or returns 0 where a higher token was seen.
 */
export const SET_SCRIPT: string = native.kitSetScript()

/** A token and its epoch, such as a guard has. */
export interface Fenced {
  readonly token: bigint
  /** Goes before the token when two are compared; 0. */
  readonly epoch?: bigint | undefined
}

/** The same in full. */
export interface FencingToken extends Fenced {
  readonly epoch: bigint
}

/** The token is lower than one that was seen before: whoever shows it has lost the lock. */
export class Stale extends Error {
  override get name(): string {
    return 'Stale'
  }
}

/** What was given, if it is that. */
function fenced(operation: string, given: Fenced): FencingToken {
  if (typeof given !== 'object' || given === null) throw mistake('invalid_config', operation, 'a token comes as an object with token and epoch, such as a guard')
  const { token, epoch = 0n } = given
  return { token: checkedToken(operation, token), epoch: checkedToken(operation, epoch) }
}

/** The highest token that something has seen: for whatever keeps its state in memory. */
export class Fence {
  #highest: FencingToken | undefined

  /** @throws {@link InvalidConfig} for what is no token. */
  constructor(highest?: Fenced) {
    this.#highest = highest === undefined ? undefined : fenced('kit', highest)
  }

  get highest(): FencingToken | undefined {
    return this.#highest
  }

  /**
   * Takes note of the token.
   *
   * @throws {@link Stale} when a higher one was seen; {@link InvalidConfig} for what is no token.
   */
  admit(shown: Fenced): void {
    const { token, epoch } = fenced('admit', shown)
    const highest = this.#highest ?? { token, epoch }
    if (epoch < highest.epoch || (epoch === highest.epoch && token < highest.token)) {
      throw new Stale(`the token ${token} is stale: ${highest.token} was seen already; its holder has lost the lock`)
    }
    this.#highest = { token, epoch }
  }
}

/**
 * A condition for the `WHERE` of an `UPDATE` that sets `column` to the token: rows that a higher token wrote stay as they are.
 * That it changed no row means that the token is stale, or the row is not there.
 *
 * @throws {@link InvalidConfig} for a column or a placeholder that is empty, has more than 1024 bytes or a control character.
 */
export function sqlCondition(column: string, placeholder = '?'): string {
  return checked(native.kitSqlCondition(text('kit', 'column', column), text('kit', 'placeholder', placeholder)))
}

/**
 * The keys below `key`, a lock's name with the address's prefix before it, in a store of keys and revisions: from the first to
 * before the second. A transaction that compares the creation revisions of this range with the token to be *not equal* finds them
 * so once the lock is lost; what is to be written only while it is held stands in its `else`.
 *
 * @throws {@link InvalidConfig} for what is no lock's key: empty, above 1536 bytes, or with a control character.
 */
export function keyRange(key: string): [from: string, to: string] {
  return checked(native.kitKeyRange(text('kit', 'key', key)))
}

/**
 * The number by which PostgreSQL knows the advisory lock of `key`, a lock's name with the address's prefix before it. A transaction
 * that takes it itself, by `pg_advisory_xact_lock`, and the holders of that lock in layout `advisory` exclude one another.
 *
 * @throws {@link InvalidConfig} as {@link keyRange} does.
 */
export function advisoryKey(key: string): bigint {
  return checked(native.kitAdvisoryKey(text('kit', 'key', key)))
}

/** The value of the header. */
export function headerValue(of: Fenced): string {
  const { token, epoch } = fenced('kit', of)
  return native.kitHeaderValue(epoch, token)
}

/** What a header says; `undefined` for what is none. What comes without one is to be refused as well. */
export function readHeader(value: string): FencingToken | undefined {
  const [epoch, token] = native.kitReadHeader(text('kit', 'header', value))
  return epoch === undefined || token === undefined ? undefined : { epoch, token }
}
