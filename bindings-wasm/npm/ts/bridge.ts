import { closed, type Connection, type Events, said, type Transport } from './transport.js'

/** Somebody who has a connection of its own to the server, or speaks to it in another way. */
export interface Speaker {
  /** Has the server do these commands, one behind the other, and tells what it answers to each: as its client has it, an error of the server's as an `Error`. */
  ask(commands: string[][]): Promise<unknown>[]
  /** Listens on a channel; `heard` is called with each message. Missing where nothing can be pushed: then waiters ask again by a timer. */
  listen?(channel: string, heard: (message: string) => void): Promise<void>
  /** Listens there no more. */
  ignore?(channel: string): Promise<void>
  /** Ends what was begun for it. */
  close?(): void
}

const LOST = new Error('the connection on which is pushed was lost')
const NOTHING_PUSHED = new Error('ERR nothing can be pushed this way')
/** The connection is somebody else's, who has logged in and chosen a database. */
const NOT_OURS: Record<string, string> = {
  AUTH: 'WRONGPASS the connection is not ours: leave user and password out of the address',
  SELECT: 'ERR the connection is not ours: leave the database out of the address',
}
/** What would be said of our own connection, and not of one that is shared. */
const COURTESY = 'CLIENT'

/** Makes whoever speaks for a connection. */
type Begin = (lost: (error?: unknown) => void) => Speaker | Promise<Speaker>

/**
 * The transport over somebody who speaks to the server: what the engine says is read, and what is answered written as the server would. `begin` makes the speaker
 * for a connection, and calls `lost` when something may have been pushed that was not heard: then another is made.
 */
export function bridge(begin: Begin): Transport {
  return { connect: (_host, _port, events) => new Bridged(begin, events) }
}

class Bridged implements Connection {
  readonly #events: Events
  #speaker: Speaker | undefined
  #over = false
  /** Answers go out in the order of the commands. */
  #last: Promise<void> = Promise.resolve()

  constructor(begin: Begin, events: Events) {
    this.#events = events
    void (async () => {
      try {
        const speaker = await begin(error => this.#fail(error ?? LOST))
        if (this.#over) return void speaker.close?.()
        this.#speaker = speaker
        events.opened()
      } catch (error) {
        this.#fail(error)
      }
    })()
  }

  send(bytes: Uint8Array): void {
    const commands = commandsOf(bytes)
    const asked = commands.filter(isForServer)
    let answers: Promise<unknown>[] = []
    try {
      if (asked.length > 0) answers = (this.#speaker as Speaker).ask(asked)
    } catch (error) {
      // What was asked before is answered first.
      this.#last = this.#last.then(() => this.#fail(error))
      return
    }
    for (const answer of answers) answer.catch(() => {})
    for (const command of commands) {
      const answer = isForServer(command) ? (answers.shift() as Promise<unknown>) : undefined
      this.#last = this.#last.then(() => this.#answer(command, answer)).catch((error: unknown) => this.#fail(error))
    }
  }

  async #answer(command: string[], answer: Promise<unknown> | undefined): Promise<void> {
    const [word = '', channel = ''] = command
    let reply: string
    if (answer !== undefined) reply = encoded(await settled(answer))
    else if (word === 'SUBSCRIBE') reply = await this.#subscribe(channel)
    else if (word === 'UNSUBSCRIBE') {
      await this.#speaker?.ignore?.(channel)
      reply = encoded(['unsubscribe', channel, 0])
    } else if (word === 'PING') reply = '+PONG\r\n'
    else reply = NOT_OURS[word] === undefined ? '+OK\r\n' : `-${NOT_OURS[word]}\r\n`
    this.#tell(reply)
  }

  async #subscribe(channel: string): Promise<string> {
    const speaker = this.#speaker
    if (speaker?.listen === undefined) return encoded(NOTHING_PUSHED)
    const listening = speaker.listen(channel, message => this.#tell(encoded(['message', channel, message])))
    const refused = await settled(listening)
    return refused instanceof Error ? encoded(refused) : encoded(['subscribe', channel, 1])
  }

  #tell(reply: string): void {
    if (!this.#over) this.#events.received(UTF8.encode(reply))
  }

  #fail(error: unknown): void {
    if (this.#over) return
    this.end()
    this.#events.ended('EIO', said(error))
  }

  end(): void {
    this.#over = true
    closed(this.#speaker)
  }
}

const UTF8 = new TextEncoder()
// A mark at the beginning is part of a name.
const TEXT = new TextDecoder('utf-8', { ignoreBOM: true })

function isForServer([word = '']: string[]): boolean {
  return word !== COURTESY && word !== 'SUBSCRIBE' && word !== 'UNSUBSCRIBE' && word !== 'PING' && NOT_OURS[word] === undefined
}

/** What the engine says: whole commands, each a list of texts. */
function commandsOf(bytes: Uint8Array): string[][] {
  let at = 0
  const number = (): number => {
    const end = bytes.indexOf(10, at)
    const value = Number(TEXT.decode(bytes.subarray(at + 1, end - 1)))
    at = end + 1
    return value
  }
  const commands: string[][] = []
  while (at < bytes.length) {
    const words: string[] = []
    for (let left = number(); left > 0; left--) {
      const length = number()
      words.push(TEXT.decode(bytes.subarray(at, at + length)))
      at += length + 2
    }
    commands.push(words)
  }
  return commands
}

/** An answer, or the error that the server answered with: those begin with a code in capitals. What else is thrown ends the connection. */
async function settled(answer: Promise<unknown>): Promise<unknown> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof Error && /^[A-Z][A-Z0-9]+( |$)/.test(error.message)) return error
    throw error
  }
}

function encoded(value: unknown): string {
  if (value === null || value === undefined) return '$-1\r\n'
  if (value instanceof Error) return `-${value.message.replaceAll(/[\r\n]+/g, ' ')}\r\n`
  if (Array.isArray(value)) return `*${value.length}\r\n${value.map(encoded).join('')}`
  if (typeof value === 'number' || typeof value === 'bigint') return `:${value}\r\n`
  if (value === 'OK') return '+OK\r\n'
  const text = String(value)
  return `$${UTF8.encode(text).length}\r\n${text}\r\n`
}
